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
from stages import counts, paths, split, tables
from stages.params import Params, load, parse

PRESETS = Path(__file__).resolve().parents[2] / "presets"
TINY = yaml.safe_load((PRESETS / "tiny.yaml").read_text())
REPRODUCIBLE = settings(derandomize=True, database=None, deadline=None, max_examples=30)


def with_split(params: Params, **changes: Any) -> Params:
    return params.model_copy(update={"split": params.split.model_copy(update=changes)})


@st.composite
def small_params(draw: st.DrawFn) -> Params:
    """Few classes and items, any counts that fit together."""
    values = copy.deepcopy(TINY)
    classes = draw(st.integers(4, 12))
    novel = draw(st.integers(1, classes - 3))
    items = {"train": draw(st.integers(2, 5)), "calibration": draw(st.integers(1, 6))}
    items["test"] = draw(st.none() | st.integers(1, 6))
    largest = min(4, items["calibration"], items["test"] or 4)
    values["seed"] = draw(st.integers(0, 2**32))
    values["folds"] = [0]
    values["download"]["glyphs"]["classes"] = classes
    values["split"] = {
        "folds_drawn": draw(st.integers(1, 15)),
        "novel_classes": novel,
        "partitions": draw(st.integers(1, 12)),
        "presumed_novel_classes": draw(st.integers(1, classes - novel - 2)),
        "items": items,
        "set_sizes": draw(st.lists(st.integers(1, largest), min_size=1, unique=True)),
    }
    return parse(values, "generated")


def names_of(params: Params) -> np.ndarray:
    return np.array([f"class-{n:02}" for n in range(params.download.glyphs.classes)])


@st.composite
def params_and_items(draw: st.DrawFn) -> tuple[Params, pd.DataFrame]:
    """Items in any order, with a few more in some classes than are asked for."""
    params = draw(small_params())
    wanted = params.split.items
    least = wanted.train + wanted.calibration + (wanted.test or 1)
    sizes = [least + draw(st.integers(0, 3)) for _ in names_of(params)]
    classes = np.repeat(names_of(params), sizes)
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(len(classes))
    return params, pd.DataFrame({"item": 1000 + order, "class": classes[order]})


def with_roles(params: Params, items: pd.DataFrame, repetition: int) -> pd.DataFrame:
    labels = np.unique(items["class"].to_numpy(dtype=str), return_inverse=True)[1]
    source = items["split"].to_numpy(dtype=str) if "split" in items else np.full(len(items), "")
    frame = items.assign(role=split.draw_roles(params, labels, source, repetition))
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
        wanted = params.split.items
        for name, rows in with_roles(params, items, repetition).groupby("class"):
            found = rows["role"].value_counts()
            available = (items["class"] == name).sum()
            assert found["train"] == wanted.train
            assert found["calibration"] == wanted.calibration
            assert found["test"] == (wanted.test or available - wanted.train - wanted.calibration)

    @REPRODUCIBLE
    @given(params_and_items())
    def test_repetitions_draw_on_their_own(self, drawn):
        params, items = drawn
        listed = params.model_copy(update={"repetitions": [0, 1]})
        pd.testing.assert_frame_equal(with_roles(params, items, 0), with_roles(listed, items, 0))

    def test_other_repetitions_draw_others(self):
        labels = np.repeat(np.arange(12), 24)
        params, source = parse(TINY, "tiny"), np.full(len(labels), "")
        assert (split.draw_roles(params, labels, source, 0) != split.draw_roles(params, labels, source, 1)).any()

    @REPRODUCIBLE
    @given(params_and_items(), st.integers(0, 3), st.integers(0, 3))
    def test_only_what_the_data_set_calls_train_trains(self, drawn, repetition, more):
        """A data set with its own train items: each class has those it needs of them, and some more."""
        params, items = drawn
        train = pd.DataFrame({"class": np.repeat(names_of(params), params.split.items.train + more), "split": "train"})
        items = pd.concat([items.assign(split="test"), train])
        items = items.assign(item=np.arange(len(items))).sample(frac=1, random_state=repetition)
        given_roles = with_roles(params, items, repetition)
        assert ((given_roles["role"] == "train") == (given_roles["split"] == "train")).all()
        for name, rows in given_roles.groupby("class"):
            found = rows["role"].value_counts()
            rest = ((items["class"] == name) & (items["split"] == "test")).sum()
            assert found["train"] == params.split.items.train
            assert found["calibration"] == params.split.items.calibration
            left = rest - params.split.items.calibration
            assert found["test"] == min(left, params.split.items.test or left)


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
        ],
    )
    def test_counts_are_refused_by_parameter(self, changes, words):
        with pytest.raises(OutclassError) as caught:
            counts.check_classes(with_split(parse(TINY, "tiny"), **changes).split, 12)
        assert all(word in str(caught.value) for word in words)

    def test_the_largest_counts_that_fit_are_accepted(self):
        params = with_split(parse(TINY, "tiny"), novel_classes=9, presumed_novel_classes=1, set_sizes=[6])
        counts.check_classes(params.split, 12)
        assert split.draw_folds(params, 12, 0).sum() == 27

    def test_every_class_that_is_too_small_is_named_with_what_it_lacks(self):
        """12 train, 6 calibration and a test set of 3 make 21."""
        chosen = parse(TINY, "tiny").split
        classes = np.repeat(["a", "b", "c", "d"], [21, 20, 24, 3])
        small = counts.small_classes(chosen, classes, np.full(len(classes), ""))
        assert list(small) == ["b", "d"]
        assert small["b"].startswith("has 20 items, split.items and split.set_sizes ask for at least 21 (12 train")
        with pytest.raises(OutclassError) as caught:
            counts.refuse_small(small)
        assert all(word in str(caught.value) for word in ("'b': has 20", "'d': has 3", "on_bad_item: skip"))

    def test_the_data_sets_own_parts_are_counted_apart(self):
        """12 of the train part, and 6 + 3 of the rest."""
        chosen = parse(TINY, "tiny").split
        classes = np.repeat(["a", "b", "c"], [12 + 9, 11 + 30, 30 + 8])
        source = np.repeat(["train", "test"] * 3, [12, 9, 11, 30, 30, 8])
        small = counts.small_classes(chosen, classes, source)
        assert list(small) == ["b", "c"]
        assert small["b"].startswith("has 11 and 30, ")
        assert "ask for 12 of its train part and 9 of the rest" in small["c"]

    @REPRODUCIBLE
    @given(params_and_items(), st.integers(0, 5))
    def test_a_class_is_small_just_when_it_cannot_fill_its_roles(self, drawn, lacking):
        params, items = drawn
        items = items[items["class"].ne("class-00") | (items.groupby("class").cumcount() >= lacking)]
        small = counts.small_classes(params.split, items["class"].to_numpy(dtype=str), np.full(len(items), ""))
        roles = with_roles(params, items, 0).groupby("class")["role"].value_counts().unstack(fill_value=0)
        wanted = {"train": params.split.items.train, "calibration": params.split.items.calibration}
        wanted["test"] = max(params.split.set_sizes)
        lack = roles.reindex(columns=list(wanted), index=names_of(params), fill_value=0) < pd.Series(wanted)
        assert set(small) == set(lack.index[lack.any(axis=1)]) & set(items["class"])


