"""Fit the novelty classifiers h_l on calibration sets, let them vote on test sets, and score by the votes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import Confidence, Summary, Theta, summarise, theta, undefined_ratio
from outclass.ensemble import NoveltyClassifiers, detection_rates, fit_novelty_classifiers, novelty_scores
from outclass.sets import set_means
from stages import command, files, folds, paths, tables
from stages.params import Ensemble
from stages.params import load as load_params


@dataclass(frozen=True)
class Reading:
    """One way to read confidences: which kind, and how the two best are compared."""

    suffix: str  # of the method's name
    confidence: Confidence
    theta: Theta


LITERAL = Reading("/ratio", "activation", "ratio")
"""Equation 3 as printed, on the network's activities: reported in every run beside the configured reading."""


@dataclass(frozen=True)
class Thetas:
    """A fold's sets of one role and size as its L partition networks see them."""

    sets: folds.Sets
    of_set: Floats  # (L, m): theta_S
    of_own_class: Floats  # (L, m): theta_i of the class that the partition's network chose
    undefined: Ints  # (L,): how many ratios read 0 / 0


@dataclass(frozen=True)
class PartitionTables:
    """The partitions stage's output for one kind of confidence, in the order of (l, s, set) and (l, class)."""

    sets: pd.DataFrame
    classes: pd.DataFrame
    known: Strings
    partitions: int

    def theta_of_classes(self, kind: Theta) -> Floats:
        """(L, known classes), NaN where the partition presumes the class novel."""
        values = np.full((self.partitions, len(self.known)), np.nan)
        codes = folds.encode(self.classes["class"].to_numpy(dtype=str), self.known)
        values[self.classes["l"], codes] = theta(*_vectors(self.classes), kind)
        return values

    def thetas(self, sets: dict[int, folds.Sets], kind: Theta) -> dict[int, Thetas]:
        of_classes = self.theta_of_classes(kind)
        return {size: self._thetas(size, chosen, kind, of_classes) for size, chosen in sets.items()}

    def _thetas(self, size: int, chosen: folds.Sets, kind: Theta, of_classes: Floats) -> Thetas:
        rows = self.sets[(self.sets["s"] == size) & self.sets["set"].isin(chosen.numbers)]
        shape = (self.partitions, len(chosen.numbers))
        own = folds.encode(rows["top"].to_numpy(dtype=str), self.known).reshape(shape)
        vectors = _vectors(rows)
        return Thetas(
            sets=chosen,
            of_set=theta(*vectors, kind).reshape(shape),
            of_own_class=np.take_along_axis(of_classes, own, axis=1),
            undefined=undefined_ratio(*vectors).reshape(shape).sum(axis=1) * (kind != "difference"),
        )


@dataclass(frozen=True)
class Verdict:
    """What the ensemble of one reading says of the test sets of one size."""

    reading: Reading
    size: int
    h: NoveltyClassifiers
    tested: Thetas
    novel: Bools  # (L, m): sets whose class the partition's network was not taught
    relevant: Bools  # (L, m): partitions that have a say, as they presume the class chosen by the backbone known
    margins: Floats  # (L, m)
    backbone: Summary  # of the sets in the network of all known classes


def run(repetition: int, fold: int) -> str:
    """Write runs/ensemble/r<repetition>-f<fold>/{classifiers,votes,scores}.parquet."""
    params = load_params().ensemble
    readings = (Reading("", params.confidence, params.theta), LITERAL)
    verdicts = [verdict for reading in readings for verdict in _judge(repetition, fold, reading, params)]
    with files.finished_folder(paths.run("ensemble", repetition, fold)) as folder:
        for name, schema, rows in (
            ("classifiers", tables.CLASSIFIERS, _classifier_rows),
            ("votes", tables.VOTES, _vote_rows),
            ("scores", tables.SCORES, _score_rows),
        ):
            tables.write(folder / f"{name}.parquet", schema, pd.concat([rows(verdict) for verdict in verdicts]))
    sizes = len(verdicts) // len(readings)
    return f"{len(verdicts[0].margins)} novelty classifiers for each of {sizes} set sizes"


