"""Distance to the k-th neighbour on the sphere: by hand, against brute force, close by and far away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from outclass.baselines import blocks
from outclass.baselines.contract import Items
from outclass.baselines.deep_knn import DeepKnn, unit_length
from outclass.errors import OutclassError

NONE = np.empty((0, 0))


def scores(k, train, test):
    return DeepKnn(k).fit(Items(NONE, train), np.zeros(len(train), int)).score(Items(NONE, test))


def by_brute_force(k, train, test):
    train, test = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, test))
    return np.sort(cdist(test, train), axis=1)[:, k - 1]


def cloud(n, d=8, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_by_hand():
    train = np.array([[3.0, 0.0], [0.0, 5.0], [-1.0, 0.0]])
    test = np.array([[7.0, 0.0]])  # at 0 from the first, sqrt(2) from the second, 2 from the third
    for k, expected in ((1, 0), (2, 2**0.5), (3, 2)):
        np.testing.assert_allclose(scores(k, train, test), [expected], atol=1e-7)


@pytest.mark.parametrize("k", [1, 3, 40, 450])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agreement_with_brute_force(k, dtype):
    train, test = cloud(900).astype(dtype), cloud(15, seed=1).astype(dtype)
    np.testing.assert_allclose(scores(k, train, test), by_brute_force(k, train, test), rtol=1e-5)


@pytest.mark.parametrize("step", [1e-2, 1e-3, 1e-4])
def test_neighbours_close_by_keep_their_distance(step):
    train = cloud(30)
    test = train + step * cloud(30, seed=1)
    np.testing.assert_allclose(scores(1, train, test), by_brute_force(1, train, test), rtol=1e-2 * 1e-3 / step)


def test_duplicates_are_at_distance_zero():
    train = np.concatenate([cloud(20, 100), cloud(5, 100)])
    ours = scores(2, train, cloud(20, 100))
    np.testing.assert_array_equal(ours[:5], 0)
    assert (ours[5:] > 0.5).all()


@settings(derandomize=True, database=None, deadline=None, max_examples=25)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_scale_does_not_matter(one, other):
    plain = scores(3, cloud(20), cloud(9, seed=1))
    np.testing.assert_allclose(scores(3, one * cloud(20), other * cloud(9, seed=1)), plain, rtol=1e-5)


def test_blocks_equal_the_whole(monkeypatch):
    train, test = cloud(20), cloud(33, seed=1)
    whole = scores(3, train, test)
    monkeypatch.setattr(blocks, "BLOCK", 100)  # five rows of products
    np.testing.assert_allclose(scores(3, train, test), whole, rtol=1e-6)


def test_what_is_given_is_not_changed():
    train = cloud(20).astype(np.float32)
    before = train.copy()
    scores(1, train, train)
    np.testing.assert_array_equal(train, before)


def test_vectors_of_zeros_stay():
    np.testing.assert_array_equal(unit_length(np.array([[0.0, 0.0], [3.0, 4.0]])), np.array([[0, 0], [0.6, 0.8]], "f4"))
    np.testing.assert_allclose(scores(1, cloud(5), np.zeros((1, 8))), 2**0.5)  # at a right angle to all


@pytest.mark.parametrize("k", [0, 6])
def test_more_neighbours_than_items(k):
    with pytest.raises(OutclassError, match=f"neighbour {k} of deep-knn: there are 5 train items"):
        scores(k, cloud(5), cloud(2))
