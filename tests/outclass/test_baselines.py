"""What the paper compares with, by hand, against brute force and against scikit-learn; and all methods by name."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.svm import OneClassSVM as LibSVM

from outclass.baselines.contract import Items
from outclass.baselines.knn_ratio import KnnRatio, distance_ratios
from outclass.baselines.max_confidence import MaxConfidence, max_confidence
from outclass.baselines.one_class_svm import OneClassSVM
from outclass.baselines.registry import METHODS, Candidate, candidates, hyper_parameters
from outclass.baselines.ways import WAYS, mean_scores, mean_vectors, score_sets
from outclass.errors import OutclassError

LINE = np.array([[0.0], [1.0], [3.0], [7.0]])


def cloud(count, width=5, seed=0, centre=0.0):
    return np.random.default_rng(seed).normal(centre, 1, size=(count, width))


def items(features):
    """Confidences that nothing here should read."""
    return Items(np.full((len(features), 2), np.nan), features)


def fitted(baseline, features):
    return baseline.fit(items(features), np.zeros(len(features), int))


def ratios(train, vectors, ks):
    return fitted(KnnRatio(max(ks)), train).ratios(items(vectors), ks)


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
    scores = ratios(LINE, np.array([[4.5], [10.0]]), [1, 2])
    # k = 1: 4.5 is 1.5 from 3, which is 2 from 1; 10 is 3 from 7, which is 4 from 3.
    np.testing.assert_allclose(scores[1], [1.5 / 2, 3 / 4])
    # k = 2: 4.5 is 1.5 and 2.5 from 3 and 7, mean 2. 3 is 2 and 3 from 1 and 0, mean 2.5; 7 is 4 and 6 from 3 and 1,
    # mean 5; together 3.75. 10 is 3 and 7 from 7 and 3, mean 5, over the same 3.75.
    np.testing.assert_allclose(scores[2], [2 / 3.75, 5 / 3.75])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_knn_equals_brute_force(k):
    train, vectors = cloud(40), cloud(15, seed=1, centre=0.5)
    expected = knn_by_brute_force(train, vectors, k)
    np.testing.assert_allclose(fitted(KnnRatio(k), train).score(items(vectors)), expected, rtol=1e-9)


def test_knn_in_single_precision_agrees():
    train, vectors = cloud(40).astype(np.float32), cloud(15, seed=1).astype(np.float32)
    expected = knn_by_brute_force(train.astype(float), vectors.astype(float), 5)
    np.testing.assert_allclose(fitted(KnnRatio(5), train).score(items(vectors)), expected, rtol=1e-4)


def test_several_k_at_once_equal_each_k_alone():
    train, vectors = cloud(40), cloud(15, seed=1)
    together = fitted(KnnRatio(5), train)
    assert together.own_distances_.shape == (40, 5)  # one search, for the largest
    scores = together.ratios(items(vectors), [2, 5, 1])
    assert list(scores) == [2, 5, 1]
    for k in (1, 2, 5):
        alone = fitted(KnnRatio(k), train).score(items(vectors))
        np.testing.assert_allclose(scores[k], alone, rtol=1e-12)


@pytest.mark.parametrize("k", [0, 4, 9])
def test_as_many_neighbours_as_training_items_are_refused(k):
    with pytest.raises(
        OutclassError, match=f"{k} neighbours of each training item .* 4 items: give a number from 1 to 3"
    ):
        fitted(KnnRatio(k), LINE)


@pytest.mark.parametrize("method", [KnnRatio(1), OneClassSVM()])
def test_on_confidences_is_the_same_with_confidences_for_features(method):
    train, vectors, nothing = cloud(40), cloud(15, seed=1), np.full((40, 3), np.nan)
    labels = np.zeros(40, int)
    expected = method.fit(Items(nothing, train), labels).score(Items(nothing[:15], vectors))
    method.on = "confidences"
    try:
        found = method.fit(Items(train, nothing), labels).score(Items(vectors, nothing[:15]))
    finally:
        method.on = "features"
    np.testing.assert_array_equal(found, expected)


def test_a_training_item_is_not_its_own_neighbour_in_the_training_set():
    np.testing.assert_allclose(fitted(KnnRatio(1), LINE).own_distances_[:, 0], [1, 1, 2, 4])


def test_the_scale_of_the_vectors_does_not_matter():
    train, vectors = cloud(40), cloud(15, seed=1)
    plain, scaled = (ratios(train * unit, vectors * unit, [2])[2] for unit in (1, 1000))
    np.testing.assert_allclose(scaled, plain, rtol=1e-9)


def test_farther_is_more_novel():
    scores = ratios(cloud(40), np.array([[x] * 5 for x in (3.0, 5.0, 10.0)]), [5])[5]
    assert (np.diff(scores) > 0).all()


def test_duplicates_by_hand():
    train = np.array([[0.0], [0.0], [0.0], [2.0], [5.0]])
    # Spacings 0, 0, 0, 2, 3: next to the zeros the smallest positive one, 2, takes their place.
    scores = ratios(train, np.array([[0.5], [-1.0], [0.0], [4.5]]), [1])[1]
    np.testing.assert_allclose(scores, [0.5 / 2, 1 / 2, 0, 0.5 / 3])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_duplicates_on_a_grid_equal_brute_force(k):
    train = np.random.default_rng(3).integers(0, 4, size=(30, 2)).astype(float)  # many duplicates, exact distances
    vectors = cloud(10, 2, centre=1.5)
    spacing = fitted(KnnRatio(k), train).own_distances_[:, :k].mean(axis=1)
    assert (spacing == 0).any() or k == 5
    scores = ratios(train, vectors, [k])[k]
    assert np.isfinite(scores).all()
    if k == 1:  # for more, which of several equally distant neighbours is taken is open
        np.testing.assert_allclose(scores, knn_by_brute_force(train, vectors, k), rtol=1e-6)


def test_duplicates_of_wide_vectors_equal_brute_force():
    train = cloud(60, 100)
    train = np.concatenate([train, train[:20]])
    vectors = cloud(30, 100, seed=1)
    scores = ratios(train, vectors, [1])[1]
    np.testing.assert_allclose(scores, knn_by_brute_force(train, vectors, 1), rtol=1e-6)


def test_identical_training_items_leave_plain_distances():
    scores = ratios(np.full((6, 2), 1.0), np.array([[1.0, 1.0], [4.0, 5.0]]), [1, 2])
    np.testing.assert_allclose(scores[1], [0, 5])  # sqrt(3^2 + 4^2)
    np.testing.assert_allclose(scores[2], [0, 5])


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
    ours = fitted(OneClassSVM(nu=nu, gamma=gamma), train)
    assert_close_to_libsvm(ours.score(items(vectors)), LibSVM(nu=nu, gamma=gamma).fit(train), vectors)


def test_scaled_gamma_by_hand():
    # Entries 0, 2, 4, 6: mean 3, variance (9 + 1 + 1 + 9) / 4 = 5; two columns: 1 / (2 * 5).
    assert fitted(OneClassSVM(), np.array([[0.0, 2.0], [4.0, 6.0]])).gamma_ == pytest.approx(0.1)


def test_one_class_svm_computes_in_double_precision():
    train, vectors = cloud(80).astype(np.float32), cloud(20, seed=1).astype(np.float32)
    ours = fitted(OneClassSVM(), train)
    assert_close_to_libsvm(ours.score(items(vectors)), LibSVM(nu=0.1).fit(train.astype(float)), vectors)


def test_far_from_the_training_set_is_more_novel():
    scores = fitted(OneClassSVM(), cloud(80)).score(items(np.array([[0.0] * 5, [9.0] * 5])))
    assert scores[0] < 0 < scores[1]


def test_scaled_gamma_of_identical_training_items_equals_scikit_learns():
    train, vectors = np.ones((6, 3)), cloud(4, 3)
    assert_close_to_libsvm(fitted(OneClassSVM(), train).score(items(vectors)), LibSVM(nu=0.1).fit(train), vectors)


def test_max_confidence_by_hand():
    u = np.array([[0.2, 0.7, 0.1], [-3.0, -1.0, -2.0]])
    assert max_confidence(u).tolist() == [-0.7, 1.0]
    assert MaxConfidence().fit(Items(u, u), np.array([0, 1])).score(Items(u, np.zeros((2, 0)))).tolist() == [-0.7, 1.0]


# Sets, and methods by name


class Sum:
    """Simple enough to follow: the square of the feature, times the confidence, times the size of the set."""

    name: ClassVar[str] = "sum"
    uses: ClassVar[str] = "both"

    def __init__(self):
        self.asked = []

    def fit(self, items, labels):
        return self

    def score(self, items, size=1):
        self.asked.append(len(items.features))
        return items.features[:, 0] ** 2 * items.confidences[:, 0] * size


THREE = Items(np.array([[1.0], [1.0], [3.0]]), np.array([[0.0], [2.0], [4.0]]))
SETS = {2: np.array([[0, 1], [1, 2]]), 1: np.array([[2]])}


def test_both_ways_to_judge_a_set_by_hand():
    scores = score_sets(Sum(), THREE, SETS, [(way, s) for way in WAYS for s in (2, 1)])
    assert scores["mean-score", 2].tolist() == [(0 + 4) / 2, (4 + 48) / 2]
    # The mean features are 1 and 3, the mean confidences 1 and 2; the method hears that they are means of two.
    assert scores["mean-vector", 2].tolist() == [1 * 1 * 2, 9 * 2 * 2]
    assert scores["mean-score", 1].tolist() == scores["mean-vector", 1].tolist() == [48]


def test_nothing_is_scored_that_is_not_asked_for():
    method = Sum()
    score_sets(method, THREE, SETS, [("mean-vector", 2)])
    assert method.asked == [2]
    score_sets(method, THREE, SETS, [("mean-vector", 1), ("mean-score", 2), ("mean-score", 1)])
    assert method.asked == [2, 3]  # the items, once


def test_means_by_hand():
    assert mean_scores(np.array([1.0, 2.0, 6.0]), np.array([[0, 1], [2, 0]])).tolist() == [1.5, 3.5]
    means = mean_vectors(THREE, SETS[2])
    assert means.features.tolist() == [[1], [3]]
    assert means.confidences.tolist() == [[1], [2]]


def labelled(classes=6, each=12, width=8, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(classes * each) % classes
    features = (4 * np.eye(classes, width)[labels] + rng.normal(size=(len(labels), width))).astype(np.float32)
    return Items(features[:, :classes].copy(), features), labels


SMALL = {"deep-knn": {"neighbours": 3}, "vim": {"components": 3}}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_its_name_tells_what_is_far_from_all_classes(method):
    train, labels = labelled()
    undecided, away = np.full((5, 6), 1.5, np.float32), np.full((5, 8), -15, np.float32)
    judged = Items(np.concatenate([train.confidences[:5], undecided]), np.concatenate([train.features[:5], away]))
    sets = {1: np.arange(10)[:, None], 2: np.array([[0, 0], [5, 6]])}
    cases = [(way, s) for way in WAYS for s in sets]
    scores = Candidate(method, SMALL.get(method, {})).fit(train, labels).score_sets(judged, sets, cases)
    assert set(scores) == set(cases)
    for way in WAYS:
        assert scores[way, 1][:5].mean() < scores[way, 1][5:].mean()
        assert scores[way, 2][0] < scores[way, 2][1]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_reads_only_what_it_says_that_it_uses(method):
    train, labels = labelled()
    candidate, sets = Candidate(method, SMALL.get(method, {})), {2: np.array([[0, 1], [2, 3]])}
    uses = METHODS[method].uses
    hidden = Items(
        train.confidences if uses != "features" else np.full_like(train.confidences, np.nan),
        train.features if uses != "confidences" else np.full_like(train.features, np.nan),
    )
    for way in WAYS:
        expected = candidate.fit(train, labels).score_sets(train, sets, [(way, 2)])
        found = candidate.fit(hidden, labels).score_sets(hidden, sets, [(way, 2)])
        np.testing.assert_array_equal(found[way, 2], expected[way, 2])


def test_unit_length_is_taken_before_the_mean():
    train = Items(np.zeros((3, 0)), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    judged = Items(np.zeros((2, 0)), np.array([[5.0, 0.0], [0.0, 2.0]]))
    sets = {2: np.array([[0, 1]])}
    plain, scaled = (
        Candidate("nearest-mean", {"unit_length": scaled})
        .fit(train, np.array([0, 1, 1]))
        .score_sets(judged, sets, [("mean-vector", 2)])["mean-vector", 2]
        for scaled in (False, True)
    )
    # Means (2.5, 1) and, of the unit vectors, (0.5, 0.5); the class means are (1, 0) and (0, 1).
    np.testing.assert_allclose(plain, [np.sqrt(1.5**2 + 1)])
    np.testing.assert_allclose(scaled, [np.sqrt(0.5)], rtol=1e-6)


def test_candidates_are_all_combinations_in_the_order_of_the_values():
    grid = {"unit_length": [True, False], "shrinkage": [0.5, 0.1]}
    found = [candidate.values for candidate in candidates("plda", grid)]
    assert found == [{"shrinkage": a, "unit_length": b} for a in (0.5, 0.1) for b in (True, False)]
    assert candidates("plda", dict(reversed(grid.items()))) == candidates("plda", grid)
    assert candidates("energy", {}) == [Candidate("energy", {})]


def test_candidates_describe_themselves():
    assert (
        str(Candidate("plda", {"shrinkage": 0.5, "unit_length": True})) == "plda with shrinkage 0.5, unit_length true"
    )
    assert str(Candidate("vim", {"components": None})) == "vim with components null"
    assert str(Candidate("openmax", {"tail": 1})) == "openmax with tail 1"
    assert str(Candidate("energy", {})) == "energy"


def test_unit_length_is_a_hyper_parameter_where_features_are_used():
    assert hyper_parameters("lof") == {"neighbours": int, "unit_length": bool}
    assert hyper_parameters("entropy") == {}
    for method, kind in METHODS.items():
        assert ("unit_length" in hyper_parameters(method)) == (kind.uses != "confidences")


@pytest.mark.parametrize(
    ("method", "values", "reason"),
    [
        ("plda", {"shrinkage": 0.0}, "is singular .* raise the shrinkage"),
        ("deep-knn", {"neighbours": 73}, "there are 72 train items"),
        ("knfst", {"kernel": "linear"}, "leave no null space"),
        ("knfst", {"kernel": "rbf", "on": "confidences", "gamma": 1e-9}, "leave no null space"),
    ],
)
def test_what_cannot_be_fitted_is_named_with_its_hyper_parameters(method, values, reason):
    train, labels = labelled()
    train.features[:, 7] = 1  # a constant
    start = f"{method} with {next(iter(values))} {next(iter(values.values()))}"
    with pytest.raises(OutclassError, match=rf"^{start}.*{reason}.*; give other hyper-parameters, or leave the method"):
        Candidate(method, values).fit(train, labels)


def test_scores_that_are_no_numbers_are_refused():
    train, labels = labelled()
    fit = Candidate("max-logit", {}).fit(train, labels)
    train.confidences[3, :] = -np.inf
    with pytest.raises(OutclassError, match="max-logit: some scores are not finite"):
        fit.score_sets(train, {1: np.arange(5)[:, None]}, [("mean-score", 1)])
