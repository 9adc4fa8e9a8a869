"""Confidences of one's own: the networks that are trained here, written as a user would write theirs, give the same."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from outclass.errors import OutclassError
from stages import backbone, baselines, ensemble, folds, given, networks, params, partitions, paths, tables

FOLDER = Path("confidences")


def write_table(lesson: networks.Lesson, data: folds.Fold, activities: np.ndarray, suffix: str) -> None:
    taught = pd.DataFrame(activities[:, lesson.classes], columns=data.known[lesson.classes])
    table = taught.assign(name=data.names).sample(frac=1, random_state=0)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{lesson.name}{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)


@pytest.fixture
def lessons(project) -> list[networks.Lesson]:
    """Of the backbone and the four partitions of fold 0."""
    chosen, data = params.load(), folds.load_fold(0, 0)
    taught = ~folds.load_presumed_novel(0, 0, data.known)
    of_partitions = [networks.partition_lesson(chosen, classes, 0, 0, number) for number, classes in enumerate(taught)]
    return [networks.backbone_lesson(chosen, data, 0, 0), *of_partitions]


@pytest.fixture
def tables_of_ones_own(project, lessons, configure):
    """Every network of fold 0 as a table in FOLDER, the backbone's as CSV; params.yaml asks for them."""
    chosen, data = params.load(), folds.load_fold(0, 0)
    inputs = networks.load_inputs(chosen.backbone, data)
    for suffix, each in ((".csv", lessons[:1]), (".parquet", lessons[1:3]), (".parquet", lessons[3:])):  # as in chunks
        for lesson, activities in zip(
            each, networks.activities(chosen.backbone, data, inputs, each, "cpu"), strict=True
        ):
            write_table(lesson, data, activities, suffix)
    configure("backbone.network", "given")
    configure("backbone.input", str(FOLDER))


def scores() -> pd.DataFrame:
    found = [pd.read_parquet(paths.run(stage, 0, 0) / "scores.parquet") for stage in ("ensemble", "baselines")]
    return pd.concat(found).astype({"method": str})


def test_the_same_confidences_give_the_same_scores(tables_of_ones_own):
    before = scores()
    for stage in (backbone, partitions, ensemble, baselines):
        stage.run(0, 0)
    pd.testing.assert_frame_equal(scores(), before, check_exact=True)


def test_another_table_is_another_chunk(tables_of_ones_own):
    before = [chunk.key for chunk in partitions.plan(0, 0, "cpu")]
    path = FOLDER / "r0-f0-l3.parquet"
    table = pd.read_parquet(path)
    table.assign(**{table.columns[0]: 0.0}).to_parquet(path)
    assert [chunk.key for chunk in partitions.plan(0, 0, "cpu")] != before


class TestRefused:
    @pytest.fixture
    def data(self, tables_of_ones_own) -> folds.Fold:
        return folds.load_fold(0, 0)

    def load(self, data: folds.Fold, lesson: networks.Lesson) -> np.ndarray:
        return given.load(FOLDER, lesson.name, data, lesson.classes)

    def change(self, lesson: networks.Lesson, change) -> None:
        path = FOLDER / f"{lesson.name}.parquet"
        change(pd.read_parquet(path)).to_parquet(path)

    def test_a_table_that_is_missing(self, data, lessons):
        (FOLDER / "r0-f0-l2.parquet").unlink()
        with pytest.raises(OutclassError, match=r"confidences/r0-f0-l2\.parquet \(or \.csv\): not found"):
            self.load(data, lessons[3])

    def test_a_table_without_names(self, data, lessons):
        self.change(lessons[1], lambda table: table.drop(columns="name"))
        with pytest.raises(OutclassError, match=r"r0-f0-l0\.parquet: column 'name' is missing"):
            self.load(data, lessons[1])

    def test_a_class_without_a_column(self, data, lessons):
        taught = data.known[lessons[1].classes][2]
        self.change(lessons[1], lambda table: table.drop(columns=taught))
        with pytest.raises(
            OutclassError, match=rf"r0-f0-l0\.parquet: column {re.escape(repr(str(taught)))} is missing"
        ):
            self.load(data, lessons[1])

    def test_a_column_of_a_class_that_is_presumed_novel(self, data, lessons):
        untaught = str(data.known[~lessons[1].classes][0])
        self.change(lessons[1], lambda table: table.assign(**{untaught: 0.0}))
        with pytest.raises(OutclassError, match=rf"has a column {re.escape(repr(untaught))}, but .* presumed novel"):
            self.load(data, lessons[1])

    @pytest.mark.parametrize("network", [0, 1], ids=["backbone", "partition"])
    def test_a_column_of_a_class_that_is_novel(self, data, lessons, network):
        novel = str(data.classes[data.codes < 0][0])
        assert novel not in data.known
        lesson = lessons[network]
        path = given._find(FOLDER, lesson.name)
        given._read(path).assign(**{novel: 0.0}).to_parquet(path.with_suffix(".parquet"))
        with pytest.raises(OutclassError, match=rf"has a column {re.escape(repr(novel))}, but that class is novel"):
            self.load(data, lesson)

    def test_an_item_without_a_row(self, data, lessons):
        lost = data.names[5]
        self.change(lessons[1], lambda table: table[table["name"] != lost])
        with pytest.raises(OutclassError, match=rf"1 items of the fold have no row, '{re.escape(lost)}' for one"):
            self.load(data, lessons[1])

    def test_an_item_with_two_rows(self, data, lessons):
        self.change(lessons[1], lambda table: pd.concat([table, table.iloc[3:4]]))
        with pytest.raises(OutclassError, match="has two rows"):
            self.load(data, lessons[1])

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_confidence_that_is_no_number(self, data, lessons, value):
        taught = str(data.known[lessons[1].classes][0])
        self.change(lessons[1], lambda table: table.assign(**{taught: [value, *table[taught][1:]]}))
        with pytest.raises(OutclassError, match=rf"item '.*' has {value} for class {re.escape(repr(taught))}"):
            self.load(data, lessons[1])

    def test_a_column_of_text(self, data, lessons):
        taught = str(data.known[lessons[1].classes][0])
        self.change(lessons[1], lambda table: table.assign(**{taught: "high"}))
        with pytest.raises(OutclassError, match="instead of numbers"):
            self.load(data, lessons[1])

    def test_a_file_that_is_no_table(self, data, lessons):
        (FOLDER / "r0-f0-l0.parquet").write_bytes(b"no table")
        with pytest.raises(OutclassError, match=r"r0-f0-l0\.parquet: not a readable table"):
            self.load(data, lessons[1])


def test_the_split_tells_which_items_and_classes_a_table_needs(project):
    items = tables.read_frame(paths.split(0, "items"), tables.SPLIT_ITEMS)
    data = folds.load_fold(0, 0)
    needed = items[items["class"].isin(data.known) | (items["role"] == "test")]
    assert sorted(data.names) == sorted(needed["name"])
