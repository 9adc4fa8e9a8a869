"""Fit the pooled novelty classifier on what all partitions see of calibration sets, and score the test sets by it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from outclass import pooled
from outclass.arrays import Bools, Floats, Strings
from outclass.baselines.statistics import subset_moments
from outclass.errors import OutclassError
from outclass.pooled import Confidences, NullSpace, PooledClassifier, PooledSettings
from outclass.seeds import generator
from stages import command, files, folds, params, paths, tables

Rows = dict[tuple[str, int], list[Floats]]
"""Role and set size -> the inputs (m, inputs) of each partition."""


def run(repetition: int, fold: int) -> str:
    """Write runs/pooled/r<repetition>-f<fold>/{classifiers,scores}.parquet."""
    chosen = params.load()
    settings = PooledSettings(**chosen.pooled.model_dump(exclude={"input", "most_features", "most_kernel_items"}))
    data = folds.load_fold(repetition, fold)
    sets = {role: folds.load_sets(repetition, data, role) for role in ("calibration", "test")}
    taught = ~folds.load_presumed_novel(repetition, fold, data.known)
    rows = _inputs(chosen, settings, repetition, fold, data, sets, taught)

    names = pooled.input_names(settings, _with_kernel(chosen, data))
    fitted, scores = [], []
    for size, tested in sets["test"].items():
        codes = sets["calibration"][size].codes
        h = pooled.fit(np.concatenate(rows["calibration", size]), ~taught[:, codes].ravel(), settings.penalty)
        fitted.append(_classifier_rows(h, size, names))
        novelty = pooled.novelty(h, np.stack(rows["test", size]))
        scores.append(folds.score_rows("pooled", size, tested, novelty))
    with files.finished_folder(paths.run("pooled", repetition, fold)) as folder:
        tables.write(folder / "classifiers.parquet", tables.POOLED, pd.concat(fitted))
        tables.write(folder / "scores.parquet", tables.SCORES, pd.concat(scores))
    return f"one novelty classifier of {len(names)} inputs for each of {len(scores)} set sizes"


def _inputs(
    chosen: params.Params,
    settings: PooledSettings,
    repetition: int,
    fold: int,
    data: folds.Fold,
    sets: dict[str, dict[int, folds.Sets]],
    taught: Bools,
) -> Rows:
    """Every partition's inputs for every set. Statistics are of train items of its presumed-known classes alone."""
    unit, length = pooled.unit_length(_features(chosen, data))
    trains = data.where("train")
    train, labels = unit[trains], data.codes[trains]
    described = {
        (role, size): pooled.describe(unit, length, each.members, train, labels, settings.neighbours)
        for role, by_size in sets.items()
        for size, each in by_size.items()
    }
    rows: Rows = {place: [] for place in described}
    seen = _confidences(repetition, fold, data.known, sets)
    spaces: Iterable[NullSpace | None] = [None] * len(taught)
    if _with_kernel(chosen, data):
        spaces = pooled.null_spaces(unit, trains, labels, taught, settings)
    try:
        for moments, confidences, space in zip(subset_moments(train, labels, taught), seen, spaces, strict=True):
            known = pooled.reference(moments, settings)
            for place, each in described.items():
                rows[place].append(pooled.inputs(each, confidences[place], known, space))
    except OutclassError as error:
        raise OutclassError(f"pooled: {error}") from error
    return rows


def _with_kernel(chosen: params.Params, data: folds.Fold) -> bool:
    """A kernel matrix of very many train items is left to those who have days."""
    return int(data.where("train").sum()) <= chosen.pooled.most_kernel_items


def _features(chosen: params.Params, data: folds.Fold) -> Floats:
    features = folds.load_features(data, Path(chosen.pooled.input))
    directions = pooled.projection(features.shape[1], chosen.pooled.most_features, generator(chosen.seed, "projection"))
    return features if directions is None else np.asarray(features @ directions)


def _confidences(
    repetition: int, fold: int, known: Strings, sets: dict[str, dict[int, folds.Sets]]
) -> Iterator[dict[tuple[str, int], Confidences]]:
    """For each partition in turn, what its network sees of the sets of each role and size."""
    path = paths.run("partitions", repetition, fold) / "sets.parquet"
    frame = tables.read_frame(path, tables.PARTITION_SETS).sort_values(["l", "s", "set"], kind="stable")
    for _, of_partition in frame.groupby("l"):
        kinds = dict(iter(of_partition.groupby("confidence")))
        yield {
            (role, size): _of_sets(kinds, size, each, known)
            for role, by_size in sets.items()
            for size, each in by_size.items()
        }


def _of_sets(kinds: dict[str, pd.DataFrame], size: int, sets: folds.Sets, known: Strings) -> Confidences:
    rows, softmax = (
        kinds[kind][(kinds[kind]["s"] == size) & kinds[kind]["set"].isin(sets.numbers)]
        for kind in ("activation", "softmax")
    )
    first, second, energy = (rows[name].to_numpy(dtype=float) for name in ("u1", "u2", "energy"))
    certainty = softmax["u1"].to_numpy(dtype=float)
    return Confidences(first - second, first, energy, certainty, folds.encode(rows["top"].to_numpy(dtype=str), known))


def _classifier_rows(h: PooledClassifier, size: int, names: list[str]) -> pd.DataFrame:
    """What h makes of each input: its weight is for the input in standard deviations."""
    named = {"s": size, "input": [*names, "bias"]}
    return pd.DataFrame(
        {
            **named,
            "mean": [*h.mean, 0.0],
            "scale": [*h.scale, 1.0],
            "weight": [*h.weights, h.bias],
        }
    )


if __name__ == "__main__":
    command.main("pooled", run, "repetition", "fold")
