import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from outclass.errors import OutclassError
from stages import paths, split, tables
from stages.params import Params, parse

TINY = yaml.safe_load((Path(__file__).resolve().parents[2] / "presets/tiny.yaml").read_text())
REPRODUCIBLE = settings(derandomize=True, database=None, deadline=None, max_examples=30)


def with_split(params: Params, **changes: Any) -> Params:
    return params.model_copy(update={"split": params.split.model_copy(update=changes)})


@st.composite
def small_params(draw: st.DrawFn) -> Params:
    """Few classes and items, any counts that fit together."""
    values = copy.deepcopy(TINY)
    classes = draw(st.integers(4, 12))
    novel = draw(st.integers(1, classes - 3))
    items = {"train": draw(st.integers(1, 5)), "calibration": draw(st.integers(1, 6))}
    items["test"] = draw(st.none() | st.integers(1, 6))
    values["seed"] = draw(st.integers(0, 2**32))
    values["folds"] = [0]
    values["download"]["glyphs"]["classes"] = classes
    values["split"] = {
        "folds_drawn": draw(st.integers(1, 15)),
        "novel_classes": novel,
        "partitions": draw(st.integers(1, 12)),
        "presumed_novel_classes": draw(st.integers(1, classes - novel - 2)),
        "items": items,
        "set_sizes": draw(st.lists(st.integers(1, 4), min_size=1, unique=True)),
    }
    return parse(values, "generated")


def names_of(params: Params) -> np.ndarray:
    return np.array([f"class-{n:02}" for n in range(params.download.glyphs.classes)])


@st.composite
def params_and_items(draw: st.DrawFn) -> tuple[Params, pd.DataFrame]:
    """Items in any order, with a few more in some classes than are asked for."""
    params = draw(small_params())
    counts = params.split.items
    least = counts.train + counts.calibration + (counts.test or 1)
    sizes = [least + draw(st.integers(0, 3)) for _ in names_of(params)]
    classes = np.repeat(names_of(params), sizes)
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(len(classes))
    return params, pd.DataFrame({"item": 1000 + order, "class": classes[order]})


def with_roles(params: Params, items: pd.DataFrame, repetition: int) -> pd.DataFrame:
    labels = np.unique(items["class"].to_numpy(dtype=str), return_inverse=True)[1]
    frame = items.assign(role=split.draw_roles(params, labels, repetition))
    return frame[frame["role"] != ""]


class TestFolds:
    @REPRODUCIBLE
    @given(small_params(), st.integers(0, 5))
    def test_are_balanced_after_every_one(self, params, repetition):
        novel = split.draw_folds(params, params.download.glyphs.classes, repetition)
        assert novel.shape == (params.split.folds_drawn, params.download.glyphs.classes)
        assert (novel.sum(axis=1) == params.split.novel_classes).all()
        taken = novel.cumsum(axis=0)
        assert (taken.max(axis=1) - taken.min(axis=1) <= 1).all()

    @REPRODUCIBLE
    @given(small_params(), st.integers(1, 9))
    def test_more_folds_keep_the_earlier_ones(self, params, more):
        classes = params.download.glyphs.classes
        few = split.draw_folds(params, classes, 0)
        many = split.draw_folds(with_split(params, folds_drawn=params.split.folds_drawn + more), classes, 0)
        np.testing.assert_array_equal(many[: len(few)], few)

    def test_other_repetitions_and_seeds_draw_others(self):
        params = parse(TINY, "tiny")
        first, second = (split.draw_folds(params, 100, repetition) for repetition in (0, 1))
        assert (first != second).any()
        assert (first != split.draw_folds(params.model_copy(update={"seed": 1}), 100, 0)).any()


