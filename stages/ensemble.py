"""Fit the novelty classifiers h_l on calibration sets, let them vote on test sets, and score by the votes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from outclass.analysis import likeness_to_novel
from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import Confidence, Summary, Theta, summarise, theta, undefined_ratio
from outclass.ensemble import (
    NoveltyClassifiers,
    Seen,
    Votes,
    detection_rates,
    fit_novelty_classifiers,
    novelty_scores,
    own_votes,
    vote,
)
from outclass.sets import set_means
from stages import command, files, folds, paths, tables
from stages.params import Ensemble
from stages.params import load as load_params


class Reading(NamedTuple):
    """One way to read confidences: which kind, and how the two best are compared."""

    suffix: str  # of the method's name
    confidence: Confidence
    theta: Theta


LITERAL = Reading("/ratio", "activation", "ratio")
"""Equation 3 as printed, on the network's activities: reported in every run beside the configured reading."""


@dataclass(frozen=True)
class Inputs:
    """What the earlier stages say of a fold, whatever the reading."""

    repetition: int
    fold: int
    data: folds.Fold
    presumed_novel: Bools  # (L, known classes)
    calibration: dict[int, folds.Sets]  # by set size
    test: dict[int, folds.Sets]
    sets: pd.DataFrame  # of the partition networks, in the order of l, s, set
    classes: pd.DataFrame


@dataclass(frozen=True)
class Verdict:
    """What the ensemble of one reading says of the test sets of one size."""

    reading: Reading
    size: int
    sets: folds.Sets
    h: NoveltyClassifiers
    votes: Votes
    own_votes: Bools  # (L, sets): if all have a say, each on the class that its own network chose
    rates: tuple[Floats, Floats]  # p_l and q_l
    distances: tuple[Floats, Floats]  # of presumed-novel and presumed-known sets from novel ones, in theta_S
    undefined: Ints  # (L,): how many ratios read 0 / 0
    backbone: Summary  # of the sets in the network of all known classes


def run(repetition: int, fold: int) -> str:
    """Write runs/ensemble/r<repetition>-f<fold>/{classifiers,votes,scores}.parquet."""
    params = load_params().ensemble
    inputs = _load(repetition, fold)
    readings = (Reading("", params.confidence, params.theta), LITERAL)
    verdicts = [verdict for reading in readings for verdict in _judge(inputs, reading, params)]
    with files.finished_folder(paths.run("ensemble", repetition, fold)) as folder:
        for name, schema, rows in (
            ("classifiers", tables.CLASSIFIERS, _classifier_rows),
            ("votes", tables.VOTES, _vote_rows),
            ("scores", tables.SCORES, _score_rows),
        ):
            tables.write(folder / f"{name}.parquet", schema, pd.concat([rows(verdict) for verdict in verdicts]))
    return f"{len(inputs.presumed_novel)} novelty classifiers for each of {len(inputs.test)} set sizes"


def _load(repetition: int, fold: int) -> Inputs:
    data = folds.load_fold(repetition, fold)
    calibration, test = (folds.load_sets(repetition, data, role) for role in ("calibration", "test"))
    folder = paths.run("partitions", repetition, fold)
    sets = tables.read_frame(folder / "sets.parquet", tables.PARTITION_SETS)
    return Inputs(
        *(repetition, fold, data, folds.load_presumed_novel(repetition, fold, data.known), calibration, test),
        sets=sets.sort_values(["l", "s", "set"], kind="stable"),
        classes=tables.read_frame(folder / "classes.parquet", tables.PARTITION_CLASSES),
    )


