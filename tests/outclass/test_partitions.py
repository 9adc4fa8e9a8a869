"""Balanced subsets of classes: the promises of ``balanced_subsets``, and the paper's own numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outclass.errors import OutclassError
from outclass.partitions import balanced_subsets

PAPER = pytest.mark.parametrize(
    ("classes", "size", "count"),
    [(100, 11, 11), (89, 11, 27), (250, 26, 10), (224, 24, 40)],
    ids=["Cifar-100 folds", "Cifar-100 partitions", "Caltech-256 folds", "Caltech-256 partitions"],
)


@st.composite
def requests(draw):
    classes = draw(st.integers(2, 40))
    return classes, draw(st.integers(1, classes - 1)), draw(st.integers(1, 30)), draw(st.integers(0, 2**32 - 1))


def draw_subsets(classes, size, count, seed=0):
    return balanced_subsets(classes, size, count, np.random.default_rng(seed))


@given(requests())
@settings(deadline=None)
def test_every_row_has_the_asked_size(request):
    classes, size, count, _ = request
    subsets = draw_subsets(*request)
    assert subsets.shape == (count, classes)
    assert subsets.dtype == bool
    assert (subsets.sum(axis=1) == size).all()


@given(requests())
@settings(deadline=None)
def test_counts_differ_by_at_most_one_after_every_row(request):
    taken = draw_subsets(*request).cumsum(axis=0)
    assert (taken.max(axis=1) - taken.min(axis=1) <= 1).all()


@given(requests())
@settings(deadline=None)
def test_every_class_is_taken_as_soon_as_the_rows_have_room_for_all(request):
    classes, size, count, _ = request
    subsets = draw_subsets(*request)
    assert subsets.any(axis=0).sum() == min(classes, count * size)


@given(requests(), st.integers(1, 10))
@settings(deadline=None)
def test_a_larger_count_only_adds_rows(request, more):
    classes, size, count, seed = request
    longer = draw_subsets(classes, size, count + more, seed)
    np.testing.assert_array_equal(longer[:count], draw_subsets(*request))


@given(requests())
@settings(deadline=None)
def test_the_same_stream_gives_the_same_subsets(request):
    np.testing.assert_array_equal(draw_subsets(*request), draw_subsets(*request))


@PAPER
def test_the_papers_protocols_cover_every_class_evenly(classes, size, count):
    subsets = draw_subsets(classes, size, count)
    times = subsets.sum(axis=0)
    # E.g. 11 folds of 11 out of 100 classes: 121 places, so 21 classes twice and 79 once.
    once_more = count * size % classes
    assert (subsets.sum(axis=1) == size).all()
    assert np.unique(times).tolist() == [count * size // classes, count * size // classes + 1]
    assert (times == times.max()).sum() == once_more


@PAPER
def test_the_papers_partitions_all_differ(classes, size, count):
    assert len(np.unique(draw_subsets(classes, size, count), axis=0)) == count


def test_each_class_is_equally_likely_to_come_first():
    first = sum(draw_subsets(4, 1, 1, seed) for seed in range(400))[0]
    # Binomial(400, 1/4): mean 100, standard deviation 8.7; within four of them.
    assert (abs(first - 100) < 35).all()


def test_a_second_round_is_drawn_anew_and_does_not_repeat_the_first():
    # 2 rows of 3 use up 6 classes; rows 2 and 3 are a fresh draw, equal to row 0 in 1 of 20 cases only.
    repeats = [bool((rows[2] == rows[0]).all()) for rows in (draw_subsets(6, 3, 4, seed) for seed in range(100))]
    assert sum(repeats) < 20


@pytest.mark.parametrize("size", [0, -1, 5, 6])
def test_a_subset_must_leave_at_least_one_class_on_either_side(size):
    with pytest.raises(OutclassError, match=f"{size} of 5 classes"):
        draw_subsets(5, size, 1)


def test_one_class_may_be_all_that_stays_known():
    assert draw_subsets(5, 4, 3).sum(axis=1).tolist() == [4, 4, 4]
