"""The Parquet tables between the stages: one schema each, checked on write and on read."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
VECTOR, BYTES = pa.list_(pa.float32()), pa.list_(pa.uint8())
"""Mark a column of vectors; the written type is a list of fixed size."""

# What r, f, l, s mean: repetition, fold, partition, set size. A set's number is unique within its size.
# `split` is what the data set itself says of an item: train, test, or nothing.
ITEMS = pa.schema([("item", pa.int64()), ("name", pa.string()), ("class", LABEL), ("split", LABEL)])
IMAGES = pa.schema([*ITEMS, ("image", pa.binary())])
GIVEN = pa.schema([*ITEMS, ("features", VECTOR)])
SKIPPED = pa.schema([("name", pa.string()), ("class", LABEL), ("reason", pa.string())])
# An image gives one row as it is and, where asked for, one mirrored: two views of the same item.
_VIEW = [("item", pa.int64()), ("mirrored", pa.bool_())]
USED_ITEMS = pa.schema([*_VIEW, ("name", pa.string()), ("class", LABEL), ("split", LABEL)])
SPLIT_CLASSES = pa.schema([("f", pa.int32()), ("class", LABEL), ("role", LABEL)])
SPLIT_ITEMS = pa.schema([*_VIEW, ("name", pa.string()), ("class", LABEL), ("role", LABEL)])
SPLIT_PARTITIONS = pa.schema([("f", pa.int32()), ("l", pa.int32()), ("class", LABEL), ("role", LABEL)])
SPLIT_SETS = pa.schema(
    [("s", pa.int32()), ("set", pa.int32()), ("class", LABEL), ("item", pa.int64()), ("role", LABEL)]
)
FEATURES = pa.schema([*_VIEW, ("features", VECTOR)])
PIXELS = pa.schema([*_VIEW, ("features", BYTES)])
CONFIDENCES = pa.schema([*_VIEW, ("class", LABEL), ("role", LABEL), ("confidences", VECTOR)])
COLUMNS = pa.schema([("column", pa.int32()), ("class", LABEL)])

_SUMMARY = [(name, pa.float32()) for name in ("u1", "u2", "u_min", "energy")]
PARTITION_SETS = pa.schema(
    [("l", pa.int32()), ("confidence", LABEL), ("s", pa.int32()), ("set", pa.int32()), ("top", LABEL), *_SUMMARY]
)
PARTITION_CLASSES = pa.schema(
    [("l", pa.int32()), ("confidence", LABEL), ("source", LABEL), ("class", LABEL), ("top", LABEL), *_SUMMARY]
)
PARTITION_NETWORKS = pa.schema([("l", pa.int32()), ("train_items", pa.int64()), ("accuracy", pa.float64())])
PARTITION_CONFIDENCES = pa.schema([("l", pa.int32()), *_VIEW, ("role", LABEL), ("confidences", VECTOR)])
CLASSIFIERS = pa.schema(
    [("method", LABEL), ("l", pa.int32()), ("s", pa.int32())]
    + [(name, pa.float64()) for name in ("w_set", "w_class", "b", "slope", "offset", "p", "q")]
    + [("undefined", pa.int64())]
    # How far theta_S of presumed-novel and of presumed-known test sets is from that of novel ones, 0 to 1.
    + [(name, pa.float64()) for name in ("presumed_novel_distance", "presumed_known_distance")]
)
# `own_vote`: the vote if every partition has a say, each on the class that its own network chose.
VOTES = pa.schema(
    [
        *(("method", LABEL), ("l", pa.int32()), ("s", pa.int32()), ("set", pa.int32())),
        *(("vote", pa.int8()), ("margin", pa.float64()), ("own_vote", pa.int8())),
    ]
)
SCORES = pa.schema(
    [
        *(("method", LABEL), ("s", pa.int32()), ("set", pa.int32()), ("class", LABEL)),
        *(("novel", pa.bool_()), ("novelty", pa.float64())),
    ]
)
POOLED = pa.schema(
    [("s", pa.int32()), ("input", LABEL), *((name, pa.float64()) for name in ("mean", "scale", "weight"))]
)
CHOSEN = pa.schema(
    [
        *(("method", LABEL), ("way", LABEL), ("s", pa.int32()), ("hyper_parameters", pa.string())),
        *(("auc", pa.float64()), ("skipped", pa.string())),
    ]
)
REPORT_SCORES = pa.schema([("r", pa.int32()), ("f", pa.int32()), *SCORES])
_METHOD_OF_SIZE = [("s", pa.int32()), ("method", LABEL), ("runs", pa.int32())]
REPORT_PAIRS = pa.schema(
    [*_METHOD_OF_SIZE, ("reference", LABEL), *((name, pa.float64()) for name in ("difference", "low", "high"))]
)
REPORT_RANKS = pa.schema([*_METHOD_OF_SIZE, ("rank", pa.float64()), ("best", pa.int32())])


def write(path: Path, schema: pa.Schema, columns: Any) -> None:
    """Write a data frame or a mapping of columns; a column of vectors is a 2-d array."""
    _write(path, _table(path, schema, columns))


@contextmanager
def writer(path: Path, schema: pa.Schema) -> Iterator[Callable[[Any], None]]:
    """Write a table part by part, each a row group, so that it need never be in memory as a whole.

    A table without parts is not written: with columns of vectors, nobody could tell their width.
    """
    with finished(path) as unfinished, ExitStack() as stack:
        output: pq.ParquetWriter | None = None

        def write_part(columns: Any) -> None:
            nonlocal output
            part = _table(path, schema, columns)
            if output is None:
                output = stack.enter_context(pq.ParquetWriter(unfinished, part.schema, write_page_checksum=True))
            if part.schema != output.schema:
                raise OutclassError(f"{path}: a part has {part.schema} instead of {output.schema}")
            output.write_table(part, row_group_size=max(1, len(part)))

        yield write_part


def _table(path: Path, schema: pa.Schema, columns: Any) -> pa.Table:
    arrays = [_to_arrow(path, field, columns) for field in schema]
    for field, array in zip(schema, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise OutclassError(f"{path}: column {field.name} has {len(array)} rows, {schema[0].name} {len(arrays[0])}")
    return pa.Table.from_arrays(arrays, names=schema.names)


def read(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns; one that is damaged or does not fit its schema is refused."""
    with _readable(path, schema):
        return pq.read_table(path, columns=columns, page_checksum_verification=True)


