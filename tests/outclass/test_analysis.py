import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ks_2samp
from sklearn.metrics import roc_auc_score

from outclass.analysis import (
    Errors,
    Expected,
    auc_by_partitions,
    auc_of_counts,
    bounded_errors,
    chernoff_bound,
    distance,
    expected_by_rates,
    expected_by_votes,
    independent_votes,
    ladder,
    likeness_to_novel,
    observed_errors,
)

checks = settings(derandomize=True, database=None, deadline=None, max_examples=50)


class TestExpectedCount:
    def test_under_the_simplification_by_hand(self):
        """Three classes, two partitions: class 0 is presumed novel in the first, class 1 in the second.

        psi of class 0: 0.8 + 0.2 = 1.0; of class 1: 0.1 + 0.6 = 0.7; of class 2: 0.1 + 0.2 = 0.3. Mean 2/3.
        """
        found = expected_by_rates(np.array([0.8, 0.6]), np.array([0.1, 0.2]), presumed_novel=1 / 3)
        assert (found.known, found.novel) == pytest.approx((2 / 3, 1.4))
        assert found.threshold == pytest.approx((2 / 3 + 1.4) / 2)

    def test_by_votes_is_the_mean_count(self):
        votes = np.array([[True, False, True], [True, False, False]])
        found = expected_by_votes(votes, np.array([True, False, False]))
        assert (found.known, found.novel) == (0.5, 2.0)


class TestBound:
    def test_is_equation_5_with_the_delta_that_reaches_the_threshold(self):
        mean, delta = 4.0, 0.5
        assert chernoff_bound(mean, 6.0) == pytest.approx((math.exp(delta) / (1 + delta) ** (1 + delta)) ** mean)

    def test_is_equation_6_with_the_delta_that_reaches_the_threshold(self):
        mean, delta = 8.0, 0.25
        assert chernoff_bound(mean, 6.0) == pytest.approx((math.exp(-delta) / (1 - delta) ** (1 - delta)) ** mean)

    def test_says_nothing_at_the_mean_and_everything_of_a_count_that_is_never_above_zero(self):
        assert chernoff_bound(3.0, 3.0) == 1.0
        assert chernoff_bound(0.0, 2.0) == 0.0

    @checks
    @given(st.integers(1, 60), st.floats(0.02, 0.98), st.floats(0.05, 0.95))
    def test_holds_for_independent_votes(self, count, rate, share):
        mean, threshold = count * rate, count * share
        counts = np.arange(count + 1)
        beyond = counts >= threshold if threshold >= mean else counts <= threshold
        assert binom.pmf(counts[beyond], count, rate).sum() <= chernoff_bound(mean, threshold) + 1e-12

    def test_of_both_sides_meets_half_way(self):
        found = bounded_errors(Expected(known=4.0, novel=12.0))
        assert found.known == pytest.approx(math.exp(4) * 0.5**8)
        assert found.novel == pytest.approx(math.exp(-4) * 1.5**8)

    @pytest.mark.parametrize("novel", [3.0, 2.0, 0.0])
    def test_allows_any_error_where_novel_sets_get_no_more_votes(self, novel):
        assert bounded_errors(Expected(3.0, novel)) == Errors(1.0, 1.0)


def test_observed_errors_by_hand():
    """Known sets count 0, 2, 3 and novel ones 1, 2: at a threshold of 2, two false alarms of 3 and one miss of 2."""
    found = observed_errors(np.array([0, 2, 3, 1, 2]), np.array([False, False, False, True, True]), 2.0)
    assert (found.known, found.novel) == pytest.approx((2 / 3, 1 / 2))


class TestIndependentVotes:
    def test_copies_of_one_vote_are_worth_one(self):
        vote = np.array([True, False, False, True, False])
        assert independent_votes(np.tile(vote, (7, 1))) == pytest.approx(1.0)

    def test_all_combinations_equally_often_are_worth_all(self):
        table = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=bool).T
        assert independent_votes(table) == pytest.approx(3.0)

    def test_votes_that_never_differ_count_in_full(self):
        assert independent_votes(np.zeros((4, 5), dtype=bool)) == 4.0


