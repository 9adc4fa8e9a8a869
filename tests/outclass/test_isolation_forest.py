"""Isolation forest: a tree by hand, scikit-learn's scores, the same for the same seed."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest as Forest

from outclass.baselines.contract import Items
from outclass.baselines.isolation_forest import IsolationForest
from outclass.errors import OutclassError

NONE = np.empty((0, 0))
CLOUD = np.random.default_rng(0).normal(size=(80, 3))


def scores(method, train, test):
    return method.fit(Items(NONE, train), np.zeros(len(train), int)).score(Items(NONE, test))


def test_two_items_by_hand():
    # Every tree sets the two apart by one split; the expected depth for two items is 1 as well: 2^-1.
    np.testing.assert_allclose(scores(IsolationForest(5), np.array([[0.0], [1.0]]), np.array([[0.0], [9.0]])), 0.5)


def test_agreement_with_scikit_learn_and_far_is_more_novel():
    test = np.array([[0.0] * 3, [9.0] * 3])
    ours = scores(IsolationForest(50, seed=3), CLOUD, test)
    np.testing.assert_array_equal(ours, -Forest(n_estimators=50, random_state=3).fit(CLOUD).score_samples(test))
    assert ours[1] > ours[0]


def test_the_seed_decides():
    one, same, other = (scores(IsolationForest(10, seed), CLOUD, CLOUD) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_no_trees():
    with pytest.raises(OutclassError, match="0 trees"):
        scores(IsolationForest(0), CLOUD, CLOUD)