class TestThePapersCounts:
    """The real presets, on items as many as the real data sets have."""

    def run(self, preset: str, items: pd.DataFrame, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
        patch.chdir(folder)
        Path("params.yaml").write_text((PRESETS / f"{preset}.yaml").read_text())
        columns = {"mirrored": False, "name": items["item"].astype(str), "split": "", **items}
        tables.write(paths.USED_ITEMS, tables.USED_ITEMS, pd.DataFrame(columns))
        split.run(0)
        schemas = {"classes": tables.SPLIT_CLASSES, "items": tables.SPLIT_ITEMS, "partitions": tables.SPLIT_PARTITIONS}
        return {name: tables.read_frame(paths.split(0, name), schema) for name, schema in schemas.items()}

    @staticmethod
    def counts(frame: pd.DataFrame, *by: str) -> set[tuple[int, int]]:
        found = frame.groupby([*by, "role"]).size().unstack()
        return set(zip(found["known"], found["novel"], strict=True))

    def test_cifar100(self, tmp_path, monkeypatch):
        items = pd.DataFrame({"item": np.arange(60_000), "class": [f"c{n % 100:02}" for n in range(60_000)]})
        items["split"] = np.where(items["item"] < 50_000, "train", "test")
        found = self.run("cifar100", items, tmp_path, monkeypatch)
        assert found["classes"]["f"].nunique() == 11
        assert self.counts(found["classes"], "f") == {(89, 11)}
        assert found["partitions"].groupby("f")["l"].nunique().unique().tolist() == [27]
        assert self.counts(found["partitions"], "f", "l") == {(78, 11)}
        roles = found["items"].groupby(["class", "role"]).size().unstack()
        assert roles.drop_duplicates().to_dict("records") == [{"calibration": 50, "test": 50, "train": 500}]
        assert (found["items"].loc[found["items"]["role"] == "train", "item"] < 50_000).all()

    def test_caltech256(self, tmp_path, monkeypatch):
        sizes = np.linspace(80, 827, 250).astype(int)
        items = pd.DataFrame({"class": np.repeat([f"c{n:03}" for n in range(250)], sizes)})
        found = self.run("caltech256", items.assign(item=np.arange(len(items))), tmp_path, monkeypatch)
        assert found["classes"]["f"].nunique() == 10
        assert self.counts(found["classes"], "f") == {(224, 26)}
        assert found["partitions"].groupby("f")["l"].nunique().unique().tolist() == [40]
        assert self.counts(found["partitions"], "f", "l") == {(200, 24)}
        roles = found["items"].groupby(["class", "role"]).size().unstack()
        assert (roles["train"] == 60).all()
        assert (roles["calibration"] == 10).all()
        assert roles["test"].tolist() == (sizes - 70).tolist()

    @pytest.mark.parametrize(("preset", "runs"), [("cifar100", (3, 11)), ("caltech256", (4, 10))])
    def test_repetitions_and_folds(self, preset, runs):
        chosen = load(PRESETS / f"{preset}.yaml")
        assert (len(chosen.repetitions), len(chosen.folds)) == runs
        assert chosen.split.folds_drawn == runs[1]


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
