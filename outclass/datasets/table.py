"""A table of features that somebody else has computed: rows, one of whose columns is the class.

Everything here works on schemas and record batches; who calls it opens the file. Rows are numbered from 0.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from outclass.arrays import Floats, Ints
from outclass.errors import Fault, OutclassError

INDEX = re.compile(r"|__index_level_\d+__|Unnamed: \d+")
"""What pandas calls a table's index when it is saved, and when it is read again."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what."""

    label: str
    name: str | None  # None: rows are named by their number
    features: tuple[str, ...]  # numeric columns, or the one column of lists
    listed: bool
    ignored: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        return list(dict.fromkeys([self.label, *([] if self.name is None else [self.name]), *self.features]))

    def title(self, index: int) -> str:
        """What to call one feature."""
        return f"{self.features[0]}[{index}]" if self.listed else self.features[index]


class Rows(NamedTuple):
    """Rows that are fit to be used, and why others are not."""

    names: list[str]
    labels: list[str]
    features: Floats  # (n, d) in float32, finite
    faults: list[Fault]


def choose(schema: pa.Schema, label: str, features: str | None, name: str | None) -> Columns:
    """Find the columns; ``features`` is a column of lists, or None for all other numeric columns."""
    for column in schema.names:
        if schema.names.count(column) > 1:
            raise OutclassError(f"download.table: there are several columns {column}; rename all but one")
    _find(schema, "class_column", label)
    if name is not None:
        _find(schema, "name_column", name)
    _check_label(schema.field(label))
    if features is not None:
        _find(schema, "features_column", features)
        _check_lists(schema.field(features))
        return Columns(label, name, (features,), True, _except(schema, label, name, features))
    numeric = tuple(c for c in _except(schema, label, name) if is_number(schema.field(c).type))
    if not numeric:
        raise OutclassError(
            f"download.table: no column is numeric ({_described(schema)}); name a column of lists as features_column"
        )
    _check_index(schema, numeric)
    return Columns(label, name, numeric, False, _except(schema, label, name, *numeric))


def width(batch: pa.RecordBatch, columns: Columns) -> int:
    """How many features a row has: the most frequent number in a batch."""
    if not columns.listed:
        return len(columns.features)
    lengths = _lengths(batch.column(columns.features[0]))
    if not (lengths > 0).any():
        raise OutclassError(f"download.table.features_column: {columns.features[0]} holds empty lists")
    return int(np.bincount(lengths[lengths > 0]).argmax())


def rows(batch: pa.RecordBatch, columns: Columns, first: int, width: int) -> Rows:
    """Take a batch apart, whose first row has the number ``first`` in its table."""
    labels = _texts(batch.column(columns.label))
    names = row_names(batch, columns, first)
    features = _matrix(batch, columns, width)
    fit = np.isfinite(features).all(axis=1)
    lengths = _lengths(batch.column(columns.features[0])) if columns.listed else np.full(len(labels), width)
    faults = []
    for row in np.flatnonzero(~fit):  # few, or there is nothing to be done with the table
        name = names[row] if columns.name is None else f"{names[row]} (row {first + row})"
        faults.append(Fault(name, labels[row], _reason(features[row], int(lengths[row]), width, columns)))
    kept = np.flatnonzero(fit)
    return Rows([names[i] for i in kept], [labels[i] for i in kept], features[fit], faults)


def row_names(batch: pa.RecordBatch, columns: Columns, first: int) -> list[str]:
    """Of every row, fit to be used or not."""
    numbers = [f"row {row}" for row in range(first, first + len(batch))]
    if columns.name is None:
        return numbers
    return [name or number for name, number in zip(_texts(batch.column(columns.name)), numbers, strict=True)]


def check_text(batch: pa.RecordBatch, *texts: str | None) -> None:
    """Refuse a text column that is mostly numbers, but for those that may be text.

    A CSV file says nothing of types: with one slip in it, or with decimal commas throughout, a feature would be taken
    for text and left out unnoticed.
    """
    for name in _except(batch.schema, *texts):
        if pa.types.is_string(batch.schema.field(name).type):
            values = pd.Series(batch.column(name).to_pylist(), dtype=object).replace("", None).dropna()
            slips = values[_no_numbers(values)]
            if len(slips) and _no_numbers(values.str.replace(",", ".")).sum() < len(values) / 2:
                raise OutclassError(
                    f"column {name} has text among its numbers, first {slips.iloc[0]!r} in row {slips.index[0]}: "
                    f"mend or empty these (decimals take a point, not a comma), or remove the column"
                )


def is_number(kind: pa.DataType) -> bool:
    # A column without a single value might be anything; as a number, its missing values are named.
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def _no_numbers(values: "pd.Series[Any]") -> "pd.Series[bool]":
    return pd.to_numeric(values, errors="coerce").isna()


def _find(schema: pa.Schema, key: str, column: str) -> None:
    if column not in schema.names:
        raise OutclassError(f"download.table.{key}: there is no column {column}; there are {', '.join(schema.names)}")


def _check_index(schema: pa.Schema, features: tuple[str, ...]) -> None:
    """Rows are often sorted by class: their numbers would tell it."""
    saved = (schema.pandas_metadata or {}).get("index_columns", [])  # a name, or the description of a mere count
    for column in features:
        if INDEX.fullmatch(column) or column in saved:
            raise OutclassError(
                f"download.table: column {column!r} looks like the index of a data frame, which is no feature: save "
                f"the table with index=False, or name the column as download.table.name_column"
            )


def _check_label(field: pa.Field) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer)
    if not any(test(kind) for test in (*tests, pa.types.is_boolean, pa.types.is_null)):
        raise OutclassError(
            f"download.table.class_column: {field.name} holds {field.type}; a class is text or a whole number"
        )


def _check_lists(field: pa.Field) -> None:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(test(field.type) for test in tests):
        raise OutclassError(
            f"download.table.features_column: {field.name} holds {field.type} instead of lists of numbers; "
            f"set it to null to use all numeric columns"
        )
    if not is_number(field.type.value_type):
        raise OutclassError(f"download.table.features_column: {field.name} holds {field.type}, and no numbers")


def _except(schema: pa.Schema, *columns: str | None) -> tuple[str, ...]:
    return tuple(name for name in schema.names if name not in columns)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _texts(column: pa.Array) -> list[str]:
    return [text or "" for text in column.cast(pa.string()).to_pylist()]


def _lengths(lists: pa.Array) -> Ints:
    """Of every list; -1 where there is none."""
    lengths: Ints = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
    return lengths


def _matrix(batch: pa.RecordBatch, columns: Columns, width: int) -> Floats:
    """(n, width) in float32; NaN for what is missing, and for rows of another width."""
    if not columns.listed:
        return _single(np.column_stack([_floats(batch.column(name)) for name in columns.features]))
    lists = batch.column(columns.features[0])
    fits = _lengths(lists) == width
    matrix = np.full((len(batch), width), np.nan, np.float32)
    matrix[fits] = _single(_floats(lists.filter(pa.array(fits)).flatten())).reshape(-1, width)
    return matrix


def _floats(column: pa.Array) -> Floats:
    floats: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def _single(values: Floats) -> Floats:
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is refused as such
        return values.astype(np.float32)


def _reason(features: Any, length: int, width: int, columns: Columns) -> str:
    if length < 0:
        return "has no features"
    if length != width:
        return f"has {length} features instead of {width}"
    bad = int(np.flatnonzero(~np.isfinite(features))[0])
    return f"{columns.title(bad)} is {'missing or NaN' if np.isnan(features[bad]) else 'infinite'}"