def _judge(inputs: Inputs, reading: Reading, params: Ensemble) -> Iterator[Verdict]:
    """Algorithms 1 and 2 for every set size."""
    known, presumed_novel = inputs.data.known, inputs.presumed_novel
    rows = inputs.sets[inputs.sets["confidence"] == reading.confidence]
    theta_class = _theta_of_classes(inputs, reading, params.theta_i_from)
    confidences = folds.load_confidences(inputs.repetition, inputs.fold, inputs.data, reading.confidence)
    for size, tested in inputs.test.items():
        examples = inputs.calibration[size]
        training, _ = _seen(rows, size, examples, reading.theta, known)
        h = fit_novelty_classifiers(training, examples.codes, theta_class, presumed_novel, params.cost)
        seen, undefined = _seen(rows, size, tested, reading.theta, known)
        backbone = summarise(set_means(confidences, tested.members))
        votes = vote(h, seen, backbone.top, theta_class, presumed_novel)
        own = own_votes(h, seen, theta_class)
        rates = detection_rates(h, seen, tested.codes, theta_class, presumed_novel)
        distances = likeness_to_novel(seen.theta, tested.codes, presumed_novel)
        yield Verdict(reading, size, tested, h, votes, own, rates, distances, undefined, backbone)


def _theta_of_classes(inputs: Inputs, reading: Reading, source: str) -> Floats:
    """theta_i (L, known classes), NaN where the partition presumes the class novel."""
    rows = inputs.classes[(inputs.classes["confidence"] == reading.confidence) & (inputs.classes["source"] == source)]
    values = np.full(inputs.presumed_novel.shape, np.nan)
    codes = folds.encode(rows["class"].to_numpy(dtype=str), inputs.data.known)
    values[rows["l"], codes] = theta(*_vectors(rows), reading.theta)
    return values


def _seen(rows: pd.DataFrame, size: int, sets: folds.Sets, kind: Theta, known: Strings) -> tuple[Seen, Ints]:
    """Sets of one size as the partition networks see them, and how many ratios each of these leaves undefined."""
    chosen = rows[(rows["s"] == size) & rows["set"].isin(sets.numbers)]
    shape = (-1, len(sets.numbers))
    vectors = _vectors(chosen)
    top = folds.encode(chosen["top"].to_numpy(dtype=str), known).reshape(shape)
    is_ratio = kind != "difference"
    undefined = (undefined_ratio(*vectors) & is_ratio).reshape(shape).sum(axis=1)
    return Seen(theta(*vectors, kind).reshape(shape), top), undefined


def _vectors(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    first, second, lowest = (rows[name].to_numpy(dtype=float) for name in ("u1", "u2", "u_min"))
    return first, second, lowest


def _classifier_rows(v: Verdict) -> pd.DataFrame:
    columns = {"w_set": v.h.weights[:, 0], "w_class": v.h.weights[:, 1], "b": v.h.bias}
    columns |= {"slope": v.h.slope, "offset": v.h.offset, "p": v.rates[0], "q": v.rates[1]}
    columns |= {"presumed_novel_distance": v.distances[0], "presumed_known_distance": v.distances[1]}
    partitions = np.arange(len(v.h.bias))
    return pd.DataFrame(
        {"method": f"ensemble{v.reading.suffix}", "l": partitions, "s": v.size, **columns, "undefined": v.undefined}
    )


def _vote_rows(v: Verdict) -> pd.DataFrame:
    """P_l(S): 1 novel, -1 known, 0 for a partition that has no say."""
    relevant, margins, _ = v.votes
    partitions, count = margins.shape
    return pd.DataFrame(
        {
            "method": f"ensemble{v.reading.suffix}",
            "l": np.repeat(np.arange(partitions), count),
            "s": v.size,
            "set": np.tile(v.sets.numbers, partitions),
            "vote": np.where(relevant, np.where(margins > 0, 1, -1), 0).ravel(),
            "margin": np.where(relevant, margins, np.nan).ravel(),
            "own_vote": np.where(v.own_votes, 1, -1).ravel(),
        }
    )


def _score_rows(v: Verdict) -> pd.DataFrame:
    by_votes = novelty_scores(v.votes)
    raw = theta(v.backbone.first, v.backbone.second, v.backbone.lowest, v.reading.theta)
    methods = {"ensemble-count": by_votes.count, "threshold": -raw}
    if v.reading is not LITERAL:
        methods |= {"ensemble-margin": by_votes.margin, "ensemble-probability": by_votes.probability}
    return pd.concat(
        folds.score_rows(f"{name}{v.reading.suffix}", v.size, v.sets, scores) for name, scores in methods.items()
    )


if __name__ == "__main__":
    command.main("ensemble", run, "repetition", "fold")
