import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.svm import OneClassSVM

from outclass.errors import OutclassError
from stages import baselines, paths

METHODS = {
    "max-confidence",
    *(f"ocsvm/{of}" for of in ("confidences", "features")),
    *(f"knn-{k}/{of}" for k in (1, 2, 5) for of in ("confidences", "features")),
}


def scores() -> pd.Series:
    frame = pd.read_parquet(paths.run("baselines", 0, 0) / "scores.parquet")
    return frame.astype({"method": str}).set_index(["method", "s", "set"])["novelty"]


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
        assert same == method.endswith("/features"), method


def test_more_principal_components_than_there_are_is_refused(project, configure):
    configure("baselines.pca", 109)
    with pytest.raises(OutclassError, match=r"baselines\.pca: 109 principal .* but 108 train items with 144"):
        baselines.run(0, 0)


def test_more_neighbours_than_train_items_is_refused(project, configure):
    configure("baselines.knn.neighbours", [1, 108])
    with pytest.raises(OutclassError, match="108 neighbours of each training item asked for, but there are 108"):
        baselines.run(0, 0)
