"""Tables of given features, taken apart batch by batch."""

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from outclass.datasets import table
from outclass.errors import OutclassError


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def rows(data, first=0, label="label", features=None, name=None):
    columns = table.choose(data.schema, label, features, name)
    return table.rows(data, columns, first, table.width(data, columns))


class TestChoose:
    SCHEMA = pa.schema(
        [("label", pa.string()), ("id", pa.int64()), ("x", pa.float64()), ("y", pa.int8()), ("note", pa.string())]
    )

    def test_all_other_numeric_columns(self):
        assert table.choose(self.SCHEMA, "label", None, None).features == ("id", "x", "y")
        chosen = table.choose(self.SCHEMA, "label", None, "id")
        assert chosen.features == ("x", "y")
        assert chosen.ignored == ("note",)
        assert chosen.used == ["label", "id", "x", "y"]

    @pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.int64()), pa.list_(pa.float64(), 3)])
    def test_a_column_of_lists(self, kind):
        chosen = table.choose(pa.schema([("c", pa.int64()), ("v", kind), ("x", pa.float64())]), "c", "v", None)
        assert chosen.features == ("v",)
        assert chosen.title(2) == "v[2]"
        assert chosen.ignored == ("x",)

    @pytest.mark.parametrize(
        ("label", "features", "name", "message"),
        [
            ("klass", None, None, r"class_column: there is no column klass; there are label, id, x, y, note"),
            ("label", "vec", None, r"features_column: there is no column vec; there are label"),
            ("label", None, "key", r"name_column: there is no column key; there are label"),
            ("label", "note", None, r"features_column: note holds string instead of lists of numbers; set it to null"),
            ("x", None, None, r"class_column: x holds double; a class is text or a whole number"),
        ],
    )
    def test_says_which_parameter_names_a_wrong_column(self, label, features, name, message):
        with pytest.raises(OutclassError, match=rf"download\.table\.{message}"):
            table.choose(self.SCHEMA, label, features, name)

    def test_refuses_lists_of_text(self):
        with pytest.raises(OutclassError, match=r"v holds list<.*string>, and no numbers"):
            table.choose(pa.schema([("c", pa.string()), ("v", pa.list_(pa.string()))]), "c", "v", None)

    def test_refuses_a_table_without_numbers(self):
        with pytest.raises(OutclassError, match=r"no column is numeric \(c: string, t: string\)"):
            table.choose(pa.schema([("c", pa.string()), ("t", pa.string())]), "c", None, None)

    def test_refuses_two_columns_of_one_name(self):
        schema = pa.schema([("c", pa.string()), ("x", pa.float32()), ("x", pa.float32())])
        with pytest.raises(OutclassError, match="there are several columns x; rename all but one"):
            table.choose(schema, "c", None, None)


class TestIndex:
    """What pandas saves beside the columns numbers the rows, which are often sorted by class."""

    @pytest.mark.parametrize("name", ["", "__index_level_0__", "__index_level_12__", "Unnamed: 0"])
    def test_is_refused_by_its_name(self, name):
        schema = pa.schema([("c", pa.string()), (name, pa.int64()), ("x", pa.float64())])
        with pytest.raises(OutclassError, match=rf"column {name!r} looks like the index .*index=False.*name_column"):
            table.choose(schema, "c", None, None)
        chosen = table.choose(schema, "c", None, name)
        assert chosen.features == ("x",)
        assert chosen.used == ["c", name, "x"]

    def test_is_refused_by_what_pandas_says_of_it(self):
        frame = pd.DataFrame({"c": ["a", "b"], "x": [0.5, 1.5]}, index=pd.Index([7, 8], name="number"))
        schema = pa.Table.from_pandas(frame).schema
        with pytest.raises(OutclassError, match="column 'number' looks like the index"):
            table.choose(schema, "c", None, None)
        assert table.choose(schema, "c", None, "number").features == ("x",)

    @pytest.mark.parametrize("name", ["x", "index", "Unnamed", "level_0"])
    def test_is_not_seen_everywhere(self, name):
        frame = pd.DataFrame({"c": ["a", "b"], name: [0.5, 1.5]})
        assert table.choose(pa.Table.from_pandas(frame).schema, "c", None, None).features == (name,)

    def test_does_no_harm_beside_a_column_of_lists(self):
        schema = pa.schema([("c", pa.string()), ("", pa.int64()), ("v", pa.list_(pa.float32()))])
        assert table.choose(schema, "c", "v", None).ignored == ("",)