def read_rows(path: Path, schema: pa.Schema, first: int, last: int, columns: list[str] | None = None) -> pa.Table:
    """Rows ``first`` to ``last`` (exclusive); only the row groups that hold them are read."""
    with _readable(path, schema), pq.ParquetFile(path, page_checksum_verification=True) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = np.cumsum(sizes, dtype=int)
        groups = np.flatnonzero((ends > first) & (ends - sizes < last))
        rows = file.read_row_groups(groups.tolist(), columns=columns)
        return rows.slice(first - int((ends - sizes)[groups[0]]) if len(groups) else 0, last - first)


def count_rows(path: Path, schema: pa.Schema) -> int:
    with _readable(path, schema):
        return int(pq.read_metadata(path).num_rows)


@contextmanager
def _readable(path: Path, schema: pa.Schema) -> Iterator[None]:
    """Turn what may go wrong into words; check the schema first."""
    try:
        _check(path, pq.read_schema(path), schema)
        yield
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
        if field.type in (VECTOR, BYTES):
            matrix = np.ascontiguousarray(values, dtype=field.type.value_type.to_pandas_dtype())
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
    if wanted in (VECTOR, BYTES):
        return bool(pa.types.is_fixed_size_list(found) and found.value_type == wanted.value_type)
    return bool(found == wanted)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
