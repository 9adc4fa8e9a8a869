"""Eq. 1-4 of the paper, worked by hand and as properties."""

from math import e, log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from outclass.confidence import LARGEST_RATIO, as_confidence, softmax, summarise, theta, undefined_ratio
from outclass.sets import label_means, set_means

KINDS = ("difference", "ratio", "log_ratio")
# Whole numbers: sums and differences are exact, so that invariances hold to the last bit.
VECTORS = st.lists(st.integers(-50, 50), min_size=3, max_size=7).map(lambda entries: np.array(entries, dtype=float))
LOGITS = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, min_side=1, max_side=5), elements=st.floats(-1e4, 1e4))


def theta_of(means, kind):
    summary = summarise(np.asarray(means, dtype=float))
    return theta(summary.first, summary.second, summary.lowest, kind)


def undefined(means):
    summary = summarise(np.asarray(means, dtype=float))
    return undefined_ratio(summary.first, summary.second, summary.lowest)


def test_equations_1_to_3_by_hand():
    u = np.array([[1.0, 4.0, 0.0], [3.0, 2.0, 1.0]])
    summary = summarise(set_means(u, np.array([[0, 1]])))
    # The mean is ((1 + 3) / 2, (4 + 2) / 2, (0 + 1) / 2) = (2, 3, 0.5); sorted: 3, 2, 0.5.
    assert summary.top.tolist() == [1]
    assert summary.first.tolist() == [3.0]
    assert summary.second.tolist() == [2.0]
    assert summary.lowest.tolist() == [0.5]
    assert summary.energy == pytest.approx([log(e**2 + e**3 + e**0.5)])
    assert theta(*summary[1:4], kind="ratio") == pytest.approx([3 / 2])
    assert theta(*summary[1:4], kind="difference") == pytest.approx([3 - 2])
    assert theta(*summary[1:4], kind="log_ratio") == pytest.approx([log(1.5)])


def test_the_class_of_a_set_is_that_of_its_mean_and_not_the_majoritys():
    u = np.array([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 9.0, 0.0]])
    # Two of three items choose class 0, but the mean is (4/3, 11/3, 0).
    assert summarise(set_means(u, np.array([[0, 1, 2]]))).top.tolist() == [1]


def test_equation_4_by_hand():
    u = np.array([[6.0, 1.0, 2.0], [1.0, 5.0, 0.0], [2.0, 3.0, 0.0], [3.0, 7.0, 3.0], [1.0, 2.0, 1.0]])
    labels = np.array([0, 1, 0, 1, 0])
    # Class 0: ((6 + 2 + 1) / 3, (1 + 3 + 2) / 3, (2 + 0 + 1) / 3) = (3, 2, 1), so 3 / 2.
    # Class 1: ((1 + 3) / 2, (5 + 7) / 2, (0 + 3) / 2) = (2, 6, 1.5), so 6 / 2.
    means = label_means(u, labels, 2)
    assert summarise(means).top.tolist() == [0, 1]
    assert theta_of(means, "ratio") == pytest.approx([1.5, 3.0])
    assert theta_of(means, "difference") == pytest.approx([1.0, 4.0])


def test_theta_i_is_of_the_two_best_classes_even_where_the_label_is_not_the_best():
    u = np.array([[1.0, 4.0, 2.0], [1.0, 4.0, 2.0]])
    assert theta_of(label_means(u, np.array([0, 0]), 1), "ratio") == pytest.approx([4 / 2])


@pytest.mark.parametrize(
    ("means", "ratio"),
    [
        ([-1.0, 3.0, 1.0, 0.0], 4 / 2),  # shifted by 1: 4 over 2
        ([-4.0, -2.0, -3.0], 2 / 1),  # shifted by 4: 2 over 1
        ([5.0, 2.0, 1.0], 5 / 2),  # nothing negative: as printed
        ([4.0, 2.0, 0.0], 4 / 2),
    ],
)
def test_negative_activations_are_shifted_by_the_lowest(means, ratio):
    assert theta_of(means, "ratio") == pytest.approx(ratio)
    assert theta_of(means, "log_ratio") == pytest.approx(log(ratio))


def test_the_shift_is_taken_after_the_mean_of_the_set():
    u = np.array([[-2.0, 6.0, 2.0], [4.0, 2.0, 2.0]])  # the mean is (1, 4, 2): nothing negative
    assert theta_of(set_means(u, np.array([[0, 1]])), "ratio") == pytest.approx([2.0])


@pytest.mark.parametrize("means", [[0.0, 0.0, 0.0], [-2.0, -2.0, -2.0]])
def test_zero_over_zero_is_one_and_is_counted(means):
    assert theta_of(means, "ratio") == 1.0
    assert theta_of(means, "log_ratio") == 0.0
    assert undefined(means)


@pytest.mark.parametrize("means", [[3.0, 0.0, 0.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0], [4.0, -1.0, -1.0]])
def test_other_ratios_are_not_counted_as_undefined(means):
    assert not undefined(means)


def test_undefined_ratios_are_counted_set_by_set():
    assert undefined([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, -1.0, -1.0]]).tolist() == [True, False, True]


def test_something_over_zero_is_the_largest_ratio():
    assert theta_of([3.0, 0.0, 0.0], "ratio") == LARGEST_RATIO
    assert theta_of([4.0, -1.0, -1.0], "ratio") == LARGEST_RATIO
    assert theta_of([3.0, 0.0, 0.0], "log_ratio") == pytest.approx(log(LARGEST_RATIO))


