"""ROC, AUC and EER by hand, against scikit-learn and against brute force, with few and with many ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.metrics import roc_auc_score

from outclass.errors import OutclassError
from outclass.metrics import auc, eer, mean_roc, roc


@st.composite
def scored(draw):
    """Scores with the labels of both kinds, from few distinct values (many ties) to many."""
    score = st.integers(0, draw(st.sampled_from([1, 3, 10, 1000]))).map(float)
    novel = draw(st.lists(score, min_size=1, max_size=25))
    known = draw(st.lists(score, min_size=1, max_size=25))
    order = np.random.default_rng(draw(st.integers(0, 100))).permutation(len(novel) + len(known))
    return np.array(novel + known)[order], (np.arange(len(order)) < len(novel))[order]


def curve_by_thresholds(scores, novel):
    """The vertices of the ROC curve from its definition: the shares at or above each threshold."""
    thresholds = [np.inf, *sorted(set(scores), reverse=True)]
    fpr = [np.mean(scores[~novel] >= threshold) for threshold in thresholds]
    tpr = [np.mean(scores[novel] >= threshold) for threshold in thresholds]
    return np.array(fpr), np.array(tpr)


def eer_by_root_finding(scores, novel):
    fpr, tpr = curve_by_thresholds(scores, novel)
    places = np.arange(len(fpr))

    def false_alarms_minus_misses(place):
        return np.interp(place, places, fpr) - (1 - np.interp(place, places, tpr))

    return np.interp(brentq(false_alarms_minus_misses, 0, len(fpr) - 1, xtol=1e-13), places, fpr)


def highest_on_curve(x, fpr, tpr):
    """The highest point of a piecewise linear curve at x, segment by segment."""
    heights = []
    for x0, x1, y0, y1 in zip(fpr[:-1], fpr[1:], tpr[:-1], tpr[1:], strict=True):
        if x0 - 1e-12 <= x <= x1 + 1e-12:
            heights.append(max(y0, y1) if x1 - x0 < 1e-12 else y0 + (y1 - y0) * (x - x0) / (x1 - x0))
    return max(heights)


def both(scores, novel):
    curve = roc(np.asarray(scores, dtype=float), np.asarray(novel, dtype=bool))
    return auc(*curve), eer(*curve)


def test_by_hand_with_a_tie():
    fpr, tpr = roc(np.array([2.0, 3.0, 1.0, 2.0]), np.array([True, True, False, False]))
    # Above 2: one novel of two. At 2: the other novel and one known of two. At 1: the other known.
    assert fpr.tolist() == [0, 0, 0.5, 1]
    assert tpr.tolist() == [0, 0.5, 1, 1]
    # Pairs (novel, known): 3 > 1, 3 > 2 and 2 > 1 are right and 2 = 2 is half: 3.5 of 4.
    assert auc(fpr, tpr) == pytest.approx(3.5 / 4)
    # From (0, 0.5) to (0.5, 1): false alarms t / 2 meet misses (1 - t) / 2 at t = 1/2.
    assert eer(fpr, tpr) == pytest.approx(0.25)


def test_eer_by_hand_between_two_vertices():
    # Vertices (0, 0), (0, 1/3), (1/2, 1/3), (1/2, 1), (1, 1). On the upright from (1/2, 1/3) to (1/2, 1) the
    # misses fall from 2/3 to 0 and pass 1/2, the false alarms there.
    assert both([5, 4, 3, 2.5, 1], [1, 0, 1, 1, 0])[1] == pytest.approx(0.5)


def test_eer_by_hand_exactly_at_a_vertex():
    # Vertices (0, 0), (0, 1/2), (1/2, 1/2), (1/2, 1), (1, 1): at the third, misses and false alarms are both 1/2.
    assert both([4, 3, 2, 1], [1, 0, 1, 0])[1] == pytest.approx(0.5)


def test_eer_by_hand_where_the_nearest_vertex_is_wrong():
    # Counts 1 and 0: novel 1, 1, 0, known 1, 0, 0, 0. Vertices (0, 0), (1/4, 2/3), (1, 1). On the last segment
    # false alarms 1/4 + 3t/4 meet misses 1/3 - t/3 at t = (1/12) / (13/12) = 1/13, so 1/4 + 3/52 = 4/13.
    assert both([1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0])[1] == pytest.approx(4 / 13)


def test_perfect_separation():
    assert both([1, 2, 3, 4], [0, 0, 1, 1]) == (1.0, 0.0)


def test_perfectly_wrong():
    assert both([1, 2, 3, 4], [1, 1, 0, 0]) == (0.0, 1.0)


def test_equal_scores_are_chance():
    assert both([7, 7, 7, 7, 7], [1, 0, 0, 0, 1]) == (0.5, 0.5)


@given(scored())
@settings(deadline=None)
def test_the_curve_has_a_vertex_at_each_distinct_score_only(sample):
    fpr, tpr = roc(*sample)
    expected_fpr, expected_tpr = curve_by_thresholds(*sample)
    np.testing.assert_allclose(fpr, expected_fpr, atol=1e-15)
    np.testing.assert_allclose(tpr, expected_tpr, atol=1e-15)


@given(scored())
@settings(deadline=None)
def test_auc_is_the_share_of_pairs_in_the_right_order(sample):
    scores, novel = sample
    pairs = scores[novel][:, None] - scores[~novel]
    assert auc(*roc(*sample)) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean(), abs=1e-12)


@given(scored())
@settings(deadline=None)
def test_auc_equals_scikit_learns(sample):
    scores, novel = sample
    assert auc(*roc(*sample)) == pytest.approx(roc_auc_score(novel, scores), abs=1e-12)


@given(scored())
@settings(deadline=None)
def test_eer_equals_the_root_on_the_curve(sample):
    assert eer(*roc(*sample)) == pytest.approx(eer_by_root_finding(*sample), abs=1e-9)


@given(scored())
@settings(deadline=None)
def test_a_monotone_transform_changes_nothing(sample):
    scores, novel = sample
    assert both(scores**3 / 7 - 5, novel) == both(scores, novel)


@given(scored(), st.integers(0, 100))
@settings(deadline=None)
def test_the_order_of_the_sets_changes_nothing(sample, seed):
    scores, novel = sample
    order = np.random.default_rng(seed).permutation(len(scores))
    assert both(scores[order], novel[order]) == both(scores, novel)


@given(scored())
@settings(deadline=None)
def test_reversed_scores_give_the_rest_to_one(sample):
    scores, novel = sample
    assert both(-scores, novel) == pytest.approx([1 - value for value in both(scores, novel)], abs=1e-12)


@given(scored())
@settings(deadline=None)
def test_calling_the_other_side_novel_and_reversing_the_scores_changes_nothing(sample):
    scores, novel = sample
    assert both(-scores, ~novel) == pytest.approx(both(scores, novel), abs=1e-12)


@pytest.mark.parametrize("novel", [[False, False], [True, True], []])
def test_one_kind_alone_is_refused(novel):
    with pytest.raises(OutclassError, match="both novel and known"):
        roc(np.arange(len(novel), dtype=float), np.array(novel, dtype=bool))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    with pytest.raises(OutclassError, match="finite"):
        roc(np.array([1.0, bad]), np.array([True, False]))


def test_inputs_are_left_as_they_were():
    scores, novel = np.array([1.0, 3.0, 2.0]), np.array([True, False, True])
    roc(scores, novel)
    assert (scores.tolist(), novel.tolist()) == ([1, 3, 2], [True, False, True])


def test_mean_roc_by_hand():
    perfect = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    chance = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    grid, mean = mean_roc([perfect, chance], points=5)
    assert grid.tolist() == [0, 0.25, 0.5, 0.75, 1]
    # (1 + x) / 2, but 0 at 0, where both curves start.
    assert mean.tolist() == [0, 0.625, 0.75, 0.875, 1]


@given(scored())
@settings(deadline=None, max_examples=50)
def test_mean_roc_of_one_curve_is_that_curve(sample):
    fpr, tpr = roc(*sample)
    grid, mean = mean_roc([(fpr, tpr)], points=41)
    expected = [0.0] + [highest_on_curve(x, fpr, tpr) for x in grid[1:]]
    np.testing.assert_allclose(mean, expected, atol=1e-9)


@pytest.mark.parametrize("known", [5, 10, 20, 40, 100, 200])
def test_uprights_on_grid_points_count_with_their_upper_end(known):
    # A staircase: each known set is followed by a novel one with the next lower score.
    fpr, tpr = roc(np.arange(2 * known, 0.0, -1.0), np.arange(2 * known) % 2 == 1)
    _, mean = mean_roc([(fpr, tpr)])
    steps = np.arange(1, known + 1)
    np.testing.assert_allclose(mean[steps * (200 // known)], steps / known, atol=1e-12)


@given(st.lists(scored(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
def test_mean_roc_rises_from_corner_to_corner(samples):
    grid, mean = mean_roc([roc(*sample) for sample in samples])
    assert len(grid) == 201
    assert (mean[0], mean[-1]) == (0, pytest.approx(1))
    assert (np.diff(mean) >= -1e-12).all()
