"""Distance to the nearest class mean: by hand, against scikit-learn, and where squares would cancel."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestCentroid

from outclass.baselines.contract import Items
from outclass.baselines.nearest_mean import NearestMean, nearest_mean
from outclass.errors import OutclassError

NONE = np.empty((0, 0))


def test_by_hand():
    train = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]])
    method = NearestMean().fit(Items(NONE, train), np.array([0, 0, 1]))  # means (1, 0) and (0, 4)
    np.testing.assert_allclose(
        method.score(Items(NONE, np.array([[4.0, 4.0], [1.0, 0.0], [3.0, 1.0]]))), [4, 0, 5**0.5]
    )


def test_cosine_by_hand():
    means = np.array([[2.0, 0.0], [0.0, 1.0]])
    scores = nearest_mean(np.array([[3.0, 4.0], [0.0, 9.0], [-1.0, 0.0]]), means, "cosine")
    np.testing.assert_allclose(scores, [1 - 0.8, 0, 1])  # (-1, 0) is at a right angle to the second mean


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agreement_with_scikit_learn_and_scipy(metric, dtype):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 7
    train, test = ((rng.normal(size=(40, 9)) + 5).astype(dtype) for _ in range(2))
    centroids = NearestCentroid().fit(train.astype(float), labels).centroids_
    scores = NearestMean(metric).fit(Items(NONE, train), labels).score(Items(NONE, test), size=5)
    np.testing.assert_allclose(scores, cdist(test, centroids, metric).min(axis=1), rtol=1e-9)


def test_far_from_zero_nothing_cancels():
    rng = np.random.default_rng(0)
    train, test, labels = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), np.arange(20) % 4
    near, far = (
        NearestMean().fit(Items(NONE, train + shift), labels).score(Items(NONE, test + shift)) for shift in (0, 1e6)
    )
    np.testing.assert_allclose(far, near, rtol=1e-6)


def test_cosine_ignores_the_scale():
    rng = np.random.default_rng(0)
    x, means = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(nearest_mean(9 * x, 5 * means, "cosine"), nearest_mean(x, means, "cosine"))


def test_unknown_metric():
    with pytest.raises(OutclassError, match=r"metric 'taxi'.*euclidean, cosine"):
        nearest_mean(np.ones((1, 2)), np.ones((1, 2)), "taxi")