class TestRoles:
    @REPRODUCIBLE
    @given(params_and_items(), st.integers(0, 5))
    def test_every_class_gives_as_many_items_of_each_role_as_asked(self, drawn, repetition):
        params, items = drawn
        counts = params.split.items
        for name, rows in with_roles(params, items, repetition).groupby("class"):
            found = rows["role"].value_counts()
            available = (items["class"] == name).sum()
            assert found["train"] == counts.train
            assert found["calibration"] == counts.calibration
            assert found["test"] == (counts.test or available - counts.train - counts.calibration)

    @REPRODUCIBLE
    @given(params_and_items())
    def test_repetitions_draw_on_their_own(self, drawn):
        params, items = drawn
        listed = params.model_copy(update={"repetitions": [0, 1]})
        pd.testing.assert_frame_equal(with_roles(params, items, 0), with_roles(listed, items, 0))

    def test_other_repetitions_draw_others(self):
        labels = np.repeat(np.arange(12), 24)
        params = parse(TINY, "tiny")
        assert (split.draw_roles(params, labels, 0) != split.draw_roles(params, labels, 1)).any()


class TestPartitions:
    @REPRODUCIBLE
    @given(small_params(), st.integers(0, 3))
    def test_divide_the_known_classes_of_their_fold_and_no_others(self, params, repetition):
        names = names_of(params)
        novel = split.draw_folds(params, len(names), repetition)
        frame = split.draw_partitions(params, names, novel, repetition)
        assert frame.groupby(["f", "l"]).ngroups == params.split.folds_drawn * params.split.partitions
        for (fold, _), rows in frame.groupby(["f", "l"]):
            assert sorted(rows["class"]) == sorted(names[~novel[fold]])
            assert (rows["role"] == "novel").sum() == params.split.presumed_novel_classes

    @REPRODUCIBLE
    @given(small_params())
    def test_presume_classes_novel_equally_often(self, params):
        names = names_of(params)
        frame = split.draw_partitions(params, names, split.draw_folds(params, len(names), 0), 0)
        times = (frame["role"] == "novel").groupby([frame["f"], frame["class"]]).sum().groupby("f")
        assert (times.max() - times.min() <= 1).all()

    @REPRODUCIBLE
    @given(small_params(), st.integers(1, 5), st.integers(1, 5))
    def test_more_of_them_and_more_folds_keep_the_earlier_ones(self, params, more, folds):
        names, chosen = names_of(params), params.split
        larger = with_split(params, partitions=chosen.partitions + more, folds_drawn=15 + folds)
        few, many = (
            split.draw_partitions(each, names, split.draw_folds(each, len(names), 0), 0) for each in (params, larger)
        )
        kept = many[(many["l"] < chosen.partitions) & (many["f"] < chosen.folds_drawn)]
        pd.testing.assert_frame_equal(kept.reset_index(drop=True), few.reset_index(drop=True))

    def test_folds_of_the_same_classes_are_divided_differently(self):
        params = parse(TINY, "tiny")
        novel = np.zeros((2, 12), dtype=bool)
        novel[:, :3] = True
        frame = split.draw_partitions(params, names_of(params), novel, 0)
        assert frame[frame["f"] == 0]["role"].tolist() != frame[frame["f"] == 1]["role"].tolist()


class TestSets:
    @REPRODUCIBLE
    @given(params_and_items(), st.integers(0, 3))
    def test_are_disjoint_of_one_class_and_of_one_role(self, drawn, repetition):
        params, items = drawn
        items = with_roles(params, items, repetition)
        sets = split.draw_all_sets(params, items, repetition)
        true = items.set_index("item")
        for (size, _), rows in sets.groupby(["s", "set"]):
            assert len(rows) == size
            assert rows["class"].nunique() == rows["role"].nunique() == 1
            assert (true.loc[rows["item"], "class"].to_numpy() == rows["class"].to_numpy()).all()
            assert (true.loc[rows["item"], "role"].to_numpy() == rows["role"].to_numpy()).all()
        assert set(sets["role"]) <= {"calibration", "test"}
        assert not sets.duplicated(["s", "item"]).any()

    @REPRODUCIBLE
    @given(params_and_items())
    def test_are_as_many_as_there_can_be(self, drawn):
        params, items = drawn
        items = with_roles(params, items, 0)
        sets = split.draw_all_sets(params, items, 0)
        for size in params.split.set_sizes:
            for (role, name), rows in items[items["role"] != "train"].groupby(["role", "class"]):
                chosen = sets[(sets["s"] == size) & (sets["role"] == role) & (sets["class"] == name)]
                assert chosen["set"].nunique() == len(rows) // size

    @REPRODUCIBLE
    @given(params_and_items())
    def test_of_a_size_do_not_depend_on_the_other_sizes(self, drawn):
        params, items = drawn
        items = with_roles(params, items, 0)
        together = split.draw_all_sets(params, items, 0)
        for size in params.split.set_sizes:
            alone = split.draw_all_sets(with_split(params, set_sizes=[size]), items, 0)
            pd.testing.assert_frame_equal(together[together["s"] == size], alone)

    def test_are_drawn_anew_for_every_size_and_repetition(self):
        params = parse(TINY, "tiny")
        items = pd.DataFrame({"item": np.arange(24), "class": "a", "role": "test"})
        orders = [
            tuple(rows["item"])
            for repetition in (0, 1)
            for _, rows in split.draw_all_sets(params, items, repetition).groupby("s")
        ]
        assert len(set(orders)) == 6


