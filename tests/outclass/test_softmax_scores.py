"""Scores of output activities: by hand, against scipy, and where single precision would lose the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp, softmax
from scipy.stats import entropy as scipy_entropy

from outclass.baselines.contract import Items
from outclass.baselines.softmax_scores import (
    Energy,
    Entropy,
    GeneralisedEntropy,
    MaxLogit,
    MaxSoftmax,
    energy,
    entropy,
    generalised_entropy,
    max_logit,
    max_softmax,
)
from outclass.errors import OutclassError

U = np.log(np.array([[6.0, 3.0, 1.0], [2.0, 2.0, 4.0]]))  # p = (0.6, 0.3, 0.1) and (1/4, 1/4, 1/2)
activities = arrays(np.float64, (4, 6), elements=st.floats(-30, 30))
fixed = settings(derandomize=True, database=None, deadline=None)


def plain_gen(u, gamma, top):
    p = np.sort(softmax(u, axis=1), axis=1)[:, ::-1][:, :top]
    return (p**gamma * (1 - p) ** gamma).sum(axis=1)


def test_by_hand():
    np.testing.assert_allclose(max_softmax(U), [0.4, 0.5])
    np.testing.assert_allclose(max_logit(U), [-np.log(6), -np.log(4)])
    np.testing.assert_allclose(energy(U), [-np.log(10), -np.log(8)])
    # At T = 1/2: exp(2 u) = 36, 9, 1 and 4, 4, 16.
    np.testing.assert_allclose(energy(U, 0.5), [-np.log(46) / 2, -np.log(24) / 2])
    np.testing.assert_allclose(entropy(U)[1], 1.5 * np.log(2))
    # gamma = 1: 0.6 * 0.4 + 0.3 * 0.7 + 0.1 * 0.9 = 0.54, and 3/16 + 3/16 + 1/4 = 5/8; top 2: without the last.
    np.testing.assert_allclose(generalised_entropy(U, 1, 3), [0.54, 0.625])
    np.testing.assert_allclose(generalised_entropy(U, 1, 2), [0.45, 0.4375])
    np.testing.assert_allclose(generalised_entropy(U, 1, 1), [0.24, 0.25])


@fixed
@given(activities)
def test_agreement_with_scipy(u):
    p = softmax(u, axis=1)
    np.testing.assert_allclose(max_softmax(u), 1 - p.max(axis=1), atol=1e-14)
    np.testing.assert_allclose(energy(u, 2.0), -2 * logsumexp(u / 2, axis=1), atol=1e-12)
    np.testing.assert_allclose(entropy(u), scipy_entropy(p, axis=1), atol=1e-12)


@fixed
@given(activities, st.sampled_from([0.1, 0.5, 2.0]), st.integers(1, 8))
def test_generalised_entropy_equals_its_formula(u, gamma, top):
    # 1 - p is rounded in the plain formula, which its root of small order magnifies.
    np.testing.assert_allclose(generalised_entropy(u, gamma, top), plain_gen(u, gamma, top), atol=0.05, rtol=1e-6)
    mild = u / 10
    np.testing.assert_allclose(generalised_entropy(mild, gamma, top), plain_gen(mild, gamma, top), rtol=1e-9)


@fixed
@given(activities, st.floats(-5, 5))
def test_what_a_constant_added_to_all_activities_changes(u, constant):
    for score in (max_softmax, entropy, generalised_entropy):
        np.testing.assert_allclose(score(u + constant), score(u), rtol=1e-6, atol=1e-12)
    for score in (max_logit, energy):
        np.testing.assert_allclose(score(u + constant), score(u) - constant, atol=1e-9)


@pytest.mark.parametrize("score", [max_softmax, entropy, generalised_entropy])
def test_items_of_which_the_network_is_certain_keep_their_order_in_single_precision(score):
    gaps = np.arange(10, 80, 2.5)
    u = np.stack([gaps, np.zeros_like(gaps), -gaps], axis=1).astype(np.float32)
    scores = score(u)
    assert (np.diff(scores) < 0).all()
    assert (scores > 0).all()
    np.testing.assert_allclose(scores, score(u.astype(np.float64)), rtol=1e-4)


@pytest.mark.parametrize("score", [max_softmax, entropy, generalised_entropy])
def test_uniform_is_most_novel_and_one_class_alone_never_is(score):
    rng = np.random.default_rng(0)
    u = np.concatenate([np.zeros((1, 5)), rng.normal(size=(50, 5))])
    assert score(u).argmax() == 0
    np.testing.assert_array_equal(score(rng.normal(size=(3, 1))), 0)


def test_huge_activities_do_not_overflow():
    u = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], np.float32)
    for score in (max_softmax, max_logit, energy, entropy, generalised_entropy):
        assert np.isfinite(score(u)).all()


@pytest.mark.parametrize(
    ("method", "score"),
    [
        (MaxSoftmax(), max_softmax),
        (MaxLogit(), max_logit),
        (Energy(2.0), lambda u: energy(u, 2.0)),
        (Entropy(), entropy),
        (GeneralisedEntropy(0.5, 2), lambda u: generalised_entropy(u, 0.5, 2)),
    ],
)
def test_methods_need_no_features(method, score):
    items = Items(U, np.empty((2, 0)))
    assert method.uses == "confidences"
    np.testing.assert_array_equal(method.fit(items, np.array([0, 2])).score(items, size=3), score(U))


def test_parameters_out_of_range():
    with pytest.raises(OutclassError, match="temperature 0"):
        energy(U, 0)
    with pytest.raises(OutclassError, match=r"gamma 0\.1, top 0"):
        generalised_entropy(U, 0.1, 0)