def _judge(repetition: int, fold: int, reading: Reading, params: Ensemble) -> Iterator[Verdict]:
    data = folds.load_fold(repetition, fold)
    presumed_novel = folds.load_presumed_novel(repetition, fold, data.known)
    stored = _load_partitions(repetition, fold, reading.confidence, params.theta_i_from, data.known)
    calibration, test = (folds.load_sets(repetition, data, role) for role in ("calibration", "test"))
    confidences = folds.load_confidences(repetition, fold, data, reading.confidence)
    of_classes = stored.theta_of_classes(reading.theta)
    training = stored.thetas(calibration, reading.theta)
    for size, tested in stored.thetas(test, reading.theta).items():
        taught_from = training[size]
        h = fit_novelty_classifiers(  # algorithm 1
            taught_from.of_set, taught_from.of_own_class, presumed_novel[:, taught_from.sets.codes], params.cost
        )
        backbone = summarise(set_means(confidences, tested.sets.members))
        relevant = ~presumed_novel[:, backbone.top]  # algorithm 2, line 3
        of_chosen_class = np.where(relevant, of_classes[:, backbone.top], 0.0)
        margins = h.margins(tested.of_set, of_chosen_class)
        novel = presumed_novel[:, tested.sets.codes] | (tested.sets.codes < 0)
        yield Verdict(reading, size, h, tested, novel, relevant, margins, backbone)


def _load_partitions(
    repetition: int, fold: int, confidence: Confidence, theta_i_from: str, known: Strings
) -> PartitionTables:
    folder = paths.run("partitions", repetition, fold)
    sets = tables.read_frame(folder / "sets.parquet", tables.PARTITION_SETS)
    sets = sets[sets["confidence"] == confidence].sort_values(["l", "s", "set"])
    classes = tables.read_frame(folder / "classes.parquet", tables.PARTITION_CLASSES)
    classes = classes[(classes["confidence"] == confidence) & (classes["source"] == theta_i_from)]
    return PartitionTables(sets, classes, known, int(sets["l"].max()) + 1)


def _classifier_rows(v: Verdict) -> pd.DataFrame:
    """h_l with its p_l and q_l on test sets, where every partition votes on the class that its own network chose."""
    p, q = detection_rates(v.h.margins(v.tested.of_set, v.tested.of_own_class), v.novel)
    columns = {"w_set": v.h.weights[:, 0], "w_class": v.h.weights[:, 1], "b": v.h.bias}
    columns |= {"slope": v.h.slope, "offset": v.h.offset, "p": p, "q": q}
    return pd.DataFrame(
        {
            "method": f"ensemble{v.reading.suffix}",
            "l": np.arange(len(p)),
            "s": v.size,
            **columns,
            "undefined": v.tested.undefined,
        }
    )


def _vote_rows(v: Verdict) -> pd.DataFrame:
    """P_l(S): 1 novel, -1 known, 0 for a partition that has no say."""
    partitions, count = v.margins.shape
    return pd.DataFrame(
        {
            "method": f"ensemble{v.reading.suffix}",
            "l": np.repeat(np.arange(partitions), count),
            "s": v.size,
            "set": np.tile(v.tested.sets.numbers, partitions),
            "vote": np.where(v.relevant, np.where(v.margins > 0, 1, -1), 0).ravel(),
            "margin": np.where(v.relevant, v.margins, np.nan).ravel(),
        }
    )


def _score_rows(v: Verdict) -> pd.DataFrame:
    by_votes = novelty_scores(v.margins, v.h.probabilities(v.margins), v.relevant)
    raw = theta(v.backbone.first, v.backbone.second, v.backbone.lowest, v.reading.theta)
    methods = {"ensemble-count": by_votes.count, "threshold": -raw}
    if v.reading is not LITERAL:
        methods |= {"ensemble-margin": by_votes.margin, "ensemble-probability": by_votes.probability}
    return pd.concat(
        folds.score_rows(f"{name}{v.reading.suffix}", v.size, v.tested.sets, scores) for name, scores in methods.items()
    )


def _vectors(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    first, second, lowest = (rows[name].to_numpy(dtype=float) for name in ("u1", "u2", "u_min"))
    return first, second, lowest


if __name__ == "__main__":
    command.main("ensemble", run, "repetition", "fold")
