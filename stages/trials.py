"""Artificial partitions of a fold's known classes, as trials that hyper-parameters are chosen on."""

from collections.abc import Mapping

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.contract import Items
from outclass.errors import OutclassError
from outclass.tuning import Trial
from stages import folds, paths, tables


def load_trials(repetition: int, fold: int, data: folds.Fold, features: Floats, count: int) -> list[Trial]:
    """The first ``count`` partitions, or all there are. Confidences are those of a partition's own network."""
    presumed_novel = folds.load_presumed_novel(repetition, fold, data.known)
    sets = folds.load_sets(repetition, data, "calibration")
    return [
        _trial(data, ~hidden, features, _load_confidences(repetition, fold, data, number, ~hidden), sets)
        for number, hidden in enumerate(presumed_novel[:count])
    ]


def select(items: Items, chosen: Bools | Ints) -> Items:
    return Items(items.confidences[chosen], items.features[chosen])


def members_among(chosen: Bools, sets: Mapping[int, folds.Sets]) -> dict[int, Ints]:
    """Positions of the sets' members among the chosen items of a fold, instead of among all."""
    places = np.flatnonzero(chosen)
    return {size: np.searchsorted(places, of_size.members) for size, of_size in sets.items()}


def _trial(
    data: folds.Fold, taught: Bools, features: Floats, confidences: Floats, sets: Mapping[int, folds.Sets]
) -> Trial:
    seen = _may_be_seen(data, taught)
    items, trains = Items(confidences, features[seen]), data.where("train")[seen]
    return Trial(
        train=select(items, trains),
        labels=(np.cumsum(taught) - 1)[data.codes[seen][trains]],
        calibration=select(items, ~trains),
        sets=members_among(data.where("calibration"), sets),
        novel={size: ~taught[of_size.codes] for size, of_size in sets.items()},
    )


def _may_be_seen(data: folds.Fold, taught: Bools) -> Bools:
    """Train items of presumed-known classes, and all calibration items."""
    return np.asarray((data.where("train") & taught[data.codes]) | data.where("calibration"))


def _load_confidences(repetition: int, fold: int, data: folds.Fold, number: int, taught: Bools) -> Floats:
    """Of the items that may be seen, in the fold's order."""
    path = paths.run("partitions", repetition, fold) / "confidences.parquet"
    frame, activities = tables.read_vectors(path, tables.PARTITION_CONFIDENCES, "confidences")
    rows, seen = (frame["l"] == number).to_numpy(), _may_be_seen(data, taught)
    views = frame.loc[rows, ["item", "mirrored"]].to_numpy(dtype=np.int64)
    if not np.array_equal(views, np.stack([data.items[seen], data.mirrored[seen]], axis=1)):
        raise OutclassError(
            f"{path}: not the items of partition {number}; run `dvc repro partitions@{repetition}-{fold}`"
        )
    return np.asarray(activities[rows])
