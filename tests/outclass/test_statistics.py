"""Class statistics: by hand, in blocks as in one, subsets as from their own items, Ledoit-Wolf as scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf_shrinkage as scikit_ledoit_wolf

from outclass.baselines import blocks
from outclass.baselines.statistics import (
    cholesky,
    class_means,
    class_moments,
    class_sums,
    fourth_powers,
    ledoit_wolf_shrinkage,
    shrink,
    subset_moments,
    whiten,
)
from outclass.errors import OutclassError

HAND = np.array([[0.0, 0.0], [2.0, 4.0], [5.0, 1.0]]), np.array([0, 0, 1])


def sample(n=60, d=5, k=6, seed=0, far=0.0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return (rng.normal(size=(k, d)) * 3 + far)[labels] + rng.normal(size=(n, d)), labels


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 35)


def assert_moments(moments, features, labels):
    classes = np.unique(labels)
    means = np.stack([features[labels == c].mean(axis=0) for c in classes])
    residual = features - means[np.searchsorted(classes, labels)]
    centred = features - features.mean(axis=0)
    np.testing.assert_array_equal(moments.classes, classes)
    np.testing.assert_array_equal(moments.counts, [(labels == c).sum() for c in classes])
    np.testing.assert_allclose(moments.means, means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.mean, features.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.within_scatter, residual.T @ residual, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moments.total_scatter, centred.T @ centred, rtol=1e-9, atol=1e-9)


def test_by_hand():
    moments = class_moments(*HAND)
    np.testing.assert_allclose(moments.means, [[1, 2], [5, 1]])
    np.testing.assert_allclose(moments.within_scatter, [[2, 4], [4, 8]])  # twice (1, 2) (1, 2)^T
    # About the mean (7/3, 5/3): squares 49/9 + 1/9 + 64/9 and 25/9 + 49/9 + 4/9, products 35/9 - 7/9 - 16/9.
    np.testing.assert_allclose(moments.total_scatter, [[114 / 9, 12 / 9], [12 / 9, 78 / 9]])


def test_blocks_equal_the_whole(small_blocks):
    features, labels = sample()
    assert len(list(blocks.slices(*features.shape))) == 9  # 7 rows each
    assert_moments(class_moments(features, labels), features, labels)
    count, sums = class_sums(features, labels, 6)
    np.testing.assert_allclose(sums / count[:, None], class_means(features, labels))
    np.testing.assert_allclose(blocks.by_blocks(lambda x: x.sum(axis=1), features), features.sum(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_far_from_zero_lose_nothing(dtype):
    features, labels = sample(far=1e4)
    features = features.astype(dtype)
    assert_moments(class_moments(features, labels), features.astype(np.float64), labels)


@settings(derandomize=True, database=None, deadline=None, max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6).filter(any), min_size=1, max_size=4))
def test_subsets_equal_direct_computation(taught):
    features, labels = sample(far=100.0)
    for classes, moments in zip(np.array(taught), subset_moments(features, labels, np.array(taught)), strict=True):
        kept = classes[labels]
        assert_moments(moments, features[kept], labels[kept])


def test_subsets_in_blocks(small_blocks):
    features, labels = sample()
    taught = np.array([[True] * 5 + [False], [False] * 4 + [True] * 2])
    for classes, moments in zip(taught, subset_moments(features, labels, taught), strict=True):
        assert_moments(moments, features[classes[labels]], labels[classes[labels]])


def test_subset_without_items():
    with pytest.raises(OutclassError, match="subset 1 of the classes has no items"):
        list(subset_moments(*HAND, np.array([[True, True, False], [False, False, True]])))


def test_means_of_classes_with_a_gap():
    with pytest.raises(OutclassError, match="class 1 has no items"):
        class_means(np.ones((2, 3)), np.array([0, 2]))


@pytest.mark.parametrize("n", [4, 40, 4000])
def test_ledoit_wolf_equals_scikit_learns(n):
    x = np.random.default_rng(n).normal(size=(n, 6)) * np.arange(1, 7)
    x -= x.mean(axis=0)
    ours = ledoit_wolf_shrinkage(x.T @ x, fourth_powers(x, np.zeros((1, 6)), np.zeros(n, int)), n)
    assert ours == pytest.approx(scikit_ledoit_wolf(x, assume_centered=True), rel=1e-9)


def test_fourth_powers_by_hand():
    # From (1, 2): the first two items are at squared distance 5; the third is at its own mean.
    assert fourth_powers(HAND[0], np.array([[1.0, 2.0], [5.0, 1.0]]), HAND[1]) == pytest.approx(50)


def test_shrinking_by_hand():
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(shrink(covariance, 0.5), [[3.5, 0.5], [0.5, 2.5]])
    np.testing.assert_allclose(shrink(covariance, 1), 3 * np.eye(2))
    with pytest.raises(OutclassError, match="shrinkage 2"):
        shrink(covariance, 2)


def test_whitening_gives_unit_covariance():
    x = np.random.default_rng(0).normal(size=(50, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    covariance = x.T @ x / 50
    white = whiten(x, cholesky(covariance))
    np.testing.assert_allclose(white.T @ white / 50, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("covariance", [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.ones((2, 2)), -np.eye(2)])
def test_singular_covariance(covariance):
    with pytest.raises(OutclassError, match=r"singular.* raise the shrinkage"):
        cholesky(covariance)