class TestImpossible:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"novel_classes": 10}, ["split.novel_classes = 10", "12 classes", "at most 9"]),
            ({"novel_classes": 50}, ["split.novel_classes = 50", "12 classes"]),
            ({"presumed_novel_classes": 8}, ["split.presumed_novel_classes = 8", "9 known", "at most 7"]),
            ({"set_sizes": [1, 7]}, ["split.set_sizes has 7", "'digit-1' has 6 calibration items"]),
        ],
    )
    def test_counts_are_refused_by_parameter(self, changes, words):
        names = np.array(["digit-1", *(f"latin-{n}" for n in range(11))])
        labels = np.repeat(np.arange(12), 24)
        with pytest.raises(OutclassError) as caught:
            split.check_counts(with_split(parse(TINY, "tiny"), **changes).split, names, labels)
        assert all(word in str(caught.value) for word in words)

    @pytest.mark.parametrize(
        ("test", "size", "words"),
        [
            (6, 23, ["split.items", "12 train", "6 calibration", "6 test", "'b'", "has 23 items"]),
            (None, 18, ["split.items", "at least 1 test", "'b'", "has 18 items"]),
            (None, 20, ["split.set_sizes has 3", "'b'", "has 2 test items"]),
        ],
    )
    def test_a_class_that_is_too_small_is_named(self, test, size, words):
        params = parse(TINY, "tiny")
        items = params.split.items.model_copy(update={"test": test})
        names = np.array([*"abcdefgh"])
        labels = np.repeat(np.arange(8), [24, size, *[24] * 6])
        with pytest.raises(OutclassError) as caught:
            split.check_counts(with_split(params, items=items).split, names, labels)
        assert all(word in str(caught.value) for word in words)

    def test_the_largest_counts_that_fit_are_accepted(self):
        params = with_split(parse(TINY, "tiny"), novel_classes=9, presumed_novel_classes=1, set_sizes=[6])
        names = np.array([f"class-{n}" for n in range(12)])
        split.check_counts(params.split, names, np.repeat(np.arange(12), 24))
        assert split.draw_folds(params, 12, 0).sum() == 27


class TestRun:
    def test_another_repetition_leaves_the_first_untouched(self, project):
        tables_of = ["classes", "items", "partitions", "sets"]
        before = [paths.split(0, name).read_bytes() for name in tables_of]
        split.run(1)
        assert [paths.split(0, name).read_bytes() for name in tables_of] == before
        assert [paths.split(1, name).read_bytes() for name in tables_of] != before

    def test_the_same_twice(self, project):
        before = paths.split(0, "sets").read_bytes()
        paths.split(0, "sets").unlink()
        split.run(0)
        assert paths.split(0, "sets").read_bytes() == before

    def test_items_that_no_role_asks_for_are_left_out(self, project, configure):
        configure("split.items.test", 3)
        split.run(0)
        items = tables.read_frame(paths.split(0, "items"), tables.SPLIT_ITEMS)
        assert items.groupby("class")["item"].size().unique().tolist() == [12 + 6 + 3]

    def test_what_is_impossible_writes_nothing(self, project, configure):
        before = paths.split(0, "classes").read_bytes()
        configure("split.novel_classes", 11)
        with pytest.raises(OutclassError, match=r"split\.novel_classes = 11"):
            split.run(0)
        assert paths.split(0, "classes").read_bytes() == before
