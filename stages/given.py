"""Confidences of classifiers that the user has trained: one table a network, in place of training one here.

A network's table is named after it: r0-f2.parquet for the backbone of repetition 0 and fold 2, r0-f2-l5.parquet for its
partition 5 (.csv is fine too). It has a column `name` with the items' names and, for each class that the network was
taught, a column of that name with its confidence in the class. splits/r0/ says who is taught what.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from outclass.arrays import Bools, Floats
from outclass.errors import OutclassError
from stages.folds import Fold


def tables_of(folder: Path, repetition: int, fold: int) -> list[Path]:
    """All tables of a fold."""
    return sorted(folder.glob(f"r{repetition}-f{fold}.*")) + sorted(folder.glob(f"r{repetition}-f{fold}-l*"))


def load(folder: Path, network: str, data: Fold, taught: Bools) -> Floats:
    """(items, known classes) of the fold, in its order; -inf for classes that the network was not taught."""
    path = _find(folder, network)
    table = _read(path)
    _check_columns(path, set(table.columns), data, data.known[taught].tolist())
    rows = pd.Index(table["name"].astype(str)).get_indexer(data.names)
    if (rows < 0).any():
        missing = data.names[rows < 0]
        raise OutclassError(
            f"{path}: {len(missing):,} items of the fold have no row, {str(missing[0])!r} for one; a table needs all "
            f"train and calibration items of the fold's known classes and all test items "
            f"(splits/{network.split('-')[0]}/items.parquet lists them)"
        )
    values = np.full((len(data.names), len(data.known)), -np.inf, dtype=np.float32)
    values[:, taught] = _numbers(path, table, data.known[taught].tolist())[rows]
    return values


def _find(folder: Path, network: str) -> Path:
    for suffix in (".parquet", ".csv"):
        if (folder / f"{network}{suffix}").exists():
            return folder / f"{network}{suffix}"
    raise OutclassError(
        f"{folder / network}.parquet (or .csv): not found; backbone.network is given, so backbone.input must hold the "
        f"confidences of your own classifier for every item of this fold"
    )


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype={"name": str}) if path.suffix == ".csv" else pd.read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise OutclassError(f"{path}: not a readable table ({error})") from error
    if "name" in table and table["name"].duplicated().any():
        twice = table.loc[table["name"].duplicated(), "name"].iloc[0]
        raise OutclassError(f"{path}: item {twice!r} has two rows; keep one")
    return table


def _check_columns(path: Path, columns: set[str], data: Fold, taught: list[str]) -> None:
    for name in ["name", *taught]:
        if name not in columns:
            raise OutclassError(f"{path}: column {name!r} is missing; it needs `name` and one for each class taught")
    untaught = {*data.classes.tolist(), *data.known.tolist()} - {"name", *taught}
    leaked = sorted(untaught & columns)
    if leaked:
        novelty = "presumed novel" if leaked[0] in data.known else "novel"
        raise OutclassError(
            f"{path}: has a column {leaked[0]!r}, but that class is {novelty} there: this network must not have been "
            f"taught it"
        )


def _numbers(path: Path, table: pd.DataFrame, classes: list[str]) -> Floats:
    for name in classes:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise OutclassError(f"{path}: column {name!r} holds {table[name].dtype} instead of numbers")
    values: Floats = table[classes].to_numpy(dtype=np.float32)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise OutclassError(
            f"{path}: item {table['name'].iloc[row]!r} has {values[row, column]} for class {classes[column]!r}; "
            f"confidences must be finite numbers"
        )
    return values
