"""OpenMax: tails and revised activities by hand, the Weibull fit against scipy's and against the likelihood itself."""

import numpy as np
import pytest
from scipy.stats import weibull_min

from outclass.baselines import openmax
from outclass.baselines.contract import Items
from outclass.baselines.openmax import OpenMax, Weibulls, fit_weibulls, tails, unknown_probability, well_classified
from outclass.errors import OutclassError

NONE = np.empty((0, 0))


def sample(n=120, k=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return 4 * np.eye(k)[labels] + rng.normal(size=(n, k)), labels


class TestTails:
    def test_by_hand(self):
        largest, exist = tails(np.array([1.0, 5.0, 3.0, 4.0, 2.0]), np.array([0, 1, 0, 0, 1]), 3)
        np.testing.assert_array_equal(largest, [[4, 3, 1], [5, 2, 0]])
        np.testing.assert_array_equal(exist, [[True] * 3, [True, True, False]])

    def test_only_the_largest(self):
        distances, labels = np.random.default_rng(0).random(50), np.arange(50) % 3
        largest, _ = tails(distances, labels, 4)
        for c in range(3):
            np.testing.assert_array_equal(largest[c], np.sort(distances[labels == c])[::-1][:4])


class TestWeibulls:
    @staticmethod
    def plain(fitted, row=0):
        """Shape and scale of the shifted distances."""
        return fitted.shape[row], np.exp(fitted.scale[row]) * openmax.SHIFT

    @pytest.mark.parametrize("shift", [1.0, 10_000.0])
    def test_no_other_shape_or_scale_is_likelier(self, monkeypatch, shift):
        monkeypatch.setattr(openmax, "SHIFT", shift)
        distances = np.random.default_rng(0).gamma(3, size=(1, 20))
        shape, scale = self.plain(fit_weibulls(distances, np.ones((1, 20), bool)))
        shifted = distances - distances.min() + shift

        def likelihood(c, s):
            return weibull_min.logpdf(shifted, c, scale=s).sum()

        best = likelihood(shape, scale)
        for factor in (0.999, 1.001):
            assert likelihood(shape * factor, scale) < best
            assert likelihood(shape, scale * (1 + (factor - 1) / shape)) < best

    def test_agreement_with_scipy(self, monkeypatch):
        monkeypatch.setattr(openmax, "SHIFT", 1.0)  # scipy's search fails at large shifts
        distances = np.random.default_rng(0).gamma(3, size=(2, 25))
        fitted = fit_weibulls(distances, np.ones((2, 25), bool))
        for row in range(2):
            shape, _, scale = weibull_min.fit(distances[row] - distances[row].min() + 1, floc=0)
            np.testing.assert_allclose(self.plain(fitted, row), [shape, scale], rtol=1e-3)
            x = np.linspace(0.1, 9, 50)
            expected = weibull_min.cdf(x - distances[row].min() + 1, shape, scale=scale)
            ours = fitted.cumulative(np.tile(x[:, None], 2))[:, row]
            np.testing.assert_allclose(ours, expected, atol=1e-3)

    def test_two_distances_by_hand(self):
        # Standardised: -1 and 1, so tanh(g) = 1 / g: g = 1.19968; the scale is log(cosh(g)) / g.
        fitted = fit_weibulls(np.array([[3.0, 7.0]]), np.ones((1, 2), bool))
        half = np.log1p(4 / openmax.SHIFT) / 2
        assert fitted.smallest[0] == 3
        assert fitted.shape[0] == pytest.approx(1.1996786402577 / half)
        assert fitted.scale[0] == pytest.approx(half + half * np.log(np.cosh(1.1996786402577)) / 1.1996786402577)

    def test_short_tails_are_fitted_to_what_exists(self):
        distances = np.random.default_rng(0).random((2, 6))
        exist = np.array([[True] * 6, [True] * 4 + [False] * 2])
        both, alone = fit_weibulls(distances, exist), fit_weibulls(distances[1:, :4], exist[1:, :4])
        for one, other in zip(both, alone, strict=True):
            assert one[1] == pytest.approx(other[0])

    def test_distances_that_are_all_the_same_are_a_step(self):
        fitted = fit_weibulls(np.full((1, 5), 2.0), np.ones((1, 5), bool))
        np.testing.assert_allclose(fitted.cumulative(np.array([[1.99], [2.01]]))[:, 0], [0, 1], atol=1e-6)

    def test_cumulative_grows_from_0_to_1(self):
        fitted = fit_weibulls(np.random.default_rng(0).gamma(3, size=(1, 20)), np.ones((1, 20), bool))
        values = fitted.cumulative(np.concatenate([np.linspace(0, 30, 99), [1e9]])[:, None])[:, 0]
        assert (np.diff(values) >= 0).all()
        assert 0 <= values[0] < 0.1 < 0.9 < values[40]
        assert values[-1] == 1


def test_revised_activities_by_hand():
    # F = 1/2 at distance 5 from the first mean, and 1 - 2^-4 at distance 0 from the second (it lies beyond its tail).
    y = np.log1p(5 / openmax.SHIFT)
    at_half = np.log(np.log(2))
    weibulls = Weibulls(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([y - at_half, -at_half - np.log(4)]))
    u, means = np.array([[2.0, 1.0]]), np.array([[2.0, 6.0], [2.0, 1.0]])
    given = np.array([1 / 2, 1 / 2 * 15 / 16])  # ranks 1 and 2 of 2: whole and half
    unknown, left = (u * given).sum(), u[0] * (1 - given)
    expected = np.exp(unknown) / (np.exp(unknown) + np.exp(left).sum())
    np.testing.assert_allclose(unknown_probability(u, means, weibulls, 2), [expected], rtol=1e-6)
    one = np.exp(1) / (np.exp(1) + np.exp(1) + np.exp(1))  # only the first gives: 1 to the unknown, 1 and 1 are left
    np.testing.assert_allclose(unknown_probability(u, means, weibulls, 1), [one], rtol=1e-6)


def test_only_well_classified_items_count():
    u, labels = sample()
    wrong = np.concatenate([u, [[0, 0, 0, 0, 900.0]]])  # a far item of class 0, taken for class 4
    ours = OpenMax().fit(Items(wrong, NONE), np.append(labels, 0)).score(Items(u, NONE))
    np.testing.assert_array_equal(ours, OpenMax().fit(Items(u, NONE), labels).score(Items(u, NONE)))


def test_a_class_that_is_never_recognised_counts_with_all_its_items():
    u = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 1.0], [0.0, 1.0], [5.0, 0.0]])
    np.testing.assert_array_equal(well_classified(u, np.array([0, 0, 1, 1, 1])), [True] * 5)
    np.testing.assert_array_equal(well_classified(u, np.array([0, 0, 0, 1, 1])), [True] * 5)
    np.testing.assert_array_equal(well_classified(u[[0, 1, 3, 3, 3]], np.array([0, 0, 0, 1, 1])), [1, 1, 0, 1, 1])


