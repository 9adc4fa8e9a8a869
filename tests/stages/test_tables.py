from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outclass.errors import OutclassError
from stages import tables

SCHEMAS = {name: value for name, value in vars(tables).items() if isinstance(value, pa.Schema)}


def column(kind: pa.DataType) -> np.ndarray:
    """Five values that only the very type can hold."""
    examples = {
        tables.LABEL: np.array(["b", "a", "b", "Ϡ", ""]),
        tables.VECTOR: np.arange(15, dtype=np.float32).reshape(5, 3) / 7,
        tables.BYTES: np.arange(241, 256, dtype=np.uint8).reshape(5, 3),
        pa.string(): np.array(["x/0000", "", "y", "z", "ß"]),
        pa.binary(): np.array([b"\x00\xff", b"", b"png", b"1", b"2"], dtype=object),
        pa.int64(): np.array([2**40, -1, 0, 3, 4]),
        pa.int32(): np.array([2**31 - 1, -1, 0, 3, 4]),
        pa.int8(): np.array([-1, 0, 1, 127, -128]),
        pa.float64(): np.array([0.1, np.nan, np.inf, -0.0, 1e300]),
        pa.float32(): np.array([0.1, np.nan, np.inf, -0.0, 1e30], dtype=np.float32),
        pa.bool_(): np.array([True, False, False, True, True]),
    }
    return examples[kind]


def columns(schema: pa.Schema) -> dict[str, np.ndarray]:
    return {field.name: column(field.type) for field in schema}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.parquet"


@pytest.fixture
def written(path: Path) -> Path:
    tables.write(path, tables.CONFIDENCES, columns(tables.CONFIDENCES))
    return path


@pytest.mark.parametrize("name", SCHEMAS)
class TestEverySchema:
    def test_values_come_back_as_they_were(self, path, name):
        schema, given = SCHEMAS[name], columns(SCHEMAS[name])
        tables.write(path, schema, given)
        kinds = (tables.VECTOR, tables.BYTES)
        vectors = [field.name for field in schema if field.type in kinds]
        plain = [field.name for field in schema if field.type not in kinds]
        found = tables.read_frame(path, schema, plain)
        assert list(found.columns) == plain
        for key in plain:
            np.testing.assert_array_equal(found[key].to_numpy(), given[key])
        for key in vectors:
            np.testing.assert_array_equal(tables.read_vectors(path, schema, key)[1], given[key])

    def test_a_frame_is_written_like_a_mapping(self, path, name, tmp_path):
        plain = pa.schema([field for field in SCHEMAS[name] if field.type not in (tables.VECTOR, tables.BYTES)])
        given = columns(plain)
        tables.write(path, plain, given)
        tables.write(tmp_path / "frame.parquet", plain, pd.DataFrame(given, index=[9, 9, 7, 1, 0]))
        assert path.read_bytes() == (tmp_path / "frame.parquet").read_bytes()

    def test_the_same_values_give_the_same_bytes(self, path, name, tmp_path):
        for target in (path, tmp_path / "again.parquet"):
            tables.write(target, SCHEMAS[name], columns(SCHEMAS[name]))
        assert path.read_bytes() == (tmp_path / "again.parquet").read_bytes()

    def test_each_missing_column_is_refused_by_name(self, path, name):
        for lost in SCHEMAS[name].names:
            given = columns(SCHEMAS[name])
            del given[lost]
            with pytest.raises(OutclassError, match=f"table.parquet: column {lost} is missing"):
                tables.write(path, SCHEMAS[name], given)
        assert not path.exists()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("column", ["one", "two"]),
        ("column", [0.5, 1.0]),
        ("column", [0, 2**40]),
        ("class", ["a", 1]),
        ("class", [1, 2]),
    ],
)
def test_a_column_of_the_wrong_type_is_not_written(path, name, values):
    with pytest.raises(OutclassError, match=f"table.parquet: column {name} does not fit"):
        tables.write(path, tables.COLUMNS, {"column": [0, 1], "class": ["a", "b"], name: values})
    assert not path.exists()


