"""Hyper-parameters are chosen on presumed-novel classes alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from outclass.baselines import registry
from outclass.baselines.contract import Items
from outclass.baselines.registry import Candidate, candidates
from outclass.errors import OutclassError
from outclass.tuning import Trial, best, trial_areas, tune

BOTH_WAYS = [("mean-score", 1), ("mean-vector", 1)]


@pytest.mark.parametrize(
    ("areas", "expected"),
    [
        ([[0.6, 0.6], [0.9, 0.2], [0.7, 0.6]], 2),  # means 0.6, 0.55, 0.65
        ([[0.5, 0.7], [0.7, 0.5], [0.6, 0.6]], 0),  # all 0.6: the first
        ([[0.4, 0.4], [0.1 + 0.2, 0.7], [0.3, 0.7]], 1),  # 0.1 + 0.2 is not 0.3, but that is rounding
        ([[0.4, 0.4], [0.3, 0.7], [0.1 + 0.2, 0.7]], 1),
        ([[0.1]], 0),
    ],
)
def test_the_best_mean_is_taken_and_the_first_of_equals(areas, expected):
    assert best(np.array(areas)) == expected


@settings(derandomize=True, database=None, deadline=None)
@given(arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.sampled_from([0.25, 0.5, 0.75, 1.0])))
def test_nobody_is_better_and_nobody_before_is_as_good(areas):
    row, means = best(areas), areas.mean(axis=1)
    assert (means <= means[row]).all()
    assert (means[:row] < means[row]).all()


@dataclass
class Column:
    """Its score is one of the features; it counts how often it is fitted."""

    column: int = 0
    name: ClassVar[str] = "column"
    uses: ClassVar[str] = "features"
    fits: ClassVar[list[int]] = []

    def fit(self, items, labels):
        if self.column >= items.features.shape[1]:
            raise OutclassError(f"there is no column {self.column}")
        self.fits.append(self.column)
        return self

    def score(self, items, size=1):
        return np.abs(items.features[:, self.column])


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(registry.METHODS, "column", Column)
    Column.fits.clear()


def trial(calibration, novel, sets=None):
    """Calibration items with their features as rows; what trains does not matter to the method."""
    features = np.array(calibration, dtype=float)
    nothing = np.zeros((len(features), 0))
    sets = sets or {1: np.arange(len(features))[:, None]}
    of_sets = {s: np.array(novel)[members[:, 0]] for s, members in sets.items()}
    return Trial(Items(nothing, features), np.arange(len(features)), Items(nothing, features), sets, of_sets)


# Of four sets, the last two presumed novel. Column 0 puts one of them below one known set (AUC 3/4), column 1 both
# below both (0), column 2 neither (1).
FEATURES = [[1, 5, 0], [3, 6, 0], [2, 1, 1], [4, 2, 1]]
NOVEL = [False, False, True, True]


def test_areas_by_hand():
    found = [trial_areas(c, trial(FEATURES, NOVEL), BOTH_WAYS) for c in candidates("column", {"column": [0, 1, 2]})]
    assert found == [dict.fromkeys(BOTH_WAYS, area) for area in (0.75, 0.0, 1.0)]


def test_the_mean_over_trials_decides():
    other = [[1, 5, 1], [3, 6, 1], [4, 1, 0], [4, 2, 0]]  # AUC 1, 0, 0
    tuned = tune(candidates("column", {"column": [2, 1, 0]}), [trial(FEATURES, NOVEL), trial(other, NOVEL)], BOTH_WAYS)
    for case in BOTH_WAYS:
        assert tuned.choices[case] == (Candidate("column", {"column": 0}), (0.75 + 1) / 2)
    assert tuned.skipped == []


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_first_that_is_listed_wins_a_tie(order):
    twins = [[1, 1], [3, 3], [2, 2], [4, 4]]
    tuned = tune(candidates("column", {"column": order}), [trial(twins, NOVEL)], BOTH_WAYS)
    assert tuned.choices[BOTH_WAYS[0]].candidate.values == {"column": order[0]}


def test_each_way_and_size_has_a_choice_of_its_own_from_the_same_fits():
    # Column 0 is as large for novel items, but of either sign within a set: only the mean of its scores sees them.
    # Column 1 is small and steady for novel ones: only the mean vector of several does.
    features = np.array([[1, 6], [1, -6], [1, 5], [1, -5], [3, 2], [-3, 2], [3, 2], [-3, 2]])
    novel = [False] * 4 + [True] * 4
    sets = {1: np.arange(8)[:, None], 2: np.arange(8).reshape(4, 2)}
    cases = [(way, s) for way in ("mean-score", "mean-vector") for s in (1, 2)]
    tuned = tune(candidates("column", {"column": [0, 1]}), [trial(features, novel, sets)], cases)
    chosen = {case: choice.candidate.values["column"] for case, choice in tuned.choices.items()}
    assert chosen == {("mean-score", 1): 0, ("mean-score", 2): 0, ("mean-vector", 1): 0, ("mean-vector", 2): 1}
    assert Column.fits == [0, 1]


def test_a_single_candidate_is_not_tried():
    tuned = tune(candidates("column", {"column": [9]}), [trial(FEATURES, NOVEL)], BOTH_WAYS)
    assert tuned.choices == {case: (Candidate("column", {"column": 9}), None) for case in BOTH_WAYS}
    assert Column.fits == []


def test_a_candidate_that_cannot_be_fitted_is_skipped_and_noted():
    tuned = tune(candidates("column", {"column": [9, 0, 1]}), [trial(FEATURES, NOVEL)], BOTH_WAYS)
    assert tuned.choices[BOTH_WAYS[0]] == (Candidate("column", {"column": 0}), 0.75)
    (note,) = tuned.skipped
    assert note.startswith("column with column 9: there is no column 9; give other hyper-parameters")


def test_it_is_skipped_if_one_trial_cannot_do_with_it():
    narrow = trial([row[:2] for row in FEATURES], NOVEL)
    tuned = tune(candidates("column", {"column": [2, 0]}), [trial(FEATURES, NOVEL), narrow], BOTH_WAYS)
    assert tuned.choices[BOTH_WAYS[0]].candidate.values == {"column": 0}
    assert len(tuned.skipped) == 1


def test_none_left_is_refused_and_every_reason_given():
    with pytest.raises(OutclassError, match=r"no candidate could be fitted.*\n.*no column 8.*\n.*no column 9"):
        tune(candidates("column", {"column": [8, 9]}), [trial(FEATURES, NOVEL)], BOTH_WAYS)


@dataclass
class Along:
    """Distance to the nearest class mean along one feature."""

    column: int = 0
    name: ClassVar[str] = "along"
    uses: ClassVar[str] = "features"

    def fit(self, items, labels):
        self.means_ = np.array([items.features[labels == c, self.column].mean() for c in np.unique(labels)])
        return self

    def score(self, items, size=1):
        return np.abs(items.features[:, [self.column]] - self.means_).min(axis=1)


def test_what_helps_on_real_novel_classes_only_is_not_chosen(monkeypatch):
    """Feature 0 tells known classes from each other, feature 1 nothing but the novel class from all of them."""
    monkeypatch.setitem(registry.METHODS, "along", Along)
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(5), 20)  # the last is novel
    centres = np.array([[0, 0], [2, 0], [4, 0], [6, 0], [0, 9]])
    train, other = (Items(np.zeros((100, 0)), centres[classes] + 0.1 * rng.normal(size=(100, 2))) for _ in range(2))

    def among(kept, items):
        return Items(items.confidences[kept], items.features[kept])

    def hiding(label):
        taught, known = (classes < 4) & (classes != label), classes < 4
        labels = np.unique(classes[taught], return_inverse=True)[1]
        sets, novel = {1: np.arange(80)[:, None]}, {1: classes[known] == label}
        return Trial(among(taught, train), labels, among(known, other), sets, novel)

    grid = candidates("along", {"column": [1, 0]})
    tuned = tune(grid, [hiding(1), hiding(2)], BOTH_WAYS)
    assert all(choice.candidate == grid[1] and choice.auc > 0.99 for choice in tuned.choices.values())
    # And yet, with a look at the novel class, it would have been the other one.
    known = classes < 4
    real = Trial(among(known, train), classes[known], other, {1: np.arange(100)[:, None]}, {1: ~known})
    assert trial_areas(grid[0], real, BOTH_WAYS)["mean-score", 1] > 0.99
    assert trial_areas(grid[1], real, BOTH_WAYS)["mean-score", 1] < 0.8
