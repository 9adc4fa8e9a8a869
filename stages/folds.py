"""One fold of one repetition, as arrays: what the stages that train or score need of the split."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import Confidence, as_confidence
from outclass.errors import OutclassError
from stages import paths, tables


@dataclass(frozen=True)
class Fold:
    """Items are those the fold may use: train and calibration items of known classes, test items of all."""

    known: Strings  # names of the known classes, sorted; a class's *code* is its position here
    items: Ints  # (n,) item numbers
    classes: Strings  # (n,) class names
    codes: Ints  # (n,) codes of known classes, -1 for novel ones
    roles: Strings  # (n,) train, calibration, test

    def where(self, role: str) -> Bools:
        return np.asarray(self.roles == role)


@dataclass(frozen=True)
class Sets:
    """Sets of one size."""

    numbers: Ints  # (m,) the sets' numbers in the split
    classes: Strings  # (m,) class names
    codes: Ints  # (m,) codes of known classes, -1 for novel ones
    members: Ints  # (m, s) positions in the fold's items


def load_fold(repetition: int, fold: int) -> Fold:
    roles = tables.read_frame(paths.split(repetition, "classes"), tables.SPLIT_CLASSES)
    roles = roles[roles["f"] == fold]
    if roles.empty:
        raise OutclassError(f"{paths.split(repetition, 'classes')}: no fold {fold}; raise split.folds_drawn")
    known = np.sort(roles.loc[roles["role"] == "known", "class"].to_numpy(dtype=str))
    items = tables.read_frame(paths.split(repetition, "items"), tables.SPLIT_ITEMS)
    items = items[items["class"].isin(known) | (items["role"] == "test")]
    classes = items["class"].to_numpy(dtype=str)
    return Fold(known, items["item"].to_numpy(), classes, encode(classes, known), items["role"].to_numpy(dtype=str))


def load_presumed_novel(repetition: int, fold: int, known: Strings) -> Bools:
    """(L, known classes): True where a partition presumes the class novel."""
    frame = tables.read_frame(paths.split(repetition, "partitions"), tables.SPLIT_PARTITIONS)
    frame = frame[frame["f"] == fold].pivot(index="l", columns="class", values="role")
    return np.asarray(frame[list(known)].to_numpy(dtype=str) == "novel")


def load_sets(repetition: int, fold: Fold, role: str) -> dict[int, Sets]:
    """Set size -> the sets of one role that the fold may use."""
    frame = tables.read_frame(paths.split(repetition, "sets"), tables.SPLIT_SETS)
    frame = frame[(frame["role"] == role) & frame["item"].isin(fold.items[fold.where(role)])]
    frame = frame.sort_values(["s", "set"], kind="stable")
    by_item = pd.Series(np.arange(len(fold.items)), index=fold.items)
    sets = {}
    for size, rows in frame.groupby("s"):
        heads = rows.iloc[:: int(size)]
        classes = heads["class"].to_numpy(dtype=str)
        members = by_item[rows["item"]].to_numpy().reshape(-1, int(size))
        sets[int(size)] = Sets(heads["set"].to_numpy(), classes, encode(classes, fold.known), members)
    return sets


def load_features(fold: Fold, representation: str) -> Floats:
    """The features of the fold's items, in their order."""
    path = paths.features(representation)
    frame, features = tables.read_vectors(path, tables.FEATURES, "features")
    rows = pd.Index(frame["item"]).get_indexer(fold.items)
    if (rows < 0).any():
        raise OutclassError(f"{path}: item {fold.items[rows < 0][0]} is missing; run `dvc repro embed`")
    return np.asarray(features[rows])


def load_confidences(repetition: int, number: int, fold: Fold, kind: Confidence) -> Floats:
    """The backbone's confidences in the fold's items, in their order."""
    path = paths.run("backbone", repetition, number) / "confidences.parquet"
    frame, activations = tables.read_vectors(path, tables.CONFIDENCES, "confidences")
    columns = tables.read_frame(path.with_name("columns.parquet"), tables.COLUMNS)["class"]
    if not (np.array_equal(frame["item"], fold.items) and np.array_equal(columns, fold.known)):
        raise OutclassError(
            f"{path}: not the items and classes of this split; run `dvc repro backbone@{repetition}-{number}`"
        )
    return as_confidence(activations, kind)


def encode(names: Strings, known: Strings) -> Ints:
    """Positions of names among the known ones, -1 for others."""
    return np.asarray(pd.Index(known).get_indexer(names))


def score_rows(method: str, size: int, sets: Sets, scores: Floats) -> pd.DataFrame:
    """One method's novelty scores as rows of a score table."""
    return pd.DataFrame(
        {
            **{"method": method, "s": size, "set": sets.numbers, "class": sets.classes},
            **{"novel": sets.codes < 0, "novelty": scores},
        }
    )
