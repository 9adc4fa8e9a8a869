"""The methods to compare with: by hand, against brute force and against scikit-learn."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.svm import OneClassSVM as LibSVM

from outclass.baselines import score_sets
from outclass.baselines.knn_ratio import KnnRatio, distance_ratios
from outclass.baselines.max_confidence import MaxConfidence, max_confidence
from outclass.baselines.one_class_svm import OneClassSVM

LINE = np.array([[0.0], [1.0], [3.0], [7.0]])


def cloud(count, width=5, seed=0, centre=0.0):
    return np.random.default_rng(seed).normal(centre, 1, size=(count, width))


def knn_by_brute_force(train, vectors, k):
    """The published ratio, item by item, with exact distances; the floor is the smallest positive spacing."""

    def nearest(x, candidates):
        distances = np.array([np.sqrt(((x - y) ** 2).sum()) for y in candidates])
        order = np.argsort(distances, kind="stable")[:k]
        return order, distances[order].mean()

    spacing = np.array([nearest(x, np.delete(train, row, axis=0))[1] for row, x in enumerate(train)])
    floor = spacing[spacing > 0].min()
    scores = []
    for x in vectors:
        neighbours, distance = nearest(x, train)
        scores.append(distance / max(spacing[neighbours].mean(), floor))
    return np.array(scores)


def test_knn_on_a_line_by_hand():
    scores = KnnRatio([1, 2]).fit(LINE).score(np.array([[4.5], [10.0]]))
    # k = 1: 4.5 is 1.5 from 3, which is 2 from 1; 10 is 3 from 7, which is 4 from 3.
    np.testing.assert_allclose(scores["knn-1"], [1.5 / 2, 3 / 4])
    # k = 2: 4.5 is 1.5 and 2.5 from 3 and 7, mean 2. 3 is 2 and 3 from 1 and 0, mean 2.5; 7 is 4 and 6 from 3 and 1,
    # mean 5; together 3.75. 10 is 3 and 7 from 7 and 3, mean 5, over the same 3.75.
    np.testing.assert_allclose(scores["knn-2"], [2 / 3.75, 5 / 3.75])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_knn_equals_brute_force(k):
    train, vectors = cloud(40), cloud(15, seed=1, centre=0.5)
    expected = knn_by_brute_force(train, vectors, k)
    np.testing.assert_allclose(KnnRatio([k]).fit(train).score(vectors)[f"knn-{k}"], expected, rtol=1e-9)


def test_knn_in_single_precision_agrees():
    train, vectors = cloud(40).astype(np.float32), cloud(15, seed=1).astype(np.float32)
    expected = knn_by_brute_force(train.astype(float), vectors.astype(float), 5)
    np.testing.assert_allclose(KnnRatio([5]).fit(train).score(vectors)["knn-5"], expected, rtol=1e-4)


def test_several_k_at_once_equal_each_k_alone():
    train, vectors = cloud(40), cloud(15, seed=1)
    together = KnnRatio([2, 5, 1]).fit(train)
    assert together.own_distances_.shape == (40, 5)  # one search, for the largest
    scores = together.score(vectors)
    assert list(scores) == ["knn-2", "knn-5", "knn-1"]
    for k in (1, 2, 5):
        alone = KnnRatio([k]).fit(train).score(vectors)[f"knn-{k}"]
        np.testing.assert_allclose(scores[f"knn-{k}"], alone, rtol=1e-12)


def test_a_training_item_is_not_its_own_neighbour_in_the_training_set():
    np.testing.assert_allclose(KnnRatio([1]).fit(LINE).own_distances_[:, 0], [1, 1, 2, 4])


def test_the_scale_of_the_vectors_does_not_matter():
    train, vectors = cloud(40), cloud(15, seed=1)
    plain, scaled = (KnnRatio([2]).fit(train * unit).score(vectors * unit)["knn-2"] for unit in (1, 1000))
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_farther_is_more_novel():
    scores = KnnRatio([5]).fit(cloud(40)).score(np.array([[x] * 5 for x in (3.0, 5.0, 10.0)]))["knn-5"]
    assert (np.diff(scores) > 0).all()


def test_duplicates_by_hand():
    train = np.array([[0.0], [0.0], [0.0], [2.0], [5.0]])
    # Spacings 0, 0, 0, 2, 3: next to the zeros the smallest positive one, 2, takes their place.
    scores = KnnRatio([1]).fit(train).score(np.array([[0.5], [-1.0], [0.0], [4.5]]))["knn-1"]
    np.testing.assert_allclose(scores, [0.5 / 2, 1 / 2, 0, 0.5 / 3])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_duplicates_on_a_grid_equal_brute_force(k):
    train = np.random.default_rng(3).integers(0, 4, size=(30, 2)).astype(float)  # many duplicates, exact distances
    vectors = cloud(10, 2, centre=1.5)
    spacing = KnnRatio([k]).fit(train).own_distances_[:, :k].mean(axis=1)
    assert (spacing == 0).any() or k == 5
    scores = KnnRatio([k]).fit(train).score(vectors)[f"knn-{k}"]
    assert np.isfinite(scores).all()
    if k == 1:  # for more, which of several equally distant neighbours is taken is open
        np.testing.assert_allclose(scores, knn_by_brute_force(train, vectors, k), rtol=1e-6)


def test_duplicates_of_wide_vectors_equal_brute_force():
    train = cloud(60, 100)
    train = np.concatenate([train, train[:20]])
    vectors = cloud(30, 100, seed=1)
    scores = KnnRatio([1]).fit(train).score(vectors)["knn-1"]
    np.testing.assert_allclose(scores, knn_by_brute_force(train, vectors, 1), rtol=1e-6)


def test_identical_training_items_leave_plain_distances():
    scores = KnnRatio([1, 2]).fit(np.full((6, 2), 1.0)).score(np.array([[1.0, 1.0], [4.0, 5.0]]))
    np.testing.assert_allclose(scores["knn-1"], [0, 5])  # sqrt(3^2 + 4^2)
    np.testing.assert_allclose(scores["knn-2"], [0, 5])


def test_distance_ratio_of_one_k_reads_the_first_k_columns_only():
    distances, neighbours = np.array([[1.0, 3.0, np.nan]]), np.array([[2, 0, 9]])
    own = np.array([[2.0, 4.0, np.nan], [5.0, 5.0, np.nan], [1.0, 1.0, np.nan]])
    # k = 1: 1 / spacing of item 2, 1. k = 2: (1 + 3) / 2 over the mean of (1 + 1) / 2 and (2 + 4) / 2, that is 2 / 2.
    np.testing.assert_allclose(distance_ratios(distances, neighbours, own, 1), [1])
    np.testing.assert_allclose(distance_ratios(distances, neighbours, own, 2), [1])


def assert_close_to_libsvm(scores, svm, vectors):
    expected = -svm.decision_function(vectors)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize("nu", [0.05, 0.5])
@pytest.mark.parametrize("gamma", ["scale", 0.03, 2.0])
def test_one_class_svm_equals_scikit_learns(nu, gamma):
    train = 3 * cloud(80) + 1
    vectors = np.concatenate([train[:5], cloud(20, seed=1), np.full((1, 5), 100.0)])
    ours = OneClassSVM(nu=nu, gamma=gamma).fit(train)
    assert_close_to_libsvm(ours.score(vectors)["ocsvm"], LibSVM(nu=nu, gamma=gamma).fit(train), vectors)


def test_scaled_gamma_by_hand():
    # Entries 0, 2, 4, 6: mean 3, variance (9 + 1 + 1 + 9) / 4 = 5; two columns: 1 / (2 * 5).
    assert OneClassSVM().fit(np.array([[0.0, 2.0], [4.0, 6.0]])).gamma_ == pytest.approx(0.1)


def test_one_class_svm_computes_in_double_precision():
    train, vectors = cloud(80).astype(np.float32), cloud(20, seed=1).astype(np.float32)
    ours = OneClassSVM().fit(train)
    assert_close_to_libsvm(ours.score(vectors)["ocsvm"], LibSVM(nu=0.1).fit(train.astype(float)), vectors)


def test_far_from_the_training_set_is_more_novel():
    scores = OneClassSVM().fit(cloud(80)).score(np.array([[0.0] * 5, [9.0] * 5]))["ocsvm"]
    assert scores[0] < 0 < scores[1]


def test_scaled_gamma_of_identical_training_items_equals_scikit_learns():
    train, vectors = np.ones((6, 3)), cloud(4, 3)
    assert_close_to_libsvm(OneClassSVM().fit(train).score(vectors)["ocsvm"], LibSVM(nu=0.1).fit(train), vectors)


def test_max_confidence_by_hand():
    assert max_confidence(np.array([[0.2, 0.7, 0.1], [-3.0, -1.0, -2.0]])).tolist() == [-0.7, 1.0]


def test_max_confidence_of_a_set_is_that_of_its_mean_vector():
    u = np.array([[0.0, 8.0], [6.0, 0.0], [2.0, 1.0]])
    scores = score_sets(MaxConfidence().fit(u), u, {1: np.array([[0], [2]]), 2: np.array([[0, 1]])})
    # The mean of items 0 and 1 is (3, 4): -4, where the mean of their own maxima would be -7.
    assert list(scores) == ["max-confidence"]
    assert {s: values.tolist() for s, values in scores["max-confidence"].items()} == {1: [-8, -2], 2: [-4]}


class Powers:
    """A baseline with two scores that are simple enough to follow."""

    sets_by: ClassVar[str] = "mean score"

    def fit(self, vectors):
        return self

    def score(self, vectors):
        return {"square": vectors[:, 0] ** 2, "cube": vectors[:, 0] ** 3}


class PowersOfMeans(Powers):
    sets_by: ClassVar[str] = "mean vector"


@pytest.mark.parametrize(
    ("baseline", "square", "cube"),
    [
        (Powers(), [(0 + 4) / 2, (4 + 16) / 2], [(0 + 8) / 2, (8 + 64) / 2]),
        (PowersOfMeans(), [1**2, 3**2], [1**3, 3**3]),  # the means of (0, 2) and (2, 4) are 1 and 3
    ],
)
def test_sets_by_hand(baseline, square, cube):
    vectors = np.array([[0.0], [2.0], [4.0]])
    scores = score_sets(baseline, vectors, {2: np.array([[0, 1], [1, 2]]), 1: np.array([[2]])})
    assert {name: values[2].tolist() for name, values in scores.items()} == {"square": square, "cube": cube}
    assert {name: values[1].tolist() for name, values in scores.items()} == {"square": [16], "cube": [64]}


@pytest.mark.parametrize("method", [KnnRatio([1, 2]), OneClassSVM()])
def test_sets_of_other_methods_have_the_mean_of_their_items_scores(method):
    baseline, vectors = method.fit(cloud(40)), cloud(6, seed=1)
    sets = np.array([[0, 3], [1, 5], [2, 4]])
    for name, items in baseline.score(vectors).items():
        scores = score_sets(baseline, vectors, {2: sets})[name][2]
        np.testing.assert_allclose(scores, (items[sets[:, 0]] + items[sets[:, 1]]) / 2)
