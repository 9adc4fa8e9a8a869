"""Decide, once for each repetition, who is novel, who trains and who tests: nothing later draws items or classes."""

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Ints, Strings
from outclass.partitions import balanced_subsets
from outclass.seeds import generator
from outclass.sets import draw_sets, random_ranks
from stages import command, counts, paths, tables
from stages.params import Params
from stages.params import load as load_params

ROLES = ("train", "calibration", "test")
SET_ROLES = ("calibration", "test")


def run(repetition: int) -> str:
    """Write splits/r<repetition>/{classes,items,partitions,sets}.parquet."""
    params = load_params()
    views = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
    items = views[~views["mirrored"]]
    classes, labels = np.unique(items["class"].to_numpy(dtype=str), return_inverse=True)
    source = items["split"].to_numpy(dtype=str)
    counts.check_classes(params.split, len(classes))
    counts.refuse_small(counts.small_classes(params.split, classes[labels], source))

    novel = draw_folds(params, len(classes), repetition)
    items = items.assign(role=draw_roles(params, labels, source, repetition))
    items = items[items["role"] != ""]
    for table, schema, frame in (
        ("classes", tables.SPLIT_CLASSES, _memberships(novel, classes, "f")),
        ("items", tables.SPLIT_ITEMS, with_mirror_images(items, views)),
        ("partitions", tables.SPLIT_PARTITIONS, draw_partitions(params, classes, novel, repetition)),
        ("sets", tables.SPLIT_SETS, draw_all_sets(params, items, repetition)),
    ):
        tables.write(paths.split(repetition, table), schema, frame)
    return (
        f"{len(novel)} folds of {len(classes) - params.split.novel_classes} known and {params.split.novel_classes} "
        f"novel classes, {params.split.partitions} partitions each"
    )


def draw_folds(params: Params, classes: int, repetition: int) -> Bools:
    rng = generator(params.seed, "folds", repetition)
    return balanced_subsets(classes, params.split.novel_classes, params.split.folds_drawn, rng)


def draw_roles(params: Params, labels: Ints, source: Strings, repetition: int) -> Strings:
    """A role for each item, by its random rank in its class; "" for items that are not used.

    Where the data set itself has train items, only they train, and they do nothing else.
    """
    wanted = params.split.items
    test = len(labels) if wanted.test is None else wanted.test
    ends = np.cumsum([wanted.train, wanted.calibration, test])
    of_train = source == "train"
    ranks = random_ranks(2 * labels + of_train, generator(params.seed, "roles", repetition))
    if of_train.any():
        ranks = np.where(of_train, np.where(ranks < wanted.train, ranks, ends[-1]), wanted.train + ranks)
    return np.array([*ROLES, ""])[np.searchsorted(ends, ranks, side="right")]


def with_mirror_images(items: pd.DataFrame, views: pd.DataFrame) -> pd.DataFrame:
    """The items with their roles and, as train items too, the mirror images of those that train."""
    trains = items.loc[items["role"] == "train", "item"]
    mirrored = views[views["mirrored"] & views["item"].isin(trains)]
    return pd.concat([items, mirrored.assign(role="train")]).sort_values(["item", "mirrored"], kind="stable")


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