@pytest.mark.parametrize(
    "values",
    [
        [["a"], ["b"]],
        [[1.0], [1.0, 2.0]],
        np.zeros(2),
    ],
)
def test_vectors_that_are_none_are_not_written(path, values):
    with pytest.raises(OutclassError, match=r"table\.parquet: column features does not fit"):
        tables.write(path, tables.FEATURES, {"item": [0, 1], "mirrored": [False, False], "features": values})


def test_columns_of_unequal_length_are_not_written(path):
    with pytest.raises(OutclassError, match="class"):
        tables.write(path, tables.COLUMNS, {"column": [0, 1], "class": ["a"]})


def test_a_table_that_lacks_a_column_is_not_read(written):
    wanted = tables.CONFIDENCES.append(pa.field("more", pa.int64()))
    with pytest.raises(OutclassError, match=r"table\.parquet: column more is missing; delete the file and run `dvc"):
        tables.read(written, wanted)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("item", pa.int32()),
        ("class", pa.string()),
        ("confidences", pa.list_(pa.float32())),
        ("confidences", pa.list_(pa.float64(), 3)),
    ],
)
def test_a_table_with_a_column_of_another_type_is_not_read(written, name, other):
    table = pq.read_table(written)
    changed = table[name].cast(other, safe=False)
    pq.write_table(table.set_column(table.column_names.index(name), name, changed), written)
    with pytest.raises(OutclassError, match=rf"table\.parquet: column {name} is .* instead of .*; delete the file"):
        tables.read(written, tables.CONFIDENCES)


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -9, -1])
def test_a_truncated_file_is_refused_with_what_to_do(written, kept):
    written.write_bytes(written.read_bytes()[:kept])
    with pytest.raises(OutclassError, match=r"table\.parquet: not a readable Parquet file .*delete it and run `dvc"):
        tables.read(written, tables.CONFIDENCES)


@pytest.mark.parametrize("garbage", [b"version https://git-lfs", b"PAR1" + b"\xff" * 200 + b"PAR1", b"\x00" * 4096])
def test_garbage_is_refused_with_what_to_do(path, garbage):
    path.write_bytes(garbage)
    with pytest.raises(OutclassError, match=r"table\.parquet: not a readable Parquet file .*delete it and run `dvc"):
        tables.read(path, tables.CONFIDENCES)


def test_a_flipped_bit_does_not_give_other_numbers(path):
    vectors = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    tables.write(path, tables.FEATURES, {"item": np.arange(200), "mirrored": np.arange(200) > 99, "features": vectors})
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)
    with pytest.raises(OutclassError, match=r"table\.parquet"):
        tables.read_vectors(path, tables.FEATURES, "features")


def test_a_missing_file_is_refused_with_what_to_do(path):
    with pytest.raises(OutclassError, match=r"table\.parquet: not found; run `dvc repro`"):
        tables.read(path, tables.CONFIDENCES)


def test_labels_are_read_as_plain_strings(written):
    found = tables.read_frame(written, tables.CONFIDENCES, ["class"])["class"]
    assert found.tolist() == column(tables.LABEL).tolist()
    assert not isinstance(found.dtype, pd.CategoricalDtype)


def test_vectors_come_with_the_other_columns_in_the_same_order(written):
    frame, vectors = tables.read_vectors(written, tables.CONFIDENCES, "confidences")
    assert frame["item"].tolist() == column(pa.int64()).tolist()
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, column(tables.VECTOR))


def test_a_table_without_rows_comes_back(path):
    empty = {"item": np.zeros(0, int), "mirrored": np.zeros(0, bool), "features": np.zeros((0, 3))}
    tables.write(path, tables.FEATURES, empty)
    assert tables.read_vectors(path, tables.FEATURES, "features")[1].shape == (0, 3)