class TestRows:
    def test_columns_side_by_side_in_their_order(self):
        money = pa.array([decimal.Decimal("0.50"), decimal.Decimal("2.25")])
        got = rows(batch(b=[1, 2], label=["u", "v"], a=[0.5, -1.0], d=money), first=7)
        assert got.names == ["row 7", "row 8"]
        assert got.labels == ["u", "v"]
        assert got.faults == []
        assert got.features.dtype == np.float32
        np.testing.assert_array_equal(got.features, [[1, 0.5, 0.5], [2, -1.0, 2.25]])

    @pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.int64()), pa.list_(pa.float64(), 2)])
    def test_lists_of_every_kind(self, kind):
        data = batch(label=[3, 4], v=pa.array([[1, 2], [3, 4]], kind), key=["k", None])
        got = rows(data, features="v", name="key")
        assert (got.names, got.labels) == (["k", "row 1"], ["3", "4"])
        np.testing.assert_array_equal(got.features, [[1, 2], [3, 4]])

    def test_names_rows_of_another_width_with_their_class(self):
        data = batch(label=["a", "b", "c", "d", "e"], v=[[1.0], [1.0, 2.0], [3.0, 4.0], [], None])
        got = rows(data, first=10, features="v")
        assert got.labels == ["b", "c"]
        assert got.faults == [
            ("row 10", "a", "has 1 features instead of 2"),
            ("row 13", "d", "has 0 features instead of 2"),
            ("row 14", "e", "has no features"),
        ]

    def test_a_width_stays_as_it_was_in_the_first_batch(self):
        data = batch(label=["a"], v=[[1.0, 2.0, 3.0]])
        columns = table.choose(data.schema, "label", "v", None)
        assert table.rows(data, columns, 0, 2).faults == [("row 0", "a", "has 3 features instead of 2")]

    def test_names_rows_with_missing_and_infinite_values(self):
        data = batch(
            label=["a", "b", "c", "d", "e"],
            key=["k0", "k1", "k2", "k3", "k4"],
            x=[1.0, float("nan"), 3.0, 4.0, 5.0],
            y=[1.0, 2.0, None, float("-inf"), 1e300],  # the last is too large for float32
        )
        got = rows(data, name="key")
        assert got.names == ["k0"]
        assert got.faults == [
            ("k1 (row 1)", "b", "x is missing or NaN"),
            ("k2 (row 2)", "c", "y is missing or NaN"),
            ("k3 (row 3)", "d", "y is infinite"),
            ("k4 (row 4)", "e", "y is infinite"),
        ]

    def test_names_the_place_in_a_list(self):
        got = rows(batch(label=["a", "b"], v=[[1.0, 2.0], [1.0, None]]), features="v")
        assert got.faults == [("row 1", "b", "v[1] is missing or NaN")]

    def test_a_class_may_be_missing_here(self):
        """Whoever gathers the faults says so: it is the same for every source."""
        assert rows(batch(label=["a", None], x=[1.0, 2.0])).labels == ["a", ""]

    def test_dictionaries_are_text(self):
        assert rows(batch(label=pa.array(["a", "b"]).dictionary_encode(), x=[1, 2])).labels == ["a", "b"]

    def test_refuses_lists_that_are_all_empty(self):
        with pytest.raises(OutclassError, match=r"features_column: v holds empty lists"):
            rows(batch(label=["a"], v=pa.array([[]], pa.list_(pa.float32()))), features="v")


class TestText:
    def check(self, values):
        data = batch(label=["a"] * len(values), x=[1.0] * len(values), t=values)
        table.check_text(data, "label", None)

    def test_a_slip_among_numbers_is_named(self):
        with pytest.raises(OutclassError, match=r"column t has text among its numbers, first '0,5' in row 2"):
            self.check(["1", "", "0,5", "7"])

    @pytest.mark.parametrize("values", [["0,5", "1,25", "-3,0"], ["0,5", "1", "2", "1,5"], ["0,5", "1,5", "", "n"]])
    def test_decimal_commas_are_slips(self, values):
        with pytest.raises(OutclassError, match=r"column t has text among its numbers, first '0,5' in row 0.* a point"):
            self.check(values)

    def test_a_column_that_may_be_text_is_not_looked_at(self):
        data = batch(label=["1", "2", "x"], t=["1", "2", "x"])
        table.check_text(data, "label", "t")
        with pytest.raises(OutclassError, match="column t"):
            table.check_text(data, "label", None)

    @pytest.mark.parametrize("values", [["one", "two", "3"], ["a", "b", "c"], ["", "", ""], ["a, b", "c,d", "1,5"]])
    def test_text_is_no_slip(self, values):
        self.check(values)
        assert rows(batch(label=["a"] * 3, x=[1, 2, 3], t=values)).features.shape == (3, 1)
