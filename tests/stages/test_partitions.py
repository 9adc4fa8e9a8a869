import numpy as np
import pandas as pd
import pytest

from outclass.networks.flat import FlatSettings, train_heads
from outclass.seeds import generator
from stages import backbone, ensemble, folds, params, partitions, paths, tables

SUMMARY = ["top", "u1", "u2", "u_min", "energy"]


def read(name: str, fold: int = 0) -> pd.DataFrame:
    return pd.read_parquet(paths.run("partitions", 0, fold) / f"{name}.parquet")


def items_where(**conditions) -> pd.DataFrame:
    items = pd.read_parquet(paths.split(0, "items"))
    for column, values in conditions.items():
        items = items[items[column.rstrip("_")].isin(values)]
    return items["item"]


def classes_of(table: str, fold: int, role: str) -> pd.DataFrame:
    frame = pd.read_parquet(paths.split(0, table))
    return frame[(frame["f"] == fold) & (frame["role"] == role)]


def without_order(frame: pd.DataFrame) -> list[tuple]:
    return sorted(frame.astype(object).itertuples(index=False, name=None), key=repr)


@pytest.fixture
def network(project):
    """Partition 3 of fold 1, trained alone: (presumed-known classes, item -> activities)."""
    chosen = params.load()
    data = folds.load_fold(0, 1)
    presumed = classes_of("partitions", 1, "known")
    taught = np.isin(data.known, presumed[presumed["l"] == 3]["class"].astype(str))
    features = folds.load_features(data, paths.features("hog"))
    train = data.where("train")
    flat = FlatSettings(**chosen.backbone.flat.model_dump())
    stream = generator(chosen.seed, "partition", 0, 1, 3)
    activities = train_heads(features[train], data.codes[train], taught[None], [stream], flat).activities(features)[0]
    names = data.known[taught].tolist()
    return names, {item: row[taught].astype(float) for item, row in zip(data.items.tolist(), activities, strict=True)}


def softmax(u: np.ndarray) -> np.ndarray:
    return np.exp(u - u.max()) / np.exp(u - u.max()).sum()


def literal_summary(names: list[str], vectors: list[np.ndarray]) -> list:
    """Eq. 1 and 2, one number at a time: top, u1, u2, u_min, energy of the mean vector."""
    mean = [sum(float(v[c]) for v in vectors) / len(vectors) for c in range(len(names))]
    ordered = sorted(mean)
    energy = np.log(sum(np.exp(u) for u in mean))
    return [names[mean.index(ordered[-1])], ordered[-1], ordered[-2], ordered[0], energy]


KINDS = {"activation": lambda u: u, "softmax": softmax}


