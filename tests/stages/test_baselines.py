import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from outclass.baselines.registry import METHODS as BY_NAME
from outclass.errors import OutclassError
from stages import baselines, paths, tables

WAYS = ("mean-score", "mean-vector")
METHODS = {
    "max-confidence",
    *(f"ocsvm/{of}" for of in ("confidences", "features")),
    *(f"knn-{k}/{of}" for k in (1, 2, 5) for of in ("confidences", "features")),
    *(f"{name}/{way}" for name in BY_NAME for way in WAYS),
}


def scores() -> pd.Series:
    frame = pd.read_parquet(paths.run("baselines", 0, 0) / "scores.parquet")
    return frame.astype({"method": str}).set_index(["method", "s", "set"])["novelty"]


def chosen() -> pd.DataFrame:
    frame = tables.read_frame(paths.run("baselines", 0, 0) / "chosen.parquet", tables.CHOSEN)
    return frame.set_index(["method", "way", "s"]).sort_index()


def items_of(**conditions) -> list[int]:
    items = pd.read_parquet(paths.split(0, "items"))
    for column, values in conditions.items():
        items = items[items[column.rstrip("_")].isin(values)]
    return items["item"].tolist()


def classes_of(role: str, table: str = "classes", **conditions) -> list[str]:
    frame = pd.read_parquet(paths.split(0, table))
    frame = frame[(frame["f"] == 0) & (frame["role"] == role)]
    for column, value in conditions.items():
        frame = frame[frame[column] == value]
    return sorted(frame["class"])


def features() -> pd.Series:
    return pd.read_parquet(paths.features("hog")).set_index("item")["features"].map(lambda x: x.astype(float))


@pytest.fixture
def members(project) -> dict[tuple[int, int], list[int]]:
    """(s, set) -> items, of the test sets."""
    sets = pd.read_parquet(paths.split(0, "sets"))
    return sets[sets["role"] == "test"].groupby(["s", "set"])["item"].apply(list).to_dict()


@pytest.fixture
def train(project) -> list[int]:
    """Train items of the classes known in fold 0."""
    roles = pd.read_parquet(paths.split(0, "classes"))
    known = roles[(roles["f"] == 0) & (roles["role"] == "known")]["class"]
    items = pd.read_parquet(paths.split(0, "items"))
    return items[(items["role"] == "train") & items["class"].isin(known)]["item"].tolist()


@pytest.fixture
def vectors(project, train) -> dict[str, dict[int, np.ndarray]]:
    """Representation -> item -> vector."""
    confidences = pd.read_parquet(paths.run("backbone", 0, 0) / "confidences.parquet")
    features = pd.read_parquet(paths.features("hog")).set_index("item")["features"]
    matrix = np.stack(features.tolist())
    pca = PCA(10, svd_solver="full").fit(np.stack(features[train].tolist()).astype(float))
    return {
        "confidences": {row.item: np.array(row.confidences) for row in confidences.itertuples()},
        "features": dict(zip(features.index, pca.transform(matrix), strict=True)),
    }


def test_every_method_scores_every_test_set(members):
    found = scores()
    assert set(found.index) == {(method, *key) for method in METHODS for key in members}
    assert found.index.is_unique
    assert np.isfinite(found).all()


def test_max_confidence_is_minus_the_largest_entry_of_the_mean_vector(members, vectors):
    found = scores()["max-confidence"]
    for key, items in members.items():
        mean = sum(vectors["confidences"][item].astype(float) for item in items) / len(items)
        assert found[key] == pytest.approx(-max(mean), rel=1e-6)


