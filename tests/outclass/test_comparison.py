import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from outclass.comparison import paired_difference, ranks

checks = settings(derandomize=True, database=None, deadline=None)
measures = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=12)


class TestPairedDifference:
    def test_by_hand(self):
        """Differences 1, 2, 3: mean 2, deviation 1, error 1 / sqrt 3, and t with 2 degrees of freedom is 4.3027."""
        found = paired_difference(np.array([71.0, 82.0, 63.0]), np.array([70.0, 80.0, 60.0]))
        reach = 4.302653 / np.sqrt(3)
        assert found == pytest.approx((2.0, 2 - reach, 2 + reach, 3), abs=1e-6)

    def test_a_single_run_has_no_interval(self):
        mean, low, high, runs = paired_difference(np.array([71.0]), np.array([70.0]))
        assert (mean, runs) == (1.0, 1)
        assert np.isnan([low, high]).all()

    def test_a_constant_lead_is_certain_however_much_the_runs_differ(self):
        theirs = np.array([50.0, 70.0, 90.0])
        assert paired_difference(theirs + 1, theirs) == pytest.approx((1, 1, 1, 3))

    @checks
    @given(measures)
    def test_agrees_with_scipy(self, pairs):
        ours, theirs = np.array(pairs, dtype=float).T
        found = paired_difference(ours, theirs, 0.9)
        if np.ptp(ours - theirs) > 0:
            expected = ttest_rel(ours, theirs).confidence_interval(0.9)
            assert (found.low, found.high) == pytest.approx((expected.low, expected.high))

    @checks
    @given(measures)
    def test_turned_round_is_the_same_with_the_other_sign(self, pairs):
        ours, theirs = np.array(pairs, dtype=float).T
        one, other = paired_difference(ours, theirs), paired_difference(theirs, ours)
        assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))


class TestRanks:
    def test_by_hand_with_ties_that_share(self):
        """Run 1: a before b = c (ranks 1, 2.5, 2.5). Run 2: c before a = b (2.5, 2.5, 1)."""
        found = ranks(np.array([[90.0, 70.0], [80.0, 70.0], [80.0, 75.0]]))
        np.testing.assert_allclose(found.mean, [1.75, 2.5, 1.75])
        np.testing.assert_array_equal(found.best, [1, 0, 1])

    def test_equals_are_all_best(self):
        np.testing.assert_array_equal(ranks(np.array([[50.0], [50.0]])).best, [1, 1])

    def test_rounding_is_no_difference(self):
        found = ranks(np.array([[0.3 * 100], [(0.1 + 0.2) * 100]]))
        np.testing.assert_array_equal(found.mean, [1.5, 1.5])
        np.testing.assert_array_equal(found.best, [1, 1])

    @checks
    @given(measures)
    def test_ranks_of_a_run_add_up(self, pairs):
        found = ranks(np.array(pairs, dtype=float))
        count = len(pairs)
        assert found.mean.sum() == pytest.approx(count * (count + 1) / 2)
        assert found.best.sum() >= 2
