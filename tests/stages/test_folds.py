import numpy as np
import pandas as pd
import pytest

from outclass.errors import OutclassError
from stages import folds, paths, split, tables


@pytest.fixture
def novel(project) -> set[str]:
    """The classes that are novel in fold 0, as the split says."""
    roles = pd.read_parquet(paths.split(0, "classes"))
    return set(roles[(roles["f"] == 0) & (roles["role"] == "novel")]["class"])


@pytest.fixture
def fold(project) -> folds.Fold:
    return folds.load_fold(0, 0)


class TestFold:
    def test_has_test_items_only_of_novel_classes(self, fold, novel):
        of_novel = np.isin(fold.classes, sorted(novel))
        assert len(novel) == 3
        assert set(fold.roles[of_novel]) == {"test"}
        assert of_novel.sum() == 3 * 6

    def test_has_all_items_of_known_classes_in_their_roles(self, fold, novel):
        split = pd.read_parquet(paths.split(0, "items"))
        expected = split[~split["class"].isin(novel)].set_index("item")["role"]
        found = pd.Series(fold.roles, index=fold.items)[fold.codes >= 0]
        assert found.sort_index().to_dict() == expected.astype(str).sort_index().to_dict()

    def test_codes_are_positions_among_the_sorted_known_classes(self, fold, novel):
        assert fold.known.tolist() == sorted(set(fold.classes) - novel)
        expected = [-1 if name in novel else fold.known.tolist().index(name) for name in fold.classes]
        assert fold.codes.tolist() == expected

    def test_that_was_not_drawn_is_refused(self, project):
        with pytest.raises(OutclassError, match=r"no fold 3; raise split\.folds_drawn"):
            folds.load_fold(0, 3)


class TestMirrorImages:
    """Every image of the tiny run also mirrored: twice the views, in the features' table and in the split."""

    @pytest.fixture
    def mirrored(self, project) -> folds.Fold:
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        tables.write(paths.USED_ITEMS, tables.USED_ITEMS, pd.concat([used, used.assign(mirrored=True)]))
        frame, vectors = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
        views = pd.concat([frame.assign(mirrored=True), frame])
        tables.write(paths.features("hog"), tables.FEATURES, {**views, "features": np.concatenate([-vectors, vectors])})
        self.before = folds.load_fold(0, 0)
        split.run(0)
        return folds.load_fold(0, 0)

    def test_train_and_do_nothing_else(self, mirrored):
        assert set(mirrored.roles[mirrored.mirrored]) == {"train"}
        trains = mirrored.where("train")
        assert sorted(mirrored.items[trains & mirrored.mirrored]) == sorted(mirrored.items[trains & ~mirrored.mirrored])
        assert (mirrored.codes[mirrored.mirrored] >= 0).all()

    def test_change_nothing_for_the_images_themselves(self, mirrored):
        plain = ~mirrored.mirrored
        for name in ("items", "names", "classes", "codes", "roles"):
            np.testing.assert_array_equal(getattr(mirrored, name)[plain], getattr(self.before, name))

    def test_have_the_features_of_their_own(self, mirrored):
        features = folds.load_features(mirrored, paths.features("hog"))
        pairs = {}
        for item, is_mirrored, vector in zip(mirrored.items, mirrored.mirrored, features, strict=True):
            pairs.setdefault(item, {})[bool(is_mirrored)] = vector
        both = [pair for pair in pairs.values() if len(pair) == 2]
        assert len(both) == 9 * 12
        assert all((pair[True] == -pair[False]).all() for pair in both)

    def test_are_in_no_set(self, mirrored):
        for role in ("calibration", "test"):
            for sets in folds.load_sets(0, mirrored, role).values():
                assert not mirrored.mirrored[sets.members].any()

    def test_without_features_are_named(self, mirrored):
        frame, vectors = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
        plain = ~frame["mirrored"].to_numpy()
        tables.write(paths.features("hog"), tables.FEATURES, {**frame[plain], "features": vectors[plain]})
        with pytest.raises(OutclassError, match="the mirror image of item"):
            folds.load_features(mirrored, paths.features("hog"))


class TestImages:
    def test_are_squares_of_three_channels(self, fold):
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (288, 5 * 5 * 3), dtype=np.uint8)
        path = paths.features("pixels")
        tables.write(path, tables.PIXELS, {"item": np.arange(288), "mirrored": np.zeros(288, bool), "features": pixels})
        images = folds.load_images(fold, path)
        assert images.shape == (len(fold.items), 5, 5, 3)
        np.testing.assert_array_equal(images, pixels[fold.items].reshape(-1, 5, 5, 3))

    def test_are_no_features(self, fold):
        with pytest.raises(OutclassError, match="column features"):
            folds.load_images(fold, paths.features("hog"))