def test_far_from_every_class_is_more_novel():
    u, labels = sample()
    method = OpenMax(alpha=3).fit(Items(u, NONE), labels)
    scores = method.score(Items(np.array([[4.0, 0, 0, 0, 0], [4.0, 4, 4, 4, 4]]), NONE))
    assert 0 <= scores[0] < 0.3 < 0.9 < scores[1] <= 1


def test_large_activities_and_tails_beyond_the_class():
    u, labels = sample()
    scores = OpenMax(tail=1000, alpha=1000).fit(Items(1e3 * u, NONE), labels).score(Items(1e3 * u, NONE))
    assert np.isfinite(scores).all()


def test_classes_of_two_items():
    u, labels = sample(10)  # the two are equally far from their mean, but for rounding
    scores = OpenMax().fit(Items(u, NONE), labels).score(Items(np.concatenate([u, u + 9]), NONE))
    assert np.isfinite(scores).all()


def test_a_class_of_one_item():
    u, labels = sample(11)
    with pytest.raises(OutclassError, match="each class needs two train items or more"):
        OpenMax().fit(Items(u[:6], NONE), labels[:6])


@pytest.mark.parametrize("settings", [{"tail": 1}, {"alpha": 0}])
def test_parameters_out_of_range(settings):
    with pytest.raises(OutclassError, match="openmax: tail"):
        OpenMax(**settings).fit(Items(*([sample()[0]] * 2)), sample()[1])
