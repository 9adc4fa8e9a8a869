"""Virtual logits: by hand, and against the published recipe for a network whose last layer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from outclass.baselines import blocks
from outclass.baselines.contract import Items
from outclass.baselines.statistics import class_moments
from outclass.baselines.vim import Vim, complement, residual_norms, zero_activities
from outclass.errors import OutclassError


def sample(n=80, d=6, k=4, seed=0, linear=True):
    """Features with a mean, activities by a linear layer, and that layer."""
    rng = np.random.default_rng(0)
    weights, bias, mix = rng.normal(size=(d, k)), rng.normal(size=k) + 3, rng.normal(size=(d, d)) * np.arange(1, d + 1)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ mix + 2
    u = x @ weights + bias
    return Items(u if linear else np.maximum(u, 0), x), np.arange(n) % k, weights, bias


def published(train, test, weights, bias, components):
    """By singular values, with the layer's own weights."""
    origin = -np.linalg.pinv(weights.T) @ bias
    right = np.linalg.svd(train.features - origin)[2][components:]
    norms = [np.linalg.norm((x - origin) @ right.T, axis=1) for x in (train.features, test.features)]
    alpha = train.confidences.max(axis=1).sum() / norms[0].sum()
    return alpha * norms[1] - logsumexp(test.confidences, axis=1)


def test_by_hand():
    # Items on the x axis, but for +-1 along y; u = x. The origin is 0, the complement the y axis.
    x = np.array([[10.0, 1.0], [10.0, -1.0], [20.0, 1.0], [20.0, -1.0]])
    items = Items(x[:, :1], x)
    method = Vim(1).fit(items, np.zeros(4, int))
    np.testing.assert_allclose(method.outside_.origin, 0, atol=1e-6)
    assert method.alpha_ == pytest.approx(60 / 4)
    test = np.array([[5.0, 3.0], [30.0, 0.0]])
    np.testing.assert_allclose(method.score(Items(test[:, :1], test)), [15 * 3 - 5, -30], rtol=1e-5)


def test_the_origin_at_the_mean_by_hand():
    x = np.array([[10.0, 1.0], [10.0, -1.0], [20.0, 1.0], [20.0, -1.0]])
    method = Vim(1, "mean").fit(Items(x[:, :1], x), np.zeros(4, int))
    np.testing.assert_allclose(method.outside_.origin, [15, 0])
    np.testing.assert_allclose(method.score(Items(np.array([[5.0]]), np.array([[5.0, 3.0]]))), [15 * 3 - 5], rtol=1e-5)


@pytest.mark.parametrize("components", [1, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_linear_layer_is_found_and_scores_are_the_published_ones(components, dtype):
    train, labels, weights, bias = sample()
    test = sample(30, seed=1)[0]
    expected = published(train, test, weights, bias, components)
    train, test = (Items(*(part.astype(dtype) for part in items)) for items in (train, test))
    ours = Vim(components).fit(train, labels).score(test)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def test_the_origin_of_other_networks_is_that_of_the_least_squares_map():
    items, labels, *_ = sample(linear=False)
    origin = zero_activities(items.features, items.confidences, class_moments(items.features, labels))
    ones = np.hstack([items.features, np.ones((80, 1))])
    fitted, *_ = np.linalg.lstsq(ones, items.confidences)
    np.testing.assert_allclose(origin, -np.linalg.pinv(fitted[:-1].T) @ fitted[-1], rtol=1e-6)


def test_collinear_features_and_activities_have_the_smallest_origin():
    items, labels, *_ = sample()
    x = np.hstack([items.features, items.features[:, :1], np.ones((80, 1))])
    u = np.hstack([items.confidences, items.confidences[:, :1]])
    origin = zero_activities(x, u, class_moments(x, labels))
    np.testing.assert_allclose(origin[0], origin[6], rtol=1e-4)  # the same feature twice shares what it gives
    assert abs(origin[7]) < 1e-6  # a constant one gives nothing
    assert np.isfinite(Vim().fit(Items(u, x), labels).score(Items(u, x))).all()


@settings(derandomize=True, database=None, deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_turning_the_features_changes_nothing(seed):
    (u, x), labels, *_ = sample()
    turned = x @ np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    plain, other = (Vim(2).fit(Items(u, f), labels).score(Items(u, f)) for f in (x, turned))
    np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-3)


def test_the_complement_is_orthonormal_and_holds_the_least():
    (_, x), labels, *_ = sample()
    moments = class_moments(x, labels)
    outside = complement(moments, moments.mean, 4)
    np.testing.assert_allclose(outside.basis.T @ outside.basis, np.eye(2), atol=1e-6)
    least = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[4:]
    assert (residual_norms(x, outside) ** 2).sum() == pytest.approx((least**2).sum(), rel=1e-5)


def test_blocks_equal_the_whole(monkeypatch):
    items, labels, *_ = sample()
    whole = Vim(3).fit(items, labels).score(items)
    monkeypatch.setattr(blocks, "BLOCK", 42)
    np.testing.assert_allclose(Vim(3).fit(items, labels).score(items), whole, rtol=1e-4)


@pytest.mark.parametrize("components", [0, 6])
def test_components_out_of_range(components):
    items, labels, *_ = sample()
    with pytest.raises(OutclassError, match=f"{components} components of vim: give a number from 1 to 5"):
        Vim(components).fit(items, labels)


def test_items_inside_their_principal_subspace():
    x = np.zeros((8, 3))
    x[:, 0] = np.arange(8)
    with pytest.raises(OutclassError, match="ask for fewer components"):
        Vim(2).fit(Items(x[:, :1], x), np.zeros(8, int))


def test_negative_activities():
    (u, x), labels, *_ = sample()
    with pytest.raises(OutclassError, match="give logits, not log-probabilities"):
        Vim().fit(Items(u - logsumexp(u, axis=1, keepdims=True), x), labels)