class TestDistance:
    def test_by_hand(self):
        """Up to 2, three of four on one side but one of two on the other; up to 1, two of four and none: 1/2."""
        assert distance(np.array([0.0, 1.0, 2.0, 5.0]), np.array([2.0, 6.0])) == pytest.approx(0.5)

    @checks
    @given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.lists(st.integers(0, 9), min_size=1, max_size=30))
    def test_is_the_largest_gap_of_the_distributions_ties_included(self, one, other):
        one, other = np.array(one, dtype=float), np.array(other, dtype=float)
        gaps = [abs(np.mean(one <= x) - np.mean(other <= x)) for x in range(10)]
        assert distance(one, other) == pytest.approx(max(gaps))

    def test_agrees_with_scipy(self):
        one, other = np.random.default_rng(0).normal(size=(2, 50))
        assert distance(one, other) == pytest.approx(ks_2samp(one, other).statistic)

    def test_likeness_compares_each_partitions_own_theta_with_that_of_novel_sets(self):
        """Sets of classes 0, 0, 1, 1 and two novel ones. Partition 0 presumes class 0 novel, partition 1 class 1."""
        labels = np.array([0, 0, 1, 1, -1, -1])
        presumed_novel = np.array([[True, False], [False, True]])
        theta = np.array([[1.0, 2.0, 8.0, 9.0, 1.0, 2.0], [1.0, 9.0, 3.0, 4.0, 1.0, 2.0]])
        near, far = likeness_to_novel(theta, labels, presumed_novel)
        np.testing.assert_allclose(near, [0.0, 1.0])
        np.testing.assert_allclose(far, [1.0, 0.5])

    def test_likeness_without_sets_to_compare_is_unknown(self):
        near, far = likeness_to_novel(np.ones((1, 2)), np.array([0, -1]), np.array([[False]]))
        assert np.isnan(near).all()
        assert far == [0.0]


class TestPartitions:
    @pytest.mark.parametrize(
        ("largest", "steps"),
        [(1, [1]), (4, [1, 2, 3, 4]), (20, [1, 2, 3, 5, 10, 20]), (27, [1, 2, 3, 5, 10, 20, 27])],
    )
    def test_ladder(self, largest, steps):
        assert ladder(largest) == steps

    @checks
    @given(st.lists(st.tuples(st.booleans(), *[st.integers(0, 4)] * 3), min_size=2, max_size=40))
    def test_auc_of_counts_agrees_with_scikit_learn(self, rows):
        novel, *counts = map(np.array, zip(*rows, strict=True))
        if 0 < novel.sum() < len(novel):
            expected = [roc_auc_score(novel, row) for row in counts]
            np.testing.assert_allclose(auc_of_counts(np.array(counts), novel), expected)

    def test_all_partitions_give_the_whole_count_and_one_its_own_vote(self):
        rng = np.random.default_rng(0)
        novel = np.arange(60) < 20
        votes = rng.random((6, 60)) < np.where(novel, 0.7, 0.3)
        found = auc_by_partitions(votes, novel, [1, 6], 30, np.random.default_rng(1))
        assert found.shape == (2, 30)
        np.testing.assert_allclose(found[1], roc_auc_score(novel, votes.sum(axis=0)))
        singles = {round(roc_auc_score(novel, vote), 9) for vote in votes}
        assert {round(a, 9) for a in found[0]} == singles  # 30 draws of 6: every one was met

    def test_is_the_same_for_the_same_stream(self):
        votes = np.random.default_rng(0).random((5, 40)) < 0.5
        first, second = (auc_by_partitions(votes, np.arange(40) < 9, [2, 3], 4, np.random.default_rng(3)) for _ in "ab")
        np.testing.assert_array_equal(first, second)