@pytest.mark.parametrize("kind", KINDS)
class TestRows:
    def test_of_sets_are_equations_1_and_2_in_the_partitions_own_network(self, network, kind):
        names, activities = network
        stored = read("sets", 1)
        stored = stored[(stored["l"] == 3) & (stored["confidence"] == kind)].set_index(["s", "set"])[SUMMARY]
        sets = pd.read_parquet(paths.split(0, "sets")).groupby(["s", "set"])["item"].apply(list)
        for key, row in stored.iterrows():
            expected = literal_summary(names, [KINDS[kind](activities[item]) for item in sets[key]])
            assert row["top"] == expected[0]
            np.testing.assert_allclose(row[SUMMARY[1:]].astype(float), expected[1:], rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("source", ["train", "calibration"])
    def test_of_classes_are_those_of_all_the_classs_items(self, network, kind, source):
        names, activities = network
        stored = read("classes", 1)
        stored = stored[(stored["l"] == 3) & (stored["confidence"] == kind) & (stored["source"] == source)]
        assert sorted(stored["class"]) == sorted(names)
        for _, row in stored.iterrows():
            items = items_where(class_=[row["class"]], role=[source])
            expected = literal_summary(names, [KINDS[kind](activities[item]) for item in items])
            assert row["top"] == expected[0]
            np.testing.assert_allclose(row[SUMMARY[1:]].astype(float), expected[1:], rtol=1e-5, atol=1e-6)


class TestTables:
    def test_hold_every_set_that_the_fold_may_use(self, project):
        sets = pd.read_parquet(paths.split(0, "sets")).drop_duplicates(["s", "set"])
        novel = classes_of("classes", 0, "novel")["class"]
        usable = sets[~(sets["class"].isin(novel) & (sets["role"] == "calibration"))]
        expected = sorted(zip(usable["s"], usable["set"], strict=True))
        for _, rows in read("sets").groupby(["l", "confidence"], observed=True):
            assert sorted(zip(rows["s"], rows["set"], strict=True)) == expected

    def test_choose_presumed_known_classes_only(self, project):
        presumed = classes_of("partitions", 0, "known")
        known = {(row.l, row[3]) for row in presumed.itertuples()}
        for name in ("sets", "classes"):
            rows = read(name)
            assert set(zip(rows["l"], rows["top"], strict=True)) <= known
        rows = read("classes")
        assert set(zip(rows["l"], rows["class"], strict=True)) == known

    def test_count_the_items_that_a_network_was_trained_on(self, project):
        assert read("networks")["train_items"].tolist() == [7 * 12] * 4

    def test_give_the_accuracy_on_test_items_of_presumed_known_classes(self, network):
        names, activities = network
        items = pd.read_parquet(paths.split(0, "items")).set_index("item")
        items = items[(items["role"] == "test") & items["class"].isin(names)]
        right = [names[int(np.argmax(activities[item]))] == name for item, name in items["class"].items()]
        assert read("networks", 1)["accuracy"][3] == pytest.approx(sum(right) / len(right))
        assert len(right) == 7 * 6


class TestNoLeak:
    def test_the_test_items_reach_neither_calibration_nor_classifiers(self, project, corrupt):
        split = pd.read_parquet(paths.split(0, "sets"))
        split = split[split["role"] == "test"]
        test_sets = set(zip(split["s"], split["set"], strict=True))

        def parts() -> tuple:
            sets = read("sets")
            is_test = [key in test_sets for key in zip(sets["s"], sets["set"], strict=True)]
            fitted = pd.read_parquet(paths.run("ensemble", 0, 0) / "classifiers.parquet")
            h = fitted[["method", "l", "s", "w_set", "w_class", "b", "slope", "offset"]]
            calibration, test = sets[~np.array(is_test)], sets[is_test]
            return without_order(calibration), without_order(read("classes")), without_order(h), without_order(test)

        before = parts()
        corrupt(items_where(role=["test"]))
        partitions.run(0, 0)
        ensemble.run(0, 0)
        after = parts()
        assert after[:3] == before[:3]
        assert after[3] != before[3]

    def test_a_partition_learns_nothing_of_its_presumed_novel_classes(self, project, corrupt):
        before = {name: read(name) for name in ("sets", "classes", "networks")}
        presumed = classes_of("partitions", 0, "novel")
        hidden = set(presumed[presumed["l"] == 1]["class"])
        corrupt(items_where(class_=hidden, role=["train"]))
        partitions.run(0, 0)
        for name, old in before.items():
            new = read(name)
            assert without_order(new[new["l"] == 1]) == without_order(old[old["l"] == 1])
        for other in set(presumed[~presumed["class"].isin(hidden)]["l"]) - {1}:
            old, new = before["classes"], read("classes")
            assert without_order(new[new["l"] == other]) != without_order(old[old["l"] == other])


def test_the_closed_form_head_goes_all_the_way(project, configure):
    configure("backbone.network", "ridge")
    backbone.run(0, 0)
    assert "4 partition networks" in partitions.run(0, 0)
    ensemble.run(0, 0)
    scores = tables.read_frame(paths.run("ensemble", 0, 0) / "scores.parquet", tables.SCORES)
    assert scores["novelty"].notna().all()
    assert scores.loc[scores["method"] == "ensemble-count", "novelty"].nunique() > 1