def test_no_ratio_is_larger_than_something_over_zero():
    assert theta_of([1.0, 1e-9, 0.0], "ratio") == LARGEST_RATIO
    assert theta_of([1.0, 1e-5, 0.0], "ratio") == pytest.approx(1e5)


@given(hnp.arrays(np.float64, (2, 3, 5), elements=st.floats(-100, 100)))
@settings(deadline=None)
def test_summary_equals_brute_force_for_any_leading_dimensions(means):
    summary = summarise(means)
    ordered = np.sort(means, axis=-1)
    np.testing.assert_array_equal(summary.first, ordered[..., -1])
    np.testing.assert_array_equal(summary.second, ordered[..., -2])
    np.testing.assert_array_equal(summary.lowest, ordered[..., 0])
    np.testing.assert_array_equal(np.take_along_axis(means, summary.top[..., None], -1)[..., 0], ordered[..., -1])
    np.testing.assert_allclose(summary.energy, np.log(np.exp(means).sum(axis=-1)), atol=1e-9)


def test_energy_does_not_overflow():
    assert summarise(np.array([1000.0, 1000.0])).energy == pytest.approx(1000 + log(2))


@pytest.mark.parametrize("kind", KINDS)
@given(means=VECTORS, seed=st.integers(0, 1000))
@settings(deadline=None)
def test_the_order_of_the_classes_does_not_matter(kind, means, seed):
    shuffled = np.random.default_rng(seed).permutation(means)
    assert theta_of(shuffled, kind) == theta_of(means, kind)


@given(VECTORS, st.integers(-100, 100))
@settings(deadline=None)
def test_the_difference_does_not_change_when_a_constant_is_added(means, constant):
    assert theta_of(means + constant, "difference") == theta_of(means, "difference")


@given(VECTORS, st.integers(0, 100))
@settings(deadline=None)
def test_the_ratio_does_not_change_when_a_constant_is_taken_from_negative_entries(means, constant):
    assume(means.min() <= 0)
    assert theta_of(means - constant, "ratio") == theta_of(means, "ratio")


@given(VECTORS)
@settings(deadline=None)
def test_the_ratio_does_not_depend_on_the_scale(means):
    assert theta_of(means * 8, "ratio") == theta_of(means, "ratio")


@given(VECTORS)
@settings(deadline=None)
def test_the_ratio_lies_between_one_and_the_largest(means):
    assert 1 <= theta_of(means, "ratio") <= LARGEST_RATIO
    assert theta_of(means, "log_ratio") == pytest.approx(np.log(theta_of(means, "ratio")))


@pytest.mark.parametrize("kind", KINDS)
@given(means=VECTORS, by=st.integers(0, 20))
@settings(deadline=None)
def test_theta_never_falls_as_the_best_class_rises(kind, means, by):
    raised = means.copy()
    raised[means.argmax()] += by
    assume((raised.min() == means.min()) and undefined(means) == undefined(raised))
    assert theta_of(raised, kind) >= theta_of(means, kind)


@pytest.mark.parametrize("kind", KINDS)
@given(ordered=st.lists(st.integers(-50, 50), min_size=4, max_size=4).map(sorted))
@settings(deadline=None)
def test_theta_never_rises_as_the_second_class_rises(kind, ordered):
    lowest, lower, higher, first = (np.float64(entry) for entry in ordered)
    assert theta(first, higher, lowest, kind) <= theta(first, lower, lowest, kind)


def test_theta_keeps_the_shape_of_its_input():
    means = np.random.default_rng(0).normal(size=(2, 3, 5))
    for kind in KINDS:
        assert theta_of(means, kind).shape == (2, 3)
        assert theta_of(means, kind)[1, 2] == theta_of(means[1, 2], kind)


def test_softmax_by_hand():
    # exp of (0, ln 2, ln 5) is (1, 2, 5), which sums to 8.
    np.testing.assert_allclose(softmax(np.log([1.0, 2.0, 5.0])), [1 / 8, 2 / 8, 5 / 8], rtol=1e-15)


@given(LOGITS)
@settings(deadline=None)
def test_softmax_sums_to_one_without_overflow(activations):
    probabilities = softmax(activations)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, rtol=1e-12)


@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(-20, 20)), st.floats(-500, 500))
@settings(deadline=None)
def test_softmax_does_not_change_when_a_constant_is_added(activations, constant):
    np.testing.assert_allclose(softmax(activations + constant), softmax(activations), rtol=1e-9, atol=1e-15)


def test_softmax_of_single_precision_is_double():
    probabilities = softmax(np.array([[3e38, 0.0], [0.0, 0.0]], dtype=np.float32))
    assert probabilities.dtype == np.float64
    np.testing.assert_array_equal(probabilities, [[1, 0], [0.5, 0.5]])


def test_an_absent_class_has_no_probability():
    np.testing.assert_array_equal(softmax(np.array([1.0, -np.inf, 1.0])), [0.5, 0, 0.5])


def test_confidence_is_the_activation_itself_or_its_softmax():
    activations = np.log([[1.0, 3.0], [2.0, 2.0]])
    np.testing.assert_array_equal(as_confidence(activations, "activation"), activations)
    np.testing.assert_allclose(as_confidence(activations, "softmax"), [[0.25, 0.75], [0.5, 0.5]])
