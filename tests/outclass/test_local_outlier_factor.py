"""Local outlier factor: by hand, and against the definition item by item."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from outclass.baselines.contract import Items
from outclass.baselines.local_outlier_factor import LocalOutlierFactor
from outclass.errors import OutclassError

NONE = np.empty((0, 0))


def scores(k, train, test):
    return LocalOutlierFactor(k).fit(Items(NONE, train), np.zeros(len(train), int)).score(Items(NONE, test), size=2)


def by_definition(k, train, test):
    own = cdist(train, train)
    np.fill_diagonal(own, np.inf)
    radius = np.sort(own, axis=1)[:, k - 1]

    def density(distances):
        nearest = np.argsort(distances, axis=1)[:, :k]
        reach = np.maximum(np.take_along_axis(distances, nearest, axis=1), radius[nearest])
        return 1 / reach.mean(axis=1), nearest

    around, _ = density(own)
    here, nearest = density(cdist(test, train))
    return around[nearest].mean(axis=1) / here


def test_by_hand():
    # Radii of 0, 1, 3 for k = 1: 1, 1, 2, and reach distances to the nearest the same, so densities 1, 1, 1/2.
    # 7 is 4 from 3, which reaches no farther than 2: density 1/4, and 3 has 1/2.
    np.testing.assert_allclose(scores(1, np.array([[0.0], [1.0], [3.0]]), np.array([[7.0]])), [2])


@pytest.mark.parametrize("width", [2, 30])
def test_agreement_with_the_definition(width):
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(60, width)), rng.normal(size=(20, width)) * 2
    np.testing.assert_allclose(scores(5, train, test), by_definition(5, train, test), rtol=1e-6)


def test_duplicates_and_constant_features_stay_finite():
    train = np.tile(np.random.default_rng(0).normal(size=(4, 3)), (9, 1))
    assert np.isfinite(scores(5, train, train + 1)).all()


@pytest.mark.parametrize("k", [0, 5])
def test_more_neighbours_than_items(k):
    with pytest.raises(OutclassError, match=f"{k} neighbours of each train item for lof: there are 5 items"):
        scores(k, np.eye(5), np.eye(5))
