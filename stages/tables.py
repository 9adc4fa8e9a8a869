"""The Parquet tables between the stages: one schema each, checked on write and on read."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from outclass.arrays import Floats
from outclass.errors import OutclassError
from stages.files import finished

LABEL = pa.dictionary(pa.int32(), pa.string())
VECTOR = pa.list_(pa.float32())
"""Marks a column of vectors; the written type is a list of fixed size."""

# What r, f, l, s mean: repetition, fold, partition, set size. A set's number is unique within its size.
ITEMS = pa.schema([("item", pa.int64()), ("name", pa.string()), ("class", LABEL), ("image", pa.binary())])
SPLIT_CLASSES = pa.schema([("f", pa.int32()), ("class", LABEL), ("role", LABEL)])
SPLIT_ITEMS = pa.schema([("item", pa.int64()), ("class", LABEL), ("role", LABEL)])
SPLIT_PARTITIONS = pa.schema([("f", pa.int32()), ("l", pa.int32()), ("class", LABEL), ("role", LABEL)])
SPLIT_SETS = pa.schema(
    [("s", pa.int32()), ("set", pa.int32()), ("class", LABEL), ("item", pa.int64()), ("role", LABEL)]
)
FEATURES = pa.schema([("item", pa.int64()), ("features", VECTOR)])
CONFIDENCES = pa.schema([("item", pa.int64()), ("class", LABEL), ("role", LABEL), ("confidences", VECTOR)])
COLUMNS = pa.schema([("column", pa.int32()), ("class", LABEL)])

_SUMMARY = [(name, pa.float32()) for name in ("u1", "u2", "u_min", "energy")]
PARTITION_SETS = pa.schema(
    [("l", pa.int32()), ("confidence", LABEL), ("s", pa.int32()), ("set", pa.int32()), ("top", LABEL), *_SUMMARY]
)
PARTITION_CLASSES = pa.schema(
    [("l", pa.int32()), ("confidence", LABEL), ("source", LABEL), ("class", LABEL), ("top", LABEL), *_SUMMARY]
)
PARTITION_NETWORKS = pa.schema([("l", pa.int32()), ("train_items", pa.int64()), ("accuracy", pa.float64())])
CLASSIFIERS = pa.schema(
    [("method", LABEL), ("l", pa.int32()), ("s", pa.int32())]
    + [(name, pa.float64()) for name in ("w_set", "w_class", "b", "slope", "offset", "p", "q")]
    + [("undefined", pa.int64())]
)
VOTES = pa.schema(
    [
        *(("method", LABEL), ("l", pa.int32()), ("s", pa.int32()), ("set", pa.int32())),
        *(("vote", pa.int8()), ("margin", pa.float64())),
    ]
)
SCORES = pa.schema(
    [
        *(("method", LABEL), ("s", pa.int32()), ("set", pa.int32()), ("class", LABEL)),
        *(("novel", pa.bool_()), ("novelty", pa.float64())),
    ]
)
REPORT_SCORES = pa.schema([("r", pa.int32()), ("f", pa.int32()), *SCORES])


def write(path: Path, schema: pa.Schema, columns: Any) -> None:
    """Write a data frame or a mapping of columns; a column of vectors is a 2-d array."""
    arrays = [_to_arrow(path, field, columns) for field in schema]
    for field, array in zip(schema, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise OutclassError(f"{path}: column {field.name} has {len(array)} rows, {schema[0].name} {len(arrays[0])}")
    _write(path, pa.Table.from_arrays(arrays, names=schema.names))


def read(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns; one that is damaged or does not fit its schema is refused."""
    try:
        _check(path, pq.read_schema(path), schema)
        return pq.read_table(path, columns=columns, page_checksum_verification=True)
    except FileNotFoundError:
        raise OutclassError(f"{path}: not found; run `dvc repro` to make it") from None
    except (pa.ArrowException, OSError) as error:
        raise OutclassError(
            f"{path}: not a readable Parquet file ({_first_line(error)}); delete it and run `dvc repro`"
        ) from error


def read_frame(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> pd.DataFrame:
    """A table without vectors, as a data frame whose labels are plain strings."""
    table = read(path, schema, columns)
    plain = [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names).to_pandas()


def read_vectors(path: Path, schema: pa.Schema, column: str) -> tuple[pd.DataFrame, Floats]:
    """A table's other columns as a data frame, and its column of vectors as a 2-d array."""
    others = [name for name in schema.names if name != column]
    vectors = read(path, schema, [column])[column].combine_chunks()
    shape = (len(vectors), vectors.type.list_size)
    return read_frame(path, schema, others), vectors.flatten().to_numpy().reshape(shape)


def concatenate(paths: list[Path], path: Path, schema: pa.Schema) -> None:
    """Write several tables of one schema as one."""
    _write(path, pa.concat_tables([read(part, schema) for part in paths]).unify_dictionaries())


def _write(path: Path, table: pa.Table) -> None:
    with finished(path) as unfinished:
        pq.write_table(table, unfinished, write_page_checksum=True)


def _to_arrow(path: Path, field: pa.Field, columns: Any) -> pa.Array:
    if field.name not in columns:
        raise OutclassError(f"{path}: column {field.name} is missing from what is to be written")
    values = columns[field.name]
    try:
        if field.type == VECTOR:
            matrix = np.ascontiguousarray(values, dtype=np.float32)
            return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        array = pa.array(values if isinstance(values, list) else np.asarray(values))
        if field.type == LABEL:
            return _labels(array)
        return array.cast(field.type)
    except (pa.ArrowException, ValueError, IndexError) as error:
        raise OutclassError(f"{path}: column {field.name} does not fit {field.type}: {_first_line(error)}") from error


def _labels(array: pa.Array) -> pa.Array:
    if array.type not in (pa.string(), pa.large_string(), pa.null()):
        raise ValueError(f"{array.type} is no text")
    return array.cast(pa.string()).dictionary_encode()


def _check(path: Path, stored: pa.Schema, schema: pa.Schema) -> None:
    for field in schema:
        if field.name not in stored.names:
            raise OutclassError(f"{path}: column {field.name} is missing; delete the file and run `dvc repro`")
        found = stored.field(field.name).type
        if not _fits(found, field.type):
            raise OutclassError(
                f"{path}: column {field.name} is {found} instead of {field.type}; delete the file and run `dvc repro`"
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted == VECTOR:
        return bool(pa.types.is_fixed_size_list(found) and found.value_type == VECTOR.value_type)
    return bool(found == wanted)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
