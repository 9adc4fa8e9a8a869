"""PLDA: the ratio of the joint densities of set and class items, in full, and the moment estimates behind it."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.stats import multivariate_normal, norm

from outclass.baselines.contract import Items
from outclass.baselines.plda import Plda, TwoCovariances, log_ratios, two_covariances
from outclass.baselines.statistics import Moments, class_moments, subset_moments
from outclass.errors import OutclassError

NONE = np.empty((0, 0))


def sample(n=90, d=4, k=6, seed=0, apart=3):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return (rng.normal(size=(k, d)) * apart)[labels] + rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5, labels


def covariances_of(model, d):
    """W on the model's axes and any completion of it, and B, which is 0 on the completion."""
    basis = np.linalg.svd(model.axes, full_matrices=True)[0][:, model.axes.shape[1] :]
    axes = np.hstack([model.axes, basis])
    back = np.linalg.inv(axes)
    return back.T @ back, back.T @ np.diag(np.pad(model.between, (0, d - len(model.between)))) @ back


def joint(items, within, between, mean):
    """Log density of items that share their class: each pair of items covaries by B, each item by W more."""
    n = len(items)
    covariance = np.kron(np.ones((n, n)), between) + np.kron(np.eye(n), within)
    return multivariate_normal(np.tile(mean, n), covariance).logpdf(items.ravel())


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("between_shrinkage", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_ratios_equal_those_of_the_joint_densities_of_all_items(size, shrinkage, between_shrinkage):
    features, labels = sample(30, apart=30)
    moments = class_moments(features, labels)
    model = two_covariances(moments, shrinkage, between_shrinkage)
    within = moments.within_scatter / (30 - 6)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / 4 * np.eye(4)
    means = moments.means - moments.means.mean(axis=0)
    between = means.T @ means / 5 - within * (1 / moments.counts).mean()
    between = (1 - between_shrinkage) * between + between_shrinkage * np.trace(between) / 4 * np.eye(4)
    assert np.linalg.eigvalsh(between).min() > 0  # so B needs no clipping, and the densities are those of B as it is
    for row in range(3):
        chosen = np.random.default_rng(row).normal(5, 4, size=(size, 4))
        ratios = log_ratios(model, chosen.mean(axis=0)[None], size)[0]
        for c in range(6):
            own = features[labels == c]
            together = joint(np.concatenate([chosen, own]), within, between, model.mean)
            apart = joint(chosen, within, between, model.mean) + joint(own, within, between, model.mean)
            assert ratios[c] == pytest.approx(together - apart, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("size", [1, 3])
def test_clipped_covariances_give_the_ratios_of_what_is_left(size):
    features, labels = sample(60, d=7, k=4)  # three dimensions at most
    moments = class_moments(features, labels)
    model = two_covariances(moments, 0.1)
    assert 1 <= len(model.between) <= 3
    within, between = covariances_of(model, 7)
    chosen = np.random.default_rng(0).normal(5, 4, size=(size, 7))
    ratios = log_ratios(model, chosen.mean(axis=0)[None], size)[0]
    for c in range(4):
        own = features[labels == c]
        together = joint(np.concatenate([chosen, own]), within, between, model.mean)
        apart = joint(chosen, within, between, model.mean) + joint(own, within, between, model.mean)
        assert ratios[c] == pytest.approx(together - apart, rel=1e-8, abs=1e-8)


def test_by_hand_in_one_dimension():
    model = TwoCovariances(np.zeros(1), np.eye(1), np.array([2.0]), np.array([[3.0], [-1.0]]), np.array([4, 1]))
    # Class 0: a = 8/9, v = 2/9; class 1: a = 2/3, v = 2/3. Sets of two add 1/2.
    x = 1.7
    unseen = norm(0, np.sqrt(2.5)).logpdf(x)
    first, second = norm(8 / 3, np.sqrt(2 / 9 + 1 / 2)), norm(-2 / 3, np.sqrt(2 / 3 + 1 / 2))
    expected = [first.logpdf(x) - unseen, second.logpdf(x) - unseen]
    np.testing.assert_allclose(log_ratios(model, np.array([[x]]), 2)[0], expected)


def test_axes_solve_the_generalised_eigenproblem():
    features, labels = sample(300, d=6, k=40)
    moments = class_moments(features, labels)
    model = two_covariances(moments, 0.0)
    within = moments.within_scatter / (300 - 40)
    between = np.cov(moments.means, rowvar=False) - within * (1 / moments.counts).mean()
    values = eigh(between, within, eigvals_only=True)[::-1]
    np.testing.assert_allclose(model.between, values[values > 0], rtol=1e-8)
    np.testing.assert_allclose(model.axes.T @ within @ model.axes, np.eye(len(model.between)), atol=1e-8)
    np.testing.assert_allclose(model.axes.T @ between @ model.axes, np.diag(model.between), atol=1e-8)


def test_the_moment_estimate_finds_the_covariances_that_drew_the_items():
    rng = np.random.default_rng(0)
    between, noise, k = np.array([9.0, 1.0, 0.0]), np.array([1.0, 4.0, 2.0]), 4000
    labels = np.repeat(np.arange(k), rng.integers(2, 6, k))
    x = (rng.normal(size=(k, 3)) * np.sqrt(between))[labels] + rng.normal(size=(len(labels), 3)) * np.sqrt(noise)
    model = two_covariances(class_moments(x, labels), 0.0)
    np.testing.assert_allclose(model.between[:2], [9, 0.25], rtol=0.1)  # between / noise, largest first
    assert (model.between[2:] < 0.03).all()


def test_larger_sets_are_surer():
    features, labels = sample(300, k=12)
    method = Plda().fit(Items(NONE, features), labels)
    means, strange = method.model_.mean + 0 * features[:1], features[:1] + 100
    centre = features[labels == 3].mean(axis=0, keepdims=True)
    known = [method.score(Items(NONE, centre), s)[0] for s in (1, 2, 5, 20)]
    novel = [method.score(Items(NONE, strange), s)[0] for s in (1, 2, 5, 20)]
    assert (np.diff(known) < 0).all()
    assert (np.diff(novel) > 0).all()
    assert np.isfinite(method.score(Items(NONE, means))).all()


def test_any_change_of_coordinates_leaves_unshrunk_scores():
    features, labels = sample()
    test = sample(seed=1)[0]
    change = np.random.default_rng(0).normal(size=(4, 4))
    plain = Plda(0.0).fit(Items(NONE, features), labels).score(Items(NONE, test), 3)
    changed = Plda(0.0).fit(Items(NONE, features @ change + 9), labels).score(Items(NONE, test @ change + 9), 3)
    np.testing.assert_allclose(changed, plain, rtol=1e-7)


def test_a_subset_of_the_classes_is_as_if_there_were_no_others():
    features, labels = sample()
    taught = np.array([[True, True, False, True, True, False], [False, True, True, False, True, True]])
    for classes, moments in zip(taught, subset_moments(features, labels, taught), strict=True):
        kept = classes[labels]
        alone = class_moments(features[kept], np.searchsorted(np.flatnonzero(classes), labels[kept]))
        ratios = log_ratios(two_covariances(moments, 0.1), features)
        np.testing.assert_allclose(ratios, log_ratios(two_covariances(alone, 0.1), features), rtol=1e-8, atol=1e-8)


def test_a_class_of_one_item_and_a_constant_feature():
    features, labels = sample()
    features[:, 1] = 3.0
    labels[labels == 5] = 4
    labels[0] = 5
    with pytest.raises(OutclassError, match="singular"):
        Plda(0.0).fit(Items(NONE, features), labels)
    assert np.isfinite(Plda(0.1).fit(Items(NONE, features), labels).score(Items(NONE, features))).all()


@pytest.mark.parametrize("labels", [np.arange(8), np.zeros(8, int)])
def test_too_few_classes_or_items(labels):
    with pytest.raises(OutclassError, match=r"PLDA of 8 items in [81] classes"):
        Plda().fit(Items(NONE, np.random.default_rng(0).normal(size=(8, 3))), labels)


def test_classes_with_equal_means_tell_nothing():
    moments = Moments(np.zeros(2), np.array([5, 5]), np.zeros((2, 2)), np.eye(2))
    np.testing.assert_array_equal(log_ratios(two_covariances(moments, 0.0), np.ones((3, 2))), 0)


def test_a_shrunk_between_covariance_tells_by_directions_in_which_no_class_differs():
    """Two classes on a line: a point off the line is novel only if new classes may differ in new directions."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    features = rng.normal(size=(100, 3)) + np.array([[-9.0, 0, 0], [9.0, 0, 0]])[labels]
    on, off = np.array([[9.0, 0, 0]]), np.array([[9.0, 8, 0]])
    told = {}
    for share in (0.0, 0.5):
        model = Plda(0.0, share).fit(Items(NONE, features), labels)
        told[share] = model.score(Items(NONE, off))[0] - model.score(Items(NONE, on))[0]
    assert abs(told[0.0]) < 1
    assert told[0.5] > 10
