"""Artificial partitions as trials, and the confidences of partition networks that they are made of."""

import numpy as np
import pandas as pd
import pytest

from outclass.errors import OutclassError
from stages import folds, partitions, paths, tables, trials


def kept() -> pd.DataFrame:
    return pd.read_parquet(paths.run("partitions", 0, 0) / "confidences.parquet")


def presumed(role: str, number: int) -> list[str]:
    frame = pd.read_parquet(paths.split(0, "partitions"))
    return sorted(frame[(frame["f"] == 0) & (frame["role"] == role) & (frame["l"] == number)]["class"])


def items(classes: list[str], role: str) -> list[int]:
    frame = pd.read_parquet(paths.split(0, "items"))
    return frame[frame["class"].isin(classes) & (frame["role"] == role)]["item"].tolist()


def load(count: int = 2) -> list[trials.Trial]:
    data = folds.load_fold(0, 0)
    return trials.load_trials(0, 0, data, folds.load_features(data, paths.features("hog")), count)


class TestKeptConfidences:
    def test_are_of_the_first_partitions_train_items_of_presumed_known_and_all_calibration_items(self, project):
        frame = kept()
        assert set(frame["l"]) == {0, 1}
        for number in (0, 1):
            rows = frame[frame["l"] == number]
            known, novel = presumed("known", number), presumed("novel", number)
            assert sorted(rows[rows["role"] == "train"]["item"]) == sorted(items(known, "train"))
            assert sorted(rows[rows["role"] == "calibration"]["item"]) == sorted(items(known + novel, "calibration"))
            assert {len(u) for u in rows["confidences"]} == {len(known)}

    @pytest.mark.parametrize("number", [0, 1])
    def test_are_those_that_the_sets_were_summarised_from(self, project, number):
        frame = kept()
        u = frame[frame["l"] == number].set_index("item")["confidences"].map(lambda x: x.astype(float))
        names = presumed("known", number)
        summaries = pd.read_parquet(paths.run("partitions", 0, 0) / "sets.parquet")
        summaries = summaries[(summaries["l"] == number) & (summaries["confidence"] == "activation")]
        summaries = summaries.set_index(["s", "set"])
        sets = pd.read_parquet(paths.split(0, "sets"))
        sets = sets[(sets["role"] == "calibration") & sets["item"].isin(u.index)]
        for key, of_set in sets.groupby(["s", "set"])["item"]:
            mean = np.mean(np.stack(u[of_set]), axis=0)
            assert summaries.loc[key, "top"] == names[int(mean.argmax())]
            np.testing.assert_allclose(summaries.loc[key, "u1"], mean.max(), rtol=1e-5)

    def test_may_be_of_more_partitions(self, project, configure):
        configure("partitions.keep_confidences", 3)
        before = kept()
        partitions.run(0, 0)
        pd.testing.assert_frame_equal(kept()[: len(before)].astype(object), before.astype(object), check_exact=True)
        assert set(kept()["l"]) == {0, 1, 2}

    def test_that_are_not_there_are_asked_for(self, project):
        with pytest.raises(
            OutclassError, match=r"confidences.parquet: not the items of partition 2; run `dvc repro part"
        ):
            load(3)


class TestTrials:
    def test_train_on_presumed_known_classes_and_judge_all(self, project):
        data = folds.load_fold(0, 0)
        x = dict(zip(data.items.tolist(), folds.load_features(data, paths.features("hog")), strict=True))
        for number, trial in enumerate(load()):
            known, novel = presumed("known", number), presumed("novel", number)
            assert np.bincount(trial.labels).tolist() == [12] * len(known)
            for label, name in enumerate(known):
                expected = np.stack([x[item] for item in items([name], "train")])
                np.testing.assert_array_equal(trial.train.features[trial.labels == label], expected)
            u = kept()[kept()["l"] == number].set_index("item")["confidences"]
            np.testing.assert_array_equal(trial.train.confidences, np.stack(u[data.items[self.trains(data, known)]]))
            calibration = items(known + novel, "calibration")
            assert len(trial.calibration.features) == len(trial.calibration.confidences) == len(calibration)

    @staticmethod
    def trains(data: folds.Fold, classes: list[str]) -> np.ndarray:
        return data.where("train") & np.isin(data.classes, classes)

    def test_have_the_sets_of_the_split(self, project):
        data = folds.load_fold(0, 0)
        x = dict(zip(data.items.tolist(), folds.load_features(data, paths.features("hog")), strict=True))
        split = pd.read_parquet(paths.split(0, "sets"))
        split = split[(split["role"] == "calibration") & split["class"].isin(data.known)]
        for number, trial in enumerate(load()):
            novel = presumed("novel", number)
            for size, members in trial.sets.items():
                expected = split[split["s"] == size].sort_values("set", kind="stable")
                np.testing.assert_array_equal(
                    trial.calibration.features[members.ravel()], np.stack([x[item] for item in expected["item"]])
                )
                np.testing.assert_array_equal(trial.novel[size], expected["class"].isin(novel)[::size])

    def test_know_nothing_of_the_train_items_of_presumed_novel_classes(self, project, corrupt):
        before = load()
        corrupt(items(presumed("novel", 0), "train"))
        partitions.run(0, 0)
        after = load()
        for role in ("train", "calibration"):
            for old, new in zip(getattr(before[0], role), getattr(after[0], role), strict=True):
                np.testing.assert_array_equal(old, new)
        assert not np.array_equal(before[1].train.confidences, after[1].train.confidences)


def test_an_empty_table_of_confidences_is_a_table(tmp_path):
    columns = {"l": [], "item": [], "mirrored": [], "role": [], "confidences": np.empty((0, 7), np.float32)}
    tables.write(tmp_path / "none.parquet", tables.PARTITION_CONFIDENCES, columns)
    frame, vectors = tables.read_vectors(tmp_path / "none.parquet", tables.PARTITION_CONFIDENCES, "confidences")
    assert len(frame) == 0
    assert vectors.shape == (0, 7)