@pytest.mark.parametrize("representation", ["confidences", "features"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_knn_is_the_mean_over_items_of_the_ratio_of_distances(members, vectors, train, representation, k):
    points = np.stack([vectors[representation][item] for item in train]).astype(float)

    def nearest(x: np.ndarray, left_out: int | None = None) -> list[tuple[float, int]]:
        distances = [(float(np.linalg.norm(x - y)), i) for i, y in enumerate(points) if i != left_out]
        return sorted(distances)[:k]

    def ratio(item: int) -> float:
        mine = nearest(vectors[representation][item])
        theirs = [np.mean([d for d, _ in nearest(points[i], i)]) for _, i in mine]
        return np.mean([d for d, _ in mine]) / np.mean(theirs)

    found = scores()[f"knn-{k}/{representation}"]
    for key in list(members)[::29]:
        assert found[key] == pytest.approx(np.mean([ratio(item) for item in members[key]]), rel=1e-9)


@pytest.mark.parametrize("representation", ["confidences", "features"])
def test_ocsvm_is_minus_the_mean_margin_of_the_items(members, vectors, train, representation):
    points = np.stack([vectors[representation][item] for item in train]).astype(float)
    svm = OneClassSVM(nu=0.1, gamma="scale").fit(points)
    found = scores()[f"ocsvm/{representation}"]
    for key, items in members.items():
        margins = svm.decision_function([vectors[representation][item] for item in items])
        assert found[key] == pytest.approx(-margins.mean(), rel=1e-6, abs=1e-9)


def test_the_kind_of_confidence_touches_only_what_works_on_confidences(project, configure):
    before = scores()
    configure("baselines.confidence", "softmax")
    baselines.run(0, 0)
    after = scores()
    for method in METHODS:
        same = before[method].equals(after[method])
        assert same != (method == "max-confidence" or method.endswith("/confidences")), method


def test_more_principal_components_than_there_are_is_refused(project, configure):
    configure("baselines.pca", 109)
    with pytest.raises(OutclassError, match=r"baselines\.pca: 109 principal .* but 108 train items with 144"):
        baselines.run(0, 0)


def test_more_neighbours_than_train_items_is_refused(project, configure):
    configure("baselines.knn.neighbours", [1, 108])
    with pytest.raises(OutclassError, match="108 neighbours of each training item asked for, but there are 108"):
        baselines.run(0, 0)


# Methods by name


def nearest_mean(train: dict[str, list[np.ndarray]], metric: str, x: np.ndarray) -> float:
    """Train vectors by class."""
    means = [np.mean(vectors, axis=0) for vectors in train.values()]
    if metric == "cosine":
        return min(1 - x @ m / np.linalg.norm(x) / np.linalg.norm(m) for m in means)
    return min(np.linalg.norm(x - m) for m in means)


def read_choice(text: str) -> tuple[str, bool]:
    """Of nearest-mean: metric, unit_length."""
    metric, unit = (part.split(" ")[1] for part in text.split(", "))
    return metric, unit == "true"


def score_by_nearest_mean(train, way, metric, unit, items) -> float:
    x = features()
    x = x / x.map(np.linalg.norm) if unit else x
    by_class = {name: [x[item] for item in of_class] for name, of_class in train.items()}
    if way == "mean-vector":
        return nearest_mean(by_class, metric, np.mean([x[item] for item in items], axis=0))
    return np.mean([nearest_mean(by_class, metric, x[item]) for item in items])


@pytest.mark.parametrize("way", WAYS)
def test_a_method_by_name_is_fitted_on_train_items_with_what_was_chosen_for_the_size(members, way):
    train = {name: items_of(class_=[name], role=["train"]) for name in classes_of("known")}
    found, choices = scores()[f"nearest-mean/{way}"], chosen().loc["nearest-mean", way]
    for s, number in list(members)[::17]:
        how = read_choice(choices.loc[s, "hyper_parameters"])
        expected = score_by_nearest_mean(train, way, *how, members[s, number])
        assert found[s, number] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_energy_of_sets(members, vectors, way):
    found = scores()[f"energy/{way}"]
    for key, items in members.items():
        u = np.stack([vectors["confidences"][item] for item in items]).astype(float)
        expected = -logsumexp(u.mean(axis=0)) if way == "mean-vector" else -logsumexp(u, axis=1).mean()
        assert found[key] == pytest.approx(expected, rel=1e-5)


class TestChoices:
    def test_are_there_for_every_method_way_and_size(self, project):
        assert set(chosen().index) == {(name, way, s) for name in BY_NAME for way in WAYS for s in (1, 2, 3)}
        assert chosen().index.is_unique

    def test_have_an_auc_where_there_was_something_to_choose(self, project, tiny):
        for name, rows in chosen().groupby("method"):
            several = any(len(values) > 1 for values in tiny["baselines"]["methods"][name].values())
            assert (rows["auc"].between(0, 1) if several else rows["auc"].isna()).all(), name

    @pytest.mark.parametrize("way", WAYS)
    def test_on_features_reach_the_auc_that_is_noted(self, project, way):
        """Calibration sets of 2, the presumed-novel classes of partitions 0 and 1 being positive, from scratch."""
        noted = chosen().loc["nearest-mean", way, 2]
        sets = self.calibration_sets(2)
        areas = []
        for number in (0, 1):
            taught = classes_of("known", "partitions", l=number)
            train = {name: items_of(class_=[name], role=["train"]) for name in taught}
            how = read_choice(noted["hyper_parameters"])
            found = [score_by_nearest_mean(train, way, *how, items) for items in sets["item"]]
            areas.append(roc_auc_score(~sets["class"].isin(taught), found))
        assert noted["auc"] == pytest.approx(np.mean(areas), abs=1e-9)

    def test_on_confidences_reach_the_auc_that_is_noted(self, project):
        """In the partition networks' own confidences: the sum of (p (1 - p))^gamma."""
        noted = chosen().loc["gen", "mean-score", 3]
        kept = pd.read_parquet(paths.run("partitions", 0, 0) / "confidences.parquet")
        sets = self.calibration_sets(3)
        areas = {}
        for gamma in (0.1, 0.5):
            areas[f"gamma {gamma}"] = 0
            for number in (0, 1):
                u = kept[kept["l"] == number].set_index("item")["confidences"].map(lambda x: x.astype(float))
                p = u.map(lambda x: np.exp(x - logsumexp(x)))
                score = p.map(lambda p, gamma=gamma: ((p * (1 - p)) ** gamma).sum())
                novel = sets["class"].isin(classes_of("novel", "partitions", l=number))
                areas[f"gamma {gamma}"] += roc_auc_score(novel, [score[items].mean() for items in sets["item"]]) / 2
        assert noted["hyper_parameters"] == max(areas, key=areas.get)
        assert noted["auc"] == pytest.approx(max(areas.values()), abs=1e-9)

    @staticmethod
    def calibration_sets(size: int) -> pd.DataFrame:
        frame = pd.read_parquet(paths.split(0, "sets")).astype({"class": str})
        frame = frame[
            (frame["role"] == "calibration") & (frame["s"] == size) & frame["class"].isin(classes_of("known"))
        ]
        return frame.groupby("set").agg({"class": "first", "item": list})

    def test_never_look_at_novel_classes(self, project, corrupt):
        choices, before = chosen(), scores()
        novel = items_of(class_=classes_of("novel"))
        corrupt(novel)
        baselines.run(0, 0)
        pd.testing.assert_frame_equal(chosen(), choices, check_exact=True)
        sets = pd.read_parquet(paths.split(0, "sets"))
        sets = set(zip(sets["s"], sets["set"], sets["item"].isin(novel), strict=True))
        known = [(s, number, False) in sets for _, s, number in before.index]
        pd.testing.assert_series_equal(scores()[known], before[known], check_exact=True)
        assert (scores()[np.invert(known)] != before[np.invert(known)])["plda/mean-vector"].all()

    def test_never_look_at_test_items(self, project, corrupt):
        choices = chosen()
        corrupt(items_of(role=["test"]))
        baselines.run(0, 0)
        pd.testing.assert_frame_equal(chosen(), choices, check_exact=True)

    def test_follow_the_calibration_items(self, project, corrupt):
        choices = chosen()
        corrupt(items_of(role=["calibration"]))
        baselines.run(0, 0)
        assert not chosen().equals(choices)


class TestMethodsOfTheParameters:
    def test_are_the_only_ones_that_are_run(self, project, configure, tiny):
        del tiny["baselines"]["knn"]
        configure("baselines.methods", {"plda": {}, "energy": {}})
        baselines.run(0, 0)
        expected = {"max-confidence", "ocsvm/confidences", "ocsvm/features"}
        expected |= {f"{name}/{way}" for name in ("plda", "energy") for way in WAYS}
        assert set(scores().index.get_level_values("method")) == expected

    def test_may_be_none(self, project, configure):
        configure("baselines.methods", {})
        baselines.run(0, 0)
        assert "max-confidence" in scores().index
        assert chosen().empty

    def test_give_the_same_scores_whatever_is_listed_beside_them(self, project, configure):
        before = scores()
        configure("baselines.methods", {"lof": {"unit_length": [False, True], "neighbours": [5, 10]}})
        baselines.run(0, 0)
        for way in WAYS:
            pd.testing.assert_series_equal(scores()[f"lof/{way}"], before[f"lof/{way}"], check_exact=True)

    def test_that_cannot_be_fitted_in_a_partition_are_skipped_and_noted(self, project, configure):
        configure("baselines.methods", {"deep-knn": {"neighbours": [85, 3]}})  # of 7 classes with 12 items
        baselines.run(0, 0)
        rows = chosen().loc["deep-knn"]
        assert set(rows["hyper_parameters"]) == {"neighbours 3"}
        assert rows["skipped"].str.startswith("deep-knn with neighbours 85: ").all()

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([85, 86], "baselines.methods.deep-knn: no candidate could be fitted .*\n.*neighbours 85: .*\n.*86: "),
            ([109], "deep-knn, on all known classes: deep-knn with neighbours 109: .* 108 train items; give other"),
        ],
    )
    def test_that_cannot_be_fitted_at_all_are_refused(self, project, configure, values, message):
        configure("baselines.methods", {"deep-knn": {"neighbours": values}})
        with pytest.raises(OutclassError, match=message):
            baselines.run(0, 0)
