"""One fold of one repetition, as arrays: what the stages that train or score need of the split."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import Confidence, as_confidence
from outclass.errors import OutclassError
from stages import paths, tables


@dataclass(frozen=True)
class Fold:
    """Items are those the fold may use: train and calibration items of known classes, test items of all."""

    known: Strings  # names of the known classes, sorted; a class's *code* is its position here
    items: Ints  # (n,) item numbers; twice where an item's mirror image is here too
    mirrored: Bools  # (n,) True for a mirror image, which is always a train item
    names: Strings  # (n,) item names
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
    return Fold(
        known=known,
        items=items["item"].to_numpy(),
        mirrored=items["mirrored"].to_numpy(),
        names=items["name"].to_numpy(dtype=str),
        classes=classes,
        codes=encode(classes, known),
        roles=items["role"].to_numpy(dtype=str),
    )


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
    places = np.flatnonzero(~fold.mirrored)
    by_item = pd.Series(places, index=fold.items[places])
    sets = {}
    for size, rows in frame.groupby("s"):
        heads = rows.iloc[:: int(size)]
        classes = heads["class"].to_numpy(dtype=str)
        members = by_item[rows["item"]].to_numpy().reshape(-1, int(size))
        sets[int(size)] = Sets(heads["set"].to_numpy(), classes, encode(classes, fold.known), members)
    return sets


def load_features(fold: Fold, path: Path) -> Floats:
    """The features of the fold's items, in their order."""
    return np.asarray(_load_views(fold, path, tables.FEATURES))


def load_images(fold: Fold, path: Path) -> Ints:
    """The pixels of the fold's items, in their order: (n, side, side, 3) of 0..255."""
    pixels = _load_views(fold, path, tables.PIXELS)
    side = round(math.sqrt(pixels.shape[1] / 3))
    return np.asarray(pixels.reshape(-1, side, side, 3))


def _load_views(fold: Fold, path: Path, schema: pa.Schema) -> Floats | Ints:
    frame, vectors = tables.read_vectors(path, schema, "features")
    rows = pd.MultiIndex.from_frame(frame[["item", "mirrored"]]).get_indexer(
        pd.MultiIndex.from_arrays([fold.items, fold.mirrored])
    )
    if (rows < 0).any():
        first = np.flatnonzero(rows < 0)[0]
        what = "the mirror image of item" if fold.mirrored[first] else "item"
        raise OutclassError(f"{path}: {what} {fold.items[first]} is missing; run `dvc repro embed`")
    return np.asarray(vectors[rows])


def load_confidences(repetition: int, number: int, fold: Fold, kind: Confidence) -> Floats:
    """The backbone's confidences in the fold's items, in their order."""
    path = paths.run("backbone", repetition, number) / "confidences.parquet"
    frame, activations = tables.read_vectors(path, tables.CONFIDENCES, "confidences")
    columns = tables.read_frame(path.with_name("columns.parquet"), tables.COLUMNS)["class"]
    same_items = np.array_equal(frame["item"], fold.items) and np.array_equal(frame["mirrored"], fold.mirrored)
    if not (same_items and np.array_equal(columns, fold.known)):
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
