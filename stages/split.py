"""Decide, once for each repetition, who is novel, who trains and who tests: nothing later draws items or classes."""

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Ints, Strings
from outclass.errors import OutclassError
from outclass.partitions import balanced_subsets
from outclass.seeds import generator
from outclass.sets import draw_sets, random_ranks
from stages import command, paths, tables
from stages.params import Params, Split
from stages.params import load as load_params

ROLES = ("train", "calibration", "test")
SET_ROLES = ("calibration", "test")


def run(repetition: int) -> str:
    """Write splits/r<repetition>/{classes,items,partitions,sets}.parquet."""
    params = load_params()
    items = tables.read_frame(paths.ITEMS, tables.ITEMS, ["item", "class"])
    classes, labels = np.unique(items["class"].to_numpy(dtype=str), return_inverse=True)
    check_counts(params.split, classes, labels)

    novel = draw_folds(params, len(classes), repetition)
    items["role"] = draw_roles(params, labels, repetition)
    items = items[items["role"] != ""]
    for table, schema, frame in (
        ("classes", tables.SPLIT_CLASSES, _memberships(novel, classes, "f")),
        ("items", tables.SPLIT_ITEMS, items),
        ("partitions", tables.SPLIT_PARTITIONS, draw_partitions(params, classes, novel, repetition)),
        ("sets", tables.SPLIT_SETS, draw_all_sets(params, items, repetition)),
    ):
        tables.write(paths.split(repetition, table), schema, frame)
    return (
        f"{len(novel)} folds of {len(classes) - params.split.novel_classes} known and {params.split.novel_classes} "
        f"novel classes, {params.split.partitions} partitions each"
    )


def check_counts(split: Split, classes: Strings, labels: Ints) -> None:
    """Refuse what the data cannot give, naming the parameter and the class."""
    known = len(classes) - split.novel_classes
    if known < 3:
        raise OutclassError(
            f"split.novel_classes = {split.novel_classes}, but there are {len(classes)} classes in {paths.ITEMS}: "
            f"choose at most {len(classes) - 3}"
        )
    if known - split.presumed_novel_classes < 2:
        raise OutclassError(
            f"split.presumed_novel_classes = {split.presumed_novel_classes}, but a fold has {known} known classes: "
            f"choose at most {known - 2}"
        )
    counts = np.bincount(labels)
    smallest, size = str(classes[counts.argmin()]), int(counts.min())
    used = split.items.train + split.items.calibration
    test = size - used if split.items.test is None else split.items.test
    if test < 1 or used + test > size:
        raise OutclassError(
            f"split.items asks for {split.items.train} train, {split.items.calibration} calibration and "
            f"{split.items.test or 'at least 1'} test items of each class, but class {smallest!r} has {size} items"
        )
    largest = max(split.set_sizes)
    for role, available in (("calibration", split.items.calibration), ("test", test)):
        if largest > available:
            raise OutclassError(
                f"split.set_sizes has {largest}, but class {smallest!r} has {available} {role} items: "
                f"choose smaller sets or more {role} items"
            )


def draw_folds(params: Params, classes: int, repetition: int) -> Bools:
    rng = generator(params.seed, "folds", repetition)
    return balanced_subsets(classes, params.split.novel_classes, params.split.folds_drawn, rng)


def draw_roles(params: Params, labels: Ints, repetition: int) -> Strings:
    """A role for each item, by its random rank in its class; "" for items that are not used."""
    counts = params.split.items
    test = len(labels) if counts.test is None else counts.test
    ends = np.cumsum([counts.train, counts.calibration, test])
    ranks = random_ranks(labels, generator(params.seed, "roles", repetition))
    return np.array([*ROLES, ""])[np.searchsorted(ends, ranks, side="right")]


def draw_partitions(params: Params, classes: Strings, novel: Bools, repetition: int) -> pd.DataFrame:
    """For each fold, its known classes as presumed known or presumed novel, L times."""
    frames = []
    for fold, is_novel in enumerate(novel):
        known = classes[~is_novel]
        rng = generator(params.seed, "partitions", repetition, fold)
        presumed = balanced_subsets(len(known), params.split.presumed_novel_classes, params.split.partitions, rng)
        frames.append(_memberships(presumed, known, "l").assign(f=fold))
    return pd.concat(frames)


def draw_all_sets(params: Params, items: pd.DataFrame, repetition: int) -> pd.DataFrame:
    """Disjoint same-label sets of every size among calibration items and among test items, one row a member."""
    frames = []
    for size in params.split.set_sizes:
        first = 0
        for role in SET_ROLES:
            pool = items[items["role"] == role]
            labels = np.unique(pool["class"].to_numpy(dtype=str), return_inverse=True)[1]
            rng = generator(params.seed, f"{role} sets", repetition, size)
            members = draw_sets(labels, size, rng)
            numbers = np.repeat(np.arange(first, first + len(members)), size)
            frames.append(pool.iloc[members.ravel()].assign(s=size, set=numbers))
            first += len(members)
    return pd.concat(frames)


def _memberships(novel: Bools, classes: Strings, subset: str) -> pd.DataFrame:
    """One row for each subset and class, with the class's role in it."""
    index = pd.MultiIndex.from_product([range(len(novel)), classes], names=[subset, "class"])
    return pd.DataFrame({"role": np.where(novel.ravel(), "novel", "known")}, index=index).reset_index()


if __name__ == "__main__":
    command.main("split", run, "repetition")