class TestSets:
    @pytest.mark.parametrize("role", ["calibration", "test"])
    def test_are_those_of_the_split_with_their_members(self, fold, novel, role):
        split = pd.read_parquet(paths.split(0, "sets"))
        split = split[split["role"] == role]
        if role == "calibration":
            split = split[~split["class"].isin(novel)]
        loaded = folds.load_sets(0, fold, role)
        assert sorted(loaded) == [1, 2, 3]
        for size, sets in loaded.items():
            expected = split[split["s"] == size].groupby("set")["item"].apply(set).to_dict()
            found = {n: set(fold.items[row]) for n, row in zip(sets.numbers, sets.members, strict=True)}
            assert found == expected
            assert (np.diff(sets.numbers) > 0).all()

    def test_do_not_depend_on_the_order_of_the_rows(self, fold):
        before = folds.load_sets(0, fold, "test")
        frame = tables.read_frame(paths.split(0, "sets"), tables.SPLIT_SETS)
        tables.write(paths.split(0, "sets"), tables.SPLIT_SETS, frame.sample(frac=1, random_state=0))
        after = folds.load_sets(0, fold, "test")
        for size, sets in before.items():
            np.testing.assert_array_equal(after[size].numbers, sets.numbers)
            np.testing.assert_array_equal(np.sort(after[size].members), np.sort(sets.members))

    def test_have_the_class_of_their_members(self, fold):
        for role in ("calibration", "test"):
            for sets in folds.load_sets(0, fold, role).values():
                assert (fold.classes[sets.members] == sets.classes[:, None]).all()
                assert (fold.codes[sets.members] == sets.codes[:, None]).all()
                assert (fold.roles[sets.members] == role).all()

    def test_of_novel_classes_are_test_sets_only(self, fold):
        assert all((s.codes >= 0).all() for s in folds.load_sets(0, fold, "calibration").values())
        assert all((s.codes < 0).sum() == 18 // size for size, s in folds.load_sets(0, fold, "test").items())


class TestPresumedNovel:
    def test_is_what_the_split_says_of_each_class(self, fold):
        frame = pd.read_parquet(paths.split(0, "partitions"))
        found = folds.load_presumed_novel(0, 0, fold.known)
        for row in frame[frame["f"] == 0].itertuples():
            assert found[row.l, fold.known.tolist().index(row[3])] == (row.role == "novel")
        assert found.shape == (4, 9)
        assert (found.sum(axis=1) == 2).all()


class TestFeatures:
    def test_follow_the_folds_items_whatever_their_order_in_the_file(self, fold):
        before = folds.load_features(fold, paths.features("hog"))
        frame, vectors = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
        order = np.random.default_rng(0).permutation(len(frame))
        shuffled = {**frame.iloc[order], "features": vectors[order]}
        tables.write(paths.features("hog"), tables.FEATURES, shuffled)
        np.testing.assert_array_equal(folds.load_features(fold, paths.features("hog")), before)
        row = frame["item"].tolist().index(fold.items[5])
        np.testing.assert_array_equal(before[5], vectors[row])

    def test_that_lack_an_item_are_refused_by_its_number(self, fold):
        frame, vectors = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
        kept = (frame["item"] != fold.items[7]).to_numpy()
        columns = {**frame[kept], "features": vectors[kept]}
        tables.write(paths.features("hog"), tables.FEATURES, columns)
        with pytest.raises(OutclassError, match=rf"hog\.parquet: item {fold.items[7]} is missing; run `dvc repro"):
            folds.load_features(fold, paths.features("hog"))


def test_score_rows_call_sets_of_unknown_classes_novel():
    sets = folds.Sets(np.array([4, 9]), np.array(["a", "z"]), np.array([0, -1]), np.array([[0, 1], [2, 3]]))
    rows = folds.score_rows("threshold", 2, sets, np.array([0.5, 0.75]))
    assert rows.to_dict("list") == {
        "method": ["threshold", "threshold"],
        "s": [2, 2],
        "set": [4, 9],
        "class": ["a", "z"],
        "novel": [False, True],
        "novelty": [0.5, 0.75],
    }


@pytest.mark.parametrize("name", ["confidences", "columns"])
def test_confidences_of_another_split_are_refused(project, name):
    path = paths.run("backbone", 0, 0) / f"{name}.parquet"
    path.write_bytes((paths.run("backbone", 0, 1) / f"{name}.parquet").read_bytes())
    with pytest.raises(OutclassError, match=r"confidences\.parquet: not the items and classes of this split"):
        folds.load_confidences(0, 0, folds.load_fold(0, 0), "activation")
