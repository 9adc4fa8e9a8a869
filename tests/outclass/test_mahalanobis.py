"""Mahalanobis distances: by hand, against scipy and scikit-learn, unchanged by any change of coordinates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.covariance import EmpiricalCovariance, LedoitWolf, ShrunkCovariance

from outclass.baselines.contract import Items
from outclass.baselines.mahalanobis import Mahalanobis, RelativeMahalanobis
from outclass.errors import OutclassError

NONE = np.empty((0, 0))
METHODS = [Mahalanobis, RelativeMahalanobis]


def sample(n=90, d=5, k=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return (rng.normal(size=(k, d)) * 3)[labels] + rng.normal(size=(n, d)) * np.arange(1, d + 1), labels


def scores(method, train, labels, test):
    return method.fit(Items(NONE, train), labels).score(Items(NONE, test))


def by_scikit_learn(estimator, train, labels, test):
    """Squared distances to the nearest class mean, and to the mean of all."""
    means = np.stack([train[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    shared = estimator(assume_centered=True).fit(train - means[labels]).get_precision()
    plain = cdist(test, means, "mahalanobis", VI=shared).min(axis=1) ** 2
    return plain, estimator().fit(train).mahalanobis(test)


def test_by_hand():
    # Within classes: +-1 along x in the first, +-2 along y in the second; divided by 4 items: variances 1/2 and 2.
    train = np.array([[-1.0, 0.0], [1.0, 0.0], [10.0, -2.0], [10.0, 2.0]])
    labels = np.array([0, 0, 1, 1])
    test = np.array([[1.0, 2.0], [10.0, 0.0], [5.0, 0.0]])
    np.testing.assert_allclose(scores(Mahalanobis(0), train, labels, test), [2 + 2, 0, 50], atol=1e-12)
    # Of all: mean (5, 0), variances (36 + 16 + 25 + 25) / 4 = 25.5 and 2.
    background = np.array([16 / 25.5 + 2, 25 / 25.5, 0])
    relative = scores(RelativeMahalanobis(0), train, labels, test)
    np.testing.assert_allclose(relative, np.array([4, 0, 50]) - background, atol=1e-12)


@pytest.mark.parametrize(
    ("shrinkage", "estimator"),
    [
        (0.0, EmpiricalCovariance),
        (0.3, lambda **how: ShrunkCovariance(shrinkage=0.3, **how)),
        ("auto", LedoitWolf),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agreement_with_scikit_learn(shrinkage, estimator, dtype):
    train, labels = sample()
    train, test = train.astype(dtype), sample(seed=1)[0].astype(dtype)
    plain, background = by_scikit_learn(estimator, train.astype(float), labels, test.astype(float))
    np.testing.assert_allclose(scores(Mahalanobis(shrinkage), train, labels, test), plain, rtol=1e-8)
    relative = scores(RelativeMahalanobis(shrinkage), train, labels, test)
    np.testing.assert_allclose(relative, plain - background, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@settings(derandomize=True, database=None, deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_any_change_of_coordinates_leaves_unshrunk_scores(method, seed):
    train, labels = sample()
    test = sample(seed=1)[0]
    rng = np.random.default_rng(seed)
    change = np.linalg.qr(rng.normal(size=(5, 5)))[0] * rng.uniform(0.1, 10, size=5)
    shift = 10 * rng.normal(size=5)
    changed = scores(method(0.0), train @ change + shift, labels, test @ change + shift)
    np.testing.assert_allclose(changed, scores(method(0.0), train, labels, test), rtol=1e-7, atol=1e-7)


def test_fully_shrunk_is_the_scaled_euclidean_distance():
    train, labels = sample()
    test = sample(seed=1)[0]
    means = np.stack([train[labels == c].mean(axis=0) for c in range(6)])
    ours = scores(Mahalanobis(1.0), train, labels, test)
    variance = ((train - means[labels]) ** 2).mean()
    np.testing.assert_allclose(ours, cdist(test, means).min(axis=1) ** 2 / variance)


@pytest.mark.parametrize("method", METHODS)
def test_a_class_of_one_item_and_a_constant_feature(method):
    train, labels = sample()
    train[:, 2] = 7.0
    labels[0] = 6
    with pytest.raises(OutclassError, match="singular"):
        scores(method(0.0), train, labels, train)
    for shrinkage in (0.1, "auto"):
        assert np.isfinite(scores(method(shrinkage), train, labels, train)).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_item_in_every_class(method):
    with pytest.raises(OutclassError, match="singular"):
        scores(method(), np.eye(3), np.arange(3), np.eye(3))
