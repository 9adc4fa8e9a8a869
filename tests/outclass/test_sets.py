"""Sets of items that share a label: how they are drawn, and means over them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outclass.sets import draw_sets, label_means, random_ranks, set_means

LABELS = st.lists(st.integers(-3, 6), min_size=1, max_size=60).map(np.array)
SEEDS = st.integers(0, 2**32 - 1)


def rng(seed=0):
    return np.random.default_rng(seed)


@given(LABELS, SEEDS)
@settings(deadline=None)
def test_ranks_are_a_permutation_within_each_label(labels, seed):
    ranks = random_ranks(labels, rng(seed))
    for label in np.unique(labels):
        mine = np.sort(ranks[labels == label])
        np.testing.assert_array_equal(mine, np.arange(len(mine)))


def test_ranks_are_random_with_every_item_equally_likely_to_come_first():
    labels = np.array([5, 2, 5, 5, 2])
    firsts = sum(random_ranks(labels, rng(seed)) == 0 for seed in range(300))
    # Three items of label 5: mean 100, standard deviation 8.2. Two of label 2: mean 150, 8.7. Within four of them.
    assert (abs(firsts - [100, 150, 100, 100, 150]) < 34).all()


@given(LABELS, st.integers(1, 6), SEEDS)
@settings(deadline=None)
def test_sets_are_disjoint_share_a_label_and_are_as_many_as_possible(labels, size, seed):
    sets = draw_sets(labels, size, rng(seed))
    assert sets.shape[1] == size
    assert len(np.unique(sets)) == sets.size
    assert (labels[sets] == labels[sets][:, :1]).all()
    for label in np.unique(labels):
        assert (labels[sets][:, 0] == label).sum() == (labels == label).sum() // size


@given(LABELS, st.integers(1, 6), SEEDS)
@settings(deadline=None)
def test_the_same_stream_draws_the_same_sets(labels, size, seed):
    np.testing.assert_array_equal(draw_sets(labels, size, rng(seed)), draw_sets(labels, size, rng(seed)))


def test_sets_of_one_are_all_items():
    assert sorted(draw_sets(np.array([1, 0, 1, 2]), 1, rng()).ravel()) == [0, 1, 2, 3]


def test_no_class_large_enough_gives_no_set():
    assert draw_sets(np.array([0, 1, 2, 0]), 3, rng()).shape == (0, 3)


def test_every_item_may_be_the_one_left_over():
    left_over = np.zeros(3, dtype=int)
    for seed in range(300):
        left_over[list({0, 1, 2} - set(draw_sets(np.zeros(3, dtype=int), 2, rng(seed)).ravel()))] += 1
    # Binomial(300, 1/3): mean 100, standard deviation 8.2; within four of them.
    assert (abs(left_over - 100) < 33).all()


def test_set_mean_by_hand():
    values = np.array([[1.0, 4.0], [3.0, 2.0], [5.0, 0.0]])
    # ((1 + 5) / 2, (4 + 0) / 2) and ((3 + 1) / 2, (2 + 4) / 2)
    np.testing.assert_array_equal(set_means(values, np.array([[0, 2], [1, 0]])), [[3, 2], [2, 3]])


@pytest.mark.parametrize("leading", [(), (3,), (2, 4)])
def test_set_means_equal_brute_force(leading):
    values = rng(1).normal(size=(*leading, 11, 5))
    sets = rng(2).integers(0, 11, size=(7, 3))
    expected = np.empty((*leading, 7, 5))
    for place in np.ndindex(*leading, 7, 5):
        *outer, row, column = place
        expected[place] = sum(values[(*outer, item, column)] for item in sets[row]) / 3
    np.testing.assert_allclose(set_means(values, sets), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("leading", [(), (3,), (2, 4)])
def test_label_means_equal_brute_force(leading):
    values = rng(1).normal(size=(*leading, 12, 5))
    labels = rng(2).permutation([0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3])  # unequal classes, unordered
    expected = np.stack([values[..., labels == label, :].mean(axis=-2) for label in range(4)], axis=-2)
    np.testing.assert_allclose(label_means(values, labels, 4), expected, rtol=1e-12, atol=1e-15)


def test_means_of_single_precision_are_taken_in_double():
    values = np.array([[2**24], [1]], dtype=np.float32)  # 2**24 + 1 does not exist in single precision
    assert set_means(values, np.array([[0, 1]])).item() == 2**23 + 0.5
    assert label_means(values, np.array([0, 0]), 1).item() == 2**23 + 0.5


@given(st.integers(1, 4), st.integers(1, 5), SEEDS)
@settings(deadline=None, max_examples=50)
def test_means_over_whole_classes_are_the_same_both_ways(size, classes, seed):
    labels = rng(seed).permutation(np.repeat(np.arange(classes), size))
    values = rng(seed).normal(size=(2, len(labels), 3))
    sets = draw_sets(labels, size, rng(seed))
    order = np.argsort(labels[sets[:, 0]])
    np.testing.assert_allclose(set_means(values, sets[order]), label_means(values, labels, classes), atol=1e-12)