def test_tables_put_together_keep_their_order_and_labels(path, tmp_path):
    parts = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    tables.write(parts[0], tables.COLUMNS, {"column": [0, 1], "class": ["b", "a"]})
    tables.write(parts[1], tables.COLUMNS, {"column": [2, 3], "class": ["c", "b"]})
    tables.concatenate(parts, path, tables.COLUMNS)
    found = tables.read_frame(path, tables.COLUMNS)
    assert found["column"].tolist() == [0, 1, 2, 3]
    assert found["class"].tolist() == ["b", "a", "c", "b"]


def test_a_part_of_another_schema_is_not_put_together(path, tmp_path):
    tables.write(tmp_path / "0.parquet", tables.COLUMNS, {"column": [0], "class": ["b"]})
    tables.write(tmp_path / "1.parquet", tables.SPLIT_CLASSES, {"f": [0], "class": ["b"], "role": ["known"]})
    with pytest.raises(OutclassError, match=r"1\.parquet: column column is missing"):
        tables.concatenate([tmp_path / "0.parquet", tmp_path / "1.parquet"], path, tables.COLUMNS)
    assert not path.exists()


class TestPartByPart:
    SIZES = (3, 1, 4)

    @pytest.fixture
    def parts(self) -> list[dict[str, np.ndarray]]:
        rng = np.random.default_rng(0)
        return [
            {
                "item": np.arange(size) + 10 * size,
                "mirrored": np.arange(size) % 2 == 0,
                "name": [f"item {size} {n}" for n in range(size)],
                "class": np.array([f"class {size}"] * size),
                "role": rng.choice(["train", "test"], size),
            }
            for size in self.SIZES
        ]

    @pytest.fixture
    def streamed(self, path, parts) -> Path:
        with tables.writer(path, tables.SPLIT_ITEMS) as write:
            for part in parts:
                write(part)
        return path

    def test_a_table_reads_as_if_written_at_once(self, streamed, parts):
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        found = tables.read_frame(streamed, tables.SPLIT_ITEMS)
        assert {name: found[name].tolist() for name in whole} == {name: v.tolist() for name, v in whole.items()}
        assert tables.count_rows(streamed, tables.SPLIT_ITEMS) == 8

    def test_each_part_is_a_row_group(self, streamed):
        metadata = pq.read_metadata(streamed)
        assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == list(self.SIZES)

    @pytest.mark.parametrize("last", range(9))
    @pytest.mark.parametrize("first", range(9))
    def test_any_rows_can_be_read(self, streamed, first, last):
        whole = tables.read_frame(streamed, tables.SPLIT_ITEMS)["name"].tolist()
        if first <= last:
            rows = tables.read_rows(streamed, tables.SPLIT_ITEMS, first, last, ["name"])
            assert rows["name"].to_pylist() == whole[first:last]

    def test_only_the_row_groups_that_hold_the_rows_are_read(self, streamed):
        names = pq.read_metadata(streamed).row_group(2).column(2)
        stored = bytearray(streamed.read_bytes())
        stored[names.data_page_offset + names.total_compressed_size // 2] ^= 1
        streamed.write_bytes(stored)
        assert len(tables.read_rows(streamed, tables.SPLIT_ITEMS, 0, 4, ["name"])) == 4
        with pytest.raises(OutclassError, match=r"table\.parquet"):
            tables.read_rows(streamed, tables.SPLIT_ITEMS, 0, 5, ["name"])

    def test_a_part_of_another_width_is_refused_and_nothing_is_left(self, path):
        with (  # noqa: PT012
            pytest.raises(OutclassError, match=r"table\.parquet: a part has"),
            tables.writer(path, tables.FEATURES) as write,
        ):
            write({"item": [0], "mirrored": [False], "features": np.zeros((1, 3))})
            write({"item": [1], "mirrored": [False], "features": np.zeros((1, 4))})
        assert list(path.parent.iterdir()) == []
