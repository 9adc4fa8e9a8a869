"""The pooled ensemble: inputs one by one, no trace of presumed-novel classes, and a classifier that uses them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outclass import pooled
from outclass.baselines.knfst import projection_from
from outclass.baselines.plda import log_ratios, two_covariances
from outclass.baselines.statistics import class_moments, subset_moments
from outclass.pooled import Confidences, PooledSettings

REPRODUCIBLE = settings(derandomize=True, database=None, deadline=None, max_examples=40)
CHOSEN = PooledSettings(plda=((0.1, 0.0), (0.3, 0.5)), shrinkage=0.2, neighbours=3)
K, D = 6, 5


def sample(seed: int = 0, per_class: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(K), per_class))
    return rng.normal(size=(K, D))[labels] * 3 + rng.normal(size=(len(labels), D)), labels


def a_world(taught: np.ndarray, seed: int = 0, size: int = 2):
    """Train items, sets of other items, and what a made-up network says of them."""
    rng = np.random.default_rng(seed + 1)
    features, labels = sample(seed)
    unit, length = pooled.unit_length(np.concatenate([features, rng.normal(size=(12, D)) * 2]))
    train = unit[: len(features)]
    members = len(features) + rng.permutation(12).reshape(-1, size)
    sets = pooled.describe(unit, length, members, train, labels, CHOSEN.neighbours)
    known = pooled.reference(next(iter(subset_moments(train, labels, taught[None]))), CHOSEN)
    top = rng.choice(np.flatnonzero(taught), len(members))
    seen = Confidences(*rng.normal(size=(4, len(members))), top)
    return train, labels, unit, length, members, sets, known, seen


class TestInputs:
    taught = np.array([True, False, True, True, True, True])

    @pytest.fixture
    def columns(self) -> dict[str, np.ndarray]:
        self.train, self.labels, self.unit, self.length, self.members, self.sets, known, self.seen = a_world(
            self.taught
        )
        rows = pooled.inputs(self.sets, self.seen, known)
        assert np.isfinite(rows).all()
        return dict(zip(pooled.input_names(CHOSEN, kernel=False), rows.T, strict=True))

    def means(self) -> np.ndarray:
        return np.stack([np.mean([self.unit[item] for item in row], axis=0) for row in self.members])

    def of_taught(self) -> np.ndarray:
        return self.taught[self.labels]

    def test_have_a_name_each(self, columns):
        assert len(columns) == 2 * 2 + 4 + 6

    def test_confidences_are_those_of_the_network(self, columns):
        for name, value in zip(["theta", "activity", "energy", "certainty"], self.seen, strict=False):
            np.testing.assert_array_equal(columns[name], value)

    def test_length_is_that_of_the_features_as_they_came(self, columns):
        expected = [np.mean([self.length[item] for item in row]) for row in self.members]
        np.testing.assert_allclose(columns["length"], expected)

    def test_spread_is_the_root_mean_squared_distance_from_the_sets_mean(self, columns):
        expected = [
            np.sqrt(np.mean([np.sum((self.unit[i] - mean) ** 2) for i in row]))
            for row, mean in zip(self.members, self.means(), strict=True)
        ]
        np.testing.assert_allclose(columns["spread"], expected, atol=1e-12)

    def test_cosine_is_that_to_the_nearest_mean_of_a_known_class(self, columns):
        means = [self.train[self.labels == c].mean(axis=0) for c in np.flatnonzero(self.taught)]
        cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
        expected = [max(cosine(x, m) for m in means) for x in self.means()]
        np.testing.assert_allclose(columns["cosine"], expected)

    def test_neighbours_are_the_nearest_train_items_of_known_classes(self, columns):
        products = self.means() @ self.train[self.of_taught()].T
        np.testing.assert_allclose(columns["neighbours"], np.sort(products, axis=1)[:, -3:].mean(axis=1))

    def test_mahalanobis_distances_are_to_the_nearest_class_and_to_all_items(self, columns):
        x, labels = self.train[self.of_taught()], self.labels[self.of_taught()]
        centred = x - np.stack([x[labels == c].mean(axis=0) for c in labels])
        shrunk = lambda s: 0.8 * s + 0.2 * np.trace(s) / D * np.eye(D)  # noqa: E731
        within = np.linalg.inv(shrunk(centred.T @ centred / len(x)))
        around = np.linalg.inv(shrunk(np.cov(x.T, bias=True)))
        for row, mean in enumerate(self.means()):
            gaps = [mean - x[labels == c].mean(axis=0) for c in np.unique(labels)]
            nearest, far = min(g @ within @ g for g in gaps), mean - x.mean(axis=0)
            assert columns["mahalanobis"][row] == pytest.approx(np.sqrt(nearest))
            assert columns["relative mahalanobis"][row] == pytest.approx(nearest - far @ around @ far)

    @pytest.mark.parametrize(("name", "shares"), [("0.1/0", (0.1, 0.0)), ("0.3/0.5", (0.3, 0.5))])
    def test_likelihood_ratios_are_of_the_best_class_and_of_the_networks_choice(self, columns, name, shares):
        known = np.flatnonzero(self.taught)
        labels = np.searchsorted(known, self.labels[self.of_taught()])
        model = two_covariances(class_moments(self.train[self.of_taught()], labels), *shares)
        ratios = log_ratios(model, self.means(), 2)
        np.testing.assert_allclose(columns[f"plda best class {name}"], ratios.max(axis=1), rtol=1e-6, atol=1e-8)
        own = [row[known.tolist().index(top)] for row, top in zip(ratios, self.seen.top, strict=True)]
        np.testing.assert_allclose(columns[f"plda top class {name}"], own, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1, 3])
def test_presumed_novel_classes_leave_no_trace(size):
    """Other train items of a class that the partition presumes novel: not an input changes."""
    taught = np.array([True, True, False, True, True, False])
    train, labels, unit, length, members, sets, known, seen = a_world(taught, size=size)
    before = pooled.inputs(sets, seen, known)
    changed = train.copy()
    changed[~taught[labels]] = pooled.unit_length(np.random.default_rng(9).normal(size=train.shape))[0][~taught[labels]]
    moments = next(iter(subset_moments(changed, labels, taught[None])))
    again = pooled.describe(np.concatenate([changed, unit[len(train) :]]), length, members, changed, labels, 3)
    after = pooled.inputs(again, seen, pooled.reference(moments, CHOSEN))
    np.testing.assert_allclose(after, before, rtol=1e-7, atol=1e-7)


@REPRODUCIBLE
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9))
def test_class_neighbours_are_the_most_similar_of_each_class(seed, count, per_class):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.concatenate([np.arange(4), rng.integers(0, 4, per_class)]))
    train, vectors = rng.normal(size=(len(labels), 3)), rng.normal(size=(5, 3))
    found = np.sort(pooled.class_neighbours(vectors, train, labels, count), axis=2)
    for row, vector in enumerate(vectors):
        for c in range(4):
            products = sorted(float(vector @ item) for item in train[labels == c])[-count:]
            np.testing.assert_allclose(found[row, c], [-np.inf] * (count - len(products)) + products)


def test_fewer_train_items_than_neighbours_are_all_averaged():
    products = np.array([[[-np.inf, 1.0, 2.0], [-np.inf, -np.inf, 6.0]]])
    assert pooled._mean_of_largest(products) == pytest.approx([3.0])
    assert pooled._mean_of_largest(products[:, 1:]) == pytest.approx([6.0])


class TestProjection:
    def test_is_not_needed_for_narrow_features(self):
        assert pooled.projection(10, 10, np.random.default_rng(0)) is None

    def test_is_orthonormal_and_the_same_for_the_same_seed(self):
        first, second = (pooled.projection(40, 8, np.random.default_rng(3)) for _ in range(2))
        np.testing.assert_allclose(first.T @ first, np.eye(8), atol=1e-12)
        np.testing.assert_array_equal(first, second)


class TestClassifier:
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        novel = np.arange(600) < 80
        rows = rng.normal(size=(600, 4)) * [1, 10, 0.1, 1] + [0, 5, -2, 7]
        rows[novel, 1] += 12
        rows[:, 3] = 7.0
        return rows, novel

    def test_is_a_class_balanced_logistic_regression_on_standardised_inputs(self):
        rows, novel = self.rows()
        h = pooled.fit(rows, novel, 0.01)
        logistic = LogisticRegression(C=1 / 6, class_weight="balanced", max_iter=2000, tol=1e-8)
        peer = make_pipeline(StandardScaler(), logistic).fit(rows, novel)
        np.testing.assert_allclose(h.log_odds(rows), peer.decision_function(rows), atol=1e-3)

    def test_makes_nothing_of_a_constant_input(self):
        rows, novel = self.rows()
        h = pooled.fit(rows, novel, 0.05)
        other = rows.copy()
        other[:, 3] += 100
        np.testing.assert_array_equal(h.log_odds(other), h.log_odds(rows))

    def test_novelty_is_the_probability_at_the_mean_log_odds(self):
        h = pooled.PooledClassifier(np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([4.0, -1.0]), 0.5)
        rows = np.array([[[1.0, 0.0]], [[2.0, 1.0]]])  # two partitions' rows of one set: 0.5, and 2 - 1 + 0.5
        assert pooled.novelty(h, rows) == pytest.approx([1 / (1 + np.exp(-1.0))])


def test_unit_length_keeps_nothing_but_the_direction():
    unit, length = pooled.unit_length(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(length, [5, 0])


class TestNullSpace:
    """Against the detector of outclass/baselines/knfst.py, fitted on a partition's own items alone."""

    taught = np.array([[True, False, True, True, True, False], [True] * K, [False, True, True, False, True, True]])

    def spaces(self, features: np.ndarray, labels: np.ndarray) -> list[pooled.NullSpace]:
        others = np.random.default_rng(5).normal(size=(8, D))
        self.unit = pooled.unit_length(np.concatenate([features, others]))[0]
        trains = np.arange(len(self.unit)) < len(features)
        return list(pooled.null_spaces(self.unit, trains, labels, self.taught, CHOSEN))

    def test_is_that_of_the_presumed_known_items_alone(self):
        features, labels = sample()
        for classes, space in zip(self.taught, self.spaces(features, labels), strict=True):
            own = classes[labels]
            train = self.unit[: len(features)][own]
            kernel = rbf_kernel(train, gamma=CHOSEN.gamma) + CHOSEN.ridge * np.eye(len(train))
            present, codes = np.unique(labels[own], return_inverse=True)
            one_hot = np.eye(len(present))[codes]
            alone = projection_from(np.linalg.solve(kernel, one_hot), codes, CHOSEN.ridge)
            projected = rbf_kernel(self.unit, train, CHOSEN.gamma) @ alone.coefficients
            expected = cdist(projected, alone.points)
            np.testing.assert_allclose(cdist(space.projected, space.points), expected, rtol=1e-6, atol=1e-8)

    def test_knows_nothing_of_presumed_novel_items(self):
        features, labels = sample()
        before = self.spaces(features, labels)[0]
        changed = np.where(self.taught[0][labels][:, None], features, 1 - 2 * features)
        after = self.spaces(changed, labels)[0]
        rows = np.concatenate([self.taught[0][labels], np.ones(8, dtype=bool)])
        found, expected = (cdist(space.projected[rows], space.points) for space in (after, before))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)

    def test_distances_are_of_items_and_of_the_sets_mean(self):
        _, _, unit, _, members, sets, known, seen = a_world(self.taught[0])
        space = pooled.NullSpace(np.random.default_rng(0).normal(size=(len(unit), 2)), np.array([[0.0, 0], [9, 9]]))
        rows = pooled.inputs(sets, seen, known, space)
        columns = dict(zip(pooled.input_names(CHOSEN, kernel=True), rows.T, strict=True))
        for row, chosen in enumerate(members):
            of_items = [min(np.linalg.norm(space.projected[i] - p) for p in space.points) for i in chosen]
            assert columns["null space of items"][row] == pytest.approx(np.mean(of_items))
            mean = space.projected[chosen].mean(axis=0)
            of_set = min(np.linalg.norm(mean - p) for p in space.points)
            assert columns["null space of the set"][row] == pytest.approx(of_set)
