"""The closed-form head: exact, whatever classes are left out."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from outclass.networks import train
from outclass.networks.flat import FlatSettings
from outclass.networks.ridge import RidgeSettings, fit_heads

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(5), [20, 25, 30, 15, 10])
FEATURES = RNG.normal(size=(5, 8))[LABELS] + RNG.normal(size=(100, 8)) * [1, 2, 3, 1, 0.1, 1, 50, 1] + 300
TAUGHT = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 0, 1, 0, 1]], dtype=bool)


def by_scikit_learn(classes: np.ndarray, penalty: float, x: np.ndarray) -> np.ndarray:
    """Ridge regression of the indicators of the taught classes on standardised features of the taught items."""
    mine = classes[LABELS]
    scaler = StandardScaler().fit(FEATURES[mine])
    targets = np.eye(len(classes))[LABELS[mine]]
    ridge = Ridge(alpha=penalty * mine.sum()).fit(scaler.transform(FEATURES[mine]), targets)
    return np.where(classes, ridge.predict(scaler.transform(x)), -np.inf)


def test_one_feature_and_two_classes_by_hand():
    # x = -1, 1 for classes 0, 1: mean 0, variance 1. X^T Z / n = (-1/2 * 1/2 - 1/2 * 1/2, 1/2) for z = +-1/2:
    # class 1: (1 * 1/2 + -1 * -1/2) / 2 = 1/2; with penalty 1, w = (1 + 1)^-1 / 2 = 1/4; bias 1/2.
    heads = fit_heads(np.array([[-1.0], [1.0]]), np.array([0, 1]), np.ones((1, 2), bool), RidgeSettings(1.0))
    np.testing.assert_allclose(heads.activities(np.array([[2.0]])), [[[0.5 - 2 / 4, 0.5 + 2 / 4]]], atol=1e-7)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0])
def test_it_is_ridge_regression_of_the_taught_classes_indicators(penalty):
    new = RNG.normal(size=(30, 8)) * 10 + 300
    activities = fit_heads(FEATURES, LABELS, TAUGHT, RidgeSettings(penalty)).activities(new)
    for classes, ours in zip(TAUGHT, activities, strict=True):
        np.testing.assert_allclose(ours, by_scikit_learn(classes, penalty, new), rtol=1e-5, atol=1e-6)


def test_heads_together_are_those_alone():
    together = fit_heads(FEATURES, LABELS, TAUGHT, RidgeSettings()).activities(FEATURES)
    for number, classes in enumerate(TAUGHT):
        alone = fit_heads(FEATURES, LABELS, classes[None], RidgeSettings()).activities(FEATURES)
        np.testing.assert_array_equal(together[number], alone[0])


def test_items_of_untaught_classes_leave_no_trace():
    garbage = FEATURES.copy()
    garbage[LABELS == 0] = RNG.normal(size=(20, 8)) * 100
    before, after = (
        fit_heads(x, LABELS, TAUGHT[1:2], RidgeSettings()).activities(FEATURES) for x in (FEATURES, garbage)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_absent_classes_have_no_activity():
    activities = fit_heads(FEATURES, LABELS, TAUGHT, RidgeSettings()).activities(FEATURES)
    assert (np.isneginf(activities) == ~TAUGHT[:, None, :]).all()
    assert activities.dtype == np.float32


@pytest.mark.parametrize("constant", [0.0, 0.1, 2000.0])
def test_a_constant_feature_has_no_weight(constant):
    x = np.column_stack([FEATURES, np.full(100, constant)])
    heads = fit_heads(x, LABELS, TAUGHT, RidgeSettings())
    elsewhere = x.copy()
    elsewhere[:, -1] += 1000
    np.testing.assert_array_equal(heads.activities(x), heads.activities(elsewhere))


def test_more_features_than_items_are_no_hindrance():
    x = RNG.normal(size=(100, 300))
    activities = fit_heads(x, LABELS, TAUGHT, RidgeSettings(0.01)).activities(x)
    assert (activities[0].argmax(axis=1) == LABELS).all()


def test_progress_is_reported_for_every_head():
    steps: list[tuple[int, int]] = []
    fit_heads(FEATURES, LABELS, TAUGHT, RidgeSettings(), on_step=lambda *step: steps.append(step))
    assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("settings", [FlatSettings(hidden=16, steps=5, batch=16), RidgeSettings()])
def test_the_settings_choose_the_network(settings):
    generators = [np.random.default_rng(number) for number in range(3)]
    activities = train(settings, FEATURES, LABELS, TAUGHT, generators).activities(FEATURES)
    assert activities.shape == (3, 100, 5)
    assert (np.isneginf(activities) == ~TAUGHT[:, None, :]).all()
