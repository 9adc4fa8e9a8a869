"""KNFST: by hand, against the published algorithm, and where kernels lack rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from outclass.baselines import kernel_systems, knfst
from outclass.baselines.contract import Items
from outclass.baselines.kernel_systems import kernel_times, lower_triangle, solve_in_double, solve_in_single
from outclass.baselines.kernels import Linear, Polynomial, Rbf, kernel_for, scaled
from outclass.baselines.knfst import Knfst, distinct, projection_by_eigenvectors, projection_from
from outclass.errors import OutclassError

KERNELS = {"polynomial": {"degree": 3}, "rbf": {}, "linear": {}}


def items(features):
    features = np.asarray(features)
    return Items(np.empty((len(features), 0)), features)


def classes(count=5, each=12, width=20, seed=0, offset=0.0):
    """Items of several classes in a mixed order, and items of classes never seen."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(count), each))
    centres = rng.normal(size=(count, width))
    train = centres[labels] + 0.7 * rng.normal(size=(len(labels), width)) + offset
    return train, labels, rng.normal(size=(30, width)) * 1.5 + offset


def published(matrix, labels, between):
    """Bodesheim et al. 2013, as printed: kernel matrix (n, n), its values with scored items (m, n) -> scores.

    Basis of the centred items by eigenvectors; null space of the within-class scatter in that basis; class means.
    """
    n = len(matrix)
    centring = np.eye(n) - 1 / n
    averaging = np.array([(labels == label) / (labels == label).sum() for label in labels])
    values, vectors = np.linalg.eigh(centring @ matrix @ centring)
    kept = values > 1e-11 * values.max()
    basis = centring @ vectors[:, kept] / np.sqrt(values[kept])
    h = basis.T @ matrix @ (np.eye(n) - averaging)
    scatter, directions = np.linalg.eigh(h @ h.T)
    projection = basis @ directions[:, scatter < 1e-11 * values.max()]
    projected, train = between @ projection, matrix @ projection
    means = np.stack([train[labels == label].mean(axis=0) for label in np.unique(labels)])
    return np.linalg.norm(projected[:, None] - means, axis=2).min(axis=1)


def published_scores(baseline, train, labels, test):
    kernel = kernel_for(baseline.kernel, train, baseline.degree, baseline.gamma, baseline.constant)
    return published(kernel(train, train), labels, kernel(test, train))


def scores(train, labels, test, **settings_):
    return Knfst(**settings_).fit(items(train), labels).score(items(test))


# By hand


def test_two_items_on_a_line_by_hand():
    # The only direction is the line itself, and the class points are the items.
    found = scores(np.array([[0.0], [2.0]]), np.array([0, 1]), np.array([[5.0], [1.0], [-1.5], [2.0]]), kernel="linear")
    np.testing.assert_allclose(found, [3, 1, 1.5, 0], atol=1e-12)


def test_null_direction_in_the_plane_by_hand():
    # Class 0 scatters along (0, 1) only, so (1, 0) is the null direction: classes at 0 and 3 on the first axis.
    train, labels = np.array([[0.0, 0.0], [0.0, 4.0], [3.0, 1.0]]), np.array([0, 0, 1])
    found = scores(train, labels, np.array([[1.0, 100.0], [2.0, -7.0], [10.0, 0.0]]), kernel="linear")
    np.testing.assert_allclose(found, [1, 1, 7], rtol=1e-9)


def test_three_classes_in_the_plane_by_hand():
    # One item a class: the whole plane is kept, and scores are plain distances.
    train = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    found = scores(train, np.arange(3), np.array([[4.0, 3.0], [-3.0, -4.0]]), kernel="linear")
    np.testing.assert_allclose(found, [4 - 1, 5])  # (4, 3) is 3 from (4, 0) and 4 from (0, 3)


@pytest.mark.parametrize("by_eigenvectors", [False, True])
def test_projection_of_orthonormal_items_by_hand(by_eigenvectors):
    # K = I, two items of class 0 and one of class 1. A = Z, G = diag(2, 1), R 1 = (sqrt 2, 1),
    # Q = (1, -sqrt 2) / sqrt 3, M = (1 / sqrt 2, -sqrt 2) / sqrt 3 = (1, -2) / sqrt 6.
    labels = np.array([0, 0, 1])
    if by_eigenvectors:
        projection = projection_by_eigenvectors(np.eye(3), labels)
    else:
        projection = projection_from(np.array([[1.0, 0], [1, 0], [0, 1]]), labels)
    sign = np.sign(projection.points[0])
    np.testing.assert_allclose(sign * projection.points, np.array([[1], [-2]]) / 6**0.5, atol=1e-15)
    np.testing.assert_allclose(sign * projection.coefficients, np.array([[1], [1], [-2]]) / 6**0.5, atol=1e-15)


def test_ridge_by_hand():
    # The same with ridge 1: A = Z / 2, G = diag(1, 1 / 2), R 1 = (1, 1 / sqrt 2), Q = (1, -sqrt 2) / sqrt 3,
    # M = (1, -2) / sqrt 3; items are projected to K A M = Z M / 2, which are the class points.
    labels = np.array([0, 0, 1])
    projection = projection_from(np.array([[0.5, 0], [0.5, 0], [0, 0.5]]), labels, ridge=1.0)
    sign = np.sign(projection.points[0])
    np.testing.assert_allclose(sign * projection.points, np.array([[1], [-2]]) / 12**0.5)
    np.testing.assert_allclose(sign * projection.coefficients, np.array([[1], [1], [-2]]) / 12**0.5)


def test_kernels_by_hand():
    x, y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0], [1.0, 2.0]])
    np.testing.assert_allclose(Polynomial(3, 0.5, 1.0)(x, y), [[1.5**3, 3.5**3]])
    np.testing.assert_allclose(Rbf(0.1, np.array([7.0, -3.0]))(x, y), [[np.exp(-1.3), 1]])
    np.testing.assert_allclose(Linear(np.array([1.0, 1.0]), 5.0)(x, y), [[-2 + 5, 1 + 5]])


# Against others


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_kernels_equal_scikit_learns(precision):
    x, _, y = classes(offset=2.0)
    gamma = 1 / (20 * x.var())
    tolerance = 1e-12 if precision is np.float64 else 1e-5
    rbf = kernel_for("rbf", x, 3, "scale", 1.0)(x, y, precision)
    polynomial = kernel_for("polynomial", x, 4, "scale", 0.5)(x, y, precision)
    assert rbf.dtype == polynomial.dtype == precision
    np.testing.assert_allclose(rbf, rbf_kernel(x, y, gamma), rtol=tolerance * 10, atol=tolerance)
    expected = polynomial_kernel(x, y, 4, gamma, 0.5)
    np.testing.assert_allclose(polynomial, expected, rtol=tolerance, atol=tolerance * expected.max())


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rbf_never_exceeds_one(precision):
    # A squared distance from a matrix product may come out below zero, by rounding, which a large gamma would blow up.
    x, _, _ = classes(width=300)
    assert Rbf(1e6, np.zeros(300))(x, x, precision).max() <= 1


@pytest.mark.parametrize(
    "baseline",
    [
        Knfst(),
        Knfst(degree=2, gamma=0.3, constant=2.0),
        Knfst(degree=5),
        Knfst(kernel="rbf"),
        Knfst(kernel="rbf", gamma=0.4),
    ],
)
@pytest.mark.parametrize("count", [2, 5])
def test_scores_equal_the_published_algorithms(baseline, count):
    train, labels, test = classes(count)
    found = baseline.fit(items(train), labels).score(items(test))
    assert not baseline.by_eigenvectors_
    np.testing.assert_allclose(found, published_scores(baseline, train, labels, test), rtol=1e-9)


def test_linear_kernel_with_more_features_than_items_equals_the_published_algorithm():
    train, labels, test = classes(3, 6, width=40, offset=50.0)
    baseline = Knfst(kernel="linear").fit(items(train), labels)
    assert not baseline.by_eigenvectors_
    expected = published(train @ train.T, labels, test @ train.T)  # neither centred nor with a constant
    np.testing.assert_allclose(baseline.score(items(test)), expected, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_eigenvectors_and_cholesky_agree(kernel):
    train, labels, test = classes()
    k = kernel_for(kernel, train, 3, "scale", 1.0)
    z = np.eye(5)[labels]
    by_cholesky = projection_from(np.linalg.solve(k(train, train), z), labels)
    by_eigenvectors = projection_by_eigenvectors(k(train, train), labels)
    for rows in (k(test, train), k(train, train)):
        gaps = [
            np.linalg.norm((rows @ p.coefficients)[:, None] - p.points, axis=2) for p in (by_cholesky, by_eigenvectors)
        ]
        np.testing.assert_allclose(*gaps, rtol=1e-9, atol=1e-9)


# What defines the projection


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=20, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), each=st.integers(1, 5))
def test_every_class_becomes_one_point_and_directions_are_orthonormal(kernel, seed, count, each):
    train, labels, _ = classes(count, each, width=40, seed=seed)
    baseline = Knfst(kernel=kernel).fit(items(train), labels)
    projection, matrix = baseline.projection_, baseline.kernel_(train, train)
    assert projection.points.shape == (count, count - 1)
    np.testing.assert_allclose(matrix @ projection.coefficients, projection.points[labels], atol=1e-8)
    lengths = projection.coefficients.T @ matrix @ projection.coefficients
    np.testing.assert_allclose(lengths, np.eye(count - 1), atol=1e-8)
    np.testing.assert_allclose(projection.coefficients.sum(axis=0), 0, atol=1e-8)
    assert baseline.score(items(train)).max() < 1e-8


@pytest.mark.parametrize("kernel", KERNELS)
def test_order_of_items_and_names_of_classes_do_not_matter(kernel):
    train, labels, test = classes(width=80)
    expected = scores(train, labels, test, kernel=kernel)
    rng = np.random.default_rng(1)
    order, names = rng.permutation(len(train)), rng.permutation(5)
    np.testing.assert_allclose(scores(train[order], labels[order], test, kernel=kernel), expected, rtol=1e-9)
    np.testing.assert_allclose(scores(train, names[labels], test, kernel=kernel), expected, rtol=1e-9)


def test_a_constant_added_to_the_kernel_changes_nothing():
    train, labels, test = classes(width=80)
    z = np.eye(5)[labels]
    found = []
    for constant in (10.0, 500.0):
        kernel = Linear(train.mean(axis=0), constant)
        projection = projection_from(solve_in_double(kernel, train, z, 0.0, 64), labels)
        found.append(
            np.linalg.norm((kernel(test, train) @ projection.coefficients)[:, None] - projection.points, axis=2)
        )
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_shift_of_all_features_changes_nothing_under_rbf_and_linear():
    train, labels, test = classes(width=80)
    for kernel in ("rbf", "linear"):
        expected = scores(train, labels, test, kernel=kernel)
        np.testing.assert_allclose(scores(train + 1000, labels, test + 1000, kernel=kernel), expected, rtol=1e-7)


def test_unseen_classes_are_more_novel():
    train, labels, _ = classes(each=20, width=30)
    seen, kept = train[::4], np.arange(len(train)) % 4 != 0
    unseen = np.random.default_rng(9).normal(size=(50, 30)) * 1.3
    baseline = Knfst(kernel="rbf").fit(items(train[kept]), labels[kept])
    assert np.median(baseline.score(items(unseen))) > 1.1 * np.median(baseline.score(items(seen)))


# Where kernels lack rank


@pytest.mark.parametrize("kernel", KERNELS)
def test_duplicates_within_a_class_change_nothing(kernel):
    train, labels, test = classes(width=80)
    again = np.array([3, 3, 17, 40])
    doubled, names = np.concatenate([train, train[again]]), np.concatenate([labels, labels[again]])
    baseline = Knfst(kernel=kernel).fit(items(doubled), names)
    assert len(baseline.vectors_) == len(train)
    assert not baseline.by_eigenvectors_
    np.testing.assert_allclose(baseline.score(items(test)), scores(train, labels, test, kernel=kernel), rtol=1e-12)


def test_merging_duplicates_equals_the_published_algorithm_on_all():
    train, labels, test = classes()
    train[7], labels[7] = train[8], labels[8]
    expected = published(rbf_kernel(train, train, 0.1), labels, rbf_kernel(test, train, 0.1))
    np.testing.assert_allclose(scores(train, labels, test, kernel="rbf", gamma=0.1), expected, rtol=1e-8)


def test_distinct_items_by_hand():
    x = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [-0.0, 3.0], [1.0, 2.5]], dtype=np.float32)
    assert distinct(x, np.array([0, 1, 0, 1, 0])).tolist() == [0, 1, 4]
    assert distinct(np.asfortranarray(x), np.array([0, 1, 0, 1, 0])).tolist() == [0, 1, 4]
    assert distinct(x[:, ::-1], np.array([0, 1, 0, 1, 0])).tolist() == [0, 1, 4]


def test_duplicates_across_classes_are_named():
    train, labels, _ = classes()
    train[20] = train[4]
    labels[[4, 20]] = [3, 1]
    with pytest.raises(OutclassError, match=r"1 training items .* as 4 \(class 3\) and 20 \(class 1\)"):
        Knfst().fit(items(train), labels)


def test_linear_kernel_on_centred_data():
    # As many features as items less one: the plain kernel matrix is singular, the differences are not.
    train, labels, test = classes(3, 7, width=20)
    centre = train.mean(axis=0)
    train, test = train - centre, test - centre
    assert np.linalg.matrix_rank(train @ train.T) == len(train) - 1
    baseline = Knfst(kernel="linear").fit(items(train), labels)
    assert not baseline.by_eigenvectors_
    expected = published(train @ train.T, labels, test @ train.T)
    np.testing.assert_allclose(baseline.score(items(test)), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "baseline", [Knfst(kernel="linear"), Knfst(degree=2), Knfst(degree=2, constant=0.0), Knfst(degree=1)]
)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_too_few_dimensions_leave_no_null_space(baseline, precision):
    train, labels, _ = classes(4, 20, width=6)  # 80 items; degree 2: 6 + 21 + 1 = 28 dimensions
    baseline.precision = precision
    with pytest.raises(OutclassError, match=r"80 training items leave no null space .* ridge, which is another"):
        baseline.fit(items(train), labels)


def test_kernel_too_smooth_for_double_precision_is_refused():
    train, labels, _ = classes(4, 50, width=3)
    with pytest.raises(OutclassError, match=r"no null space under the rbf kernel\. .* larger gamma"):
        Knfst(kernel="rbf", gamma=1e-3).fit(items(train), labels)


def flat_classes(seed=0):
    """Three classes in 10 dimensions, 8 items each: all scatter in the first 4, centres differ in the other 6."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), 8)
    train = np.zeros((24, 10))
    train[:, :4] = rng.normal(size=(24, 4))
    train[:, 4:] = rng.normal(size=(3, 6))[labels]
    return train, labels, rng.normal(size=(15, 10))


def test_rank_deficient_kernel_with_a_null_space_is_decomposed():
    train, labels, test = flat_classes()
    baseline = Knfst(kernel="linear").fit(items(train), labels)
    assert baseline.by_eigenvectors_
    assert baseline.projection_.points.shape == (3, 2)
    found = baseline.score(items(test))
    np.testing.assert_allclose(found, published(train @ train.T, labels, test @ train.T), rtol=1e-8)
    # By hand: distance to the nearest centre, within the plane through the three centres.
    centres = train[[0, 8, 16], 4:]
    plane = np.linalg.qr((centres[1:] - centres[0]).T).Q
    expected = np.linalg.norm((test[:, None, 4:] - centres) @ plane, axis=2).min(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert baseline.score(items(train)).max() < 1e-12


@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_fewer_directions_than_classes_less_one(offset):
    # Classes 0 and 1 differ in nothing that is free of scatter: one direction, although there are three classes.
    train, labels, test = flat_classes()
    train[:, 4:] = np.outer(labels == 2, np.ones(6)) + offset
    baseline = Knfst(kernel="linear").fit(items(train), labels)
    assert baseline.projection_.points.shape == (3, 1)
    found = baseline.score(items(test))
    np.testing.assert_allclose(found, published_scores(baseline, train, labels, test), rtol=1e-6)


@pytest.mark.parametrize("precision", ["single", "double"])
@settings(max_examples=150, derandomize=True, database=None, deadline=None)
@given(data=st.data(), width=st.integers(1, 6), count=st.integers(2, 4))
def test_any_degenerate_data_give_the_true_number_of_directions_or_an_error(precision, data, width, count):
    # Small whole numbers have many ties. The null space is what the total scatter has and the within-class lacks.
    rows = data.draw(st.lists(st.lists(st.integers(-2, 2), min_size=width, max_size=width), min_size=4, max_size=12))
    train, labels = np.array(rows, dtype=float), np.arange(len(rows)) % count
    within = train - np.stack([train[labels == label].mean(axis=0) for label in range(count)])[labels]
    total = train - train.mean(axis=0)
    directions = np.linalg.matrix_rank(total, tol=1e-9) - np.linalg.matrix_rank(within, tol=1e-9)
    try:
        baseline = Knfst(kernel="linear", precision=precision).fit(items(train), labels)
    except OutclassError as error:
        across = len(np.unique(np.column_stack([train, labels]), axis=0)) > len(np.unique(train, axis=0))
        assert "other classes" in str(error) if across else directions == 0  # noqa: PT017
        return
    assert baseline.projection_.points.shape[1] == directions
    assert baseline.score(items(train)).max() < 1e-5


def test_items_equal_under_the_kernel_only():
    # An even power without a constant does not tell x from -x.
    train, labels, test = classes(3, 8)
    train = np.concatenate([train, -train[:2]])
    labels = np.concatenate([labels, labels[:2]])
    baseline = Knfst(degree=2, constant=0.0).fit(items(train), labels)
    assert baseline.by_eigenvectors_
    np.testing.assert_allclose(baseline.score(items(test)), published_scores(baseline, train, labels, test), rtol=1e-8)


def test_one_item_a_class():
    train, _, test = classes(width=80)
    labels = np.arange(len(train))
    baseline = Knfst(kernel="linear").fit(items(train), labels)
    # Nothing scatters, so all differences are kept: distances within the span of the items.
    basis = np.linalg.qr((train[1:] - train[0]).T).Q
    expected = np.linalg.norm((test[:, None] - train) @ basis, axis=2).min(axis=1)
    np.testing.assert_allclose(baseline.score(items(test)), expected, rtol=1e-9)
    rbf = scores(train, labels, test, kernel="rbf", gamma=0.05)
    kernel = rbf_kernel(train, train, 0.05)
    np.testing.assert_allclose(rbf, published(kernel, labels, rbf_kernel(test, train, 0.05)), rtol=1e-9)


def test_single_items_beside_larger_classes():
    train, labels, test = classes(3, 10)
    train, labels = np.concatenate([train, test[:2]]), np.concatenate([labels, [3, 4]])
    expected = published(rbf_kernel(train, train, 0.1), labels, rbf_kernel(test, train, 0.1))
    found = scores(train, labels, test, kernel="rbf", gamma=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert found[:2].max() < 1e-9


# The ridge


def test_ridge_is_another_detector():
    train, labels, test = classes(4, 20, width=6)
    baseline = Knfst(degree=2, ridge=0.1).fit(items(train), labels)
    assert baseline.score(items(train)).min() > 1e-3  # no class falls onto its point
    projected = baseline.kernel_(train, train) @ baseline.projection_.coefficients
    means = np.stack([projected[labels == label].mean(axis=0) for label in range(4)])
    np.testing.assert_allclose(baseline.projection_.points, means, atol=1e-10)
    assert not np.allclose(baseline.score(items(test)), scores(train, labels, test, degree=2, ridge=0.2), rtol=1e-3)


def test_ridge_is_never_added_silently():
    assert Knfst().ridge == 0
    train, labels, _ = classes()
    assert scores(train, labels, train).max() < 1e-8


def test_ridge_approaches_the_exact_projection():
    train, labels, test = classes()
    exact = scores(train, labels, test, kernel="rbf", gamma=0.1)
    gaps = [
        abs(scores(train, labels, test, kernel="rbf", gamma=0.1, ridge=r) - exact).max() for r in (1e-3, 1e-5, 1e-7)
    ]
    assert gaps[0] > 50 * gaps[1] > 2500 * gaps[2]


def test_ridge_keeps_duplicates_as_they_come():
    train, labels, test = classes()
    train[7] = train[8]
    labels[[7, 8]] = [0, 1]
    baseline = Knfst(kernel="rbf", ridge=0.01).fit(items(train), labels)
    assert len(baseline.vectors_) == len(train)
    assert np.isfinite(baseline.score(items(test))).all()


def test_ridge_lost_in_rounding_is_refused():
    train, labels, _ = classes(4, 20, width=6)
    with pytest.raises(OutclassError, match="ridge 1e-18 is lost"):
        Knfst(degree=2, ridge=1e-18).fit(items(train), labels)


# Precision and blocks


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("kernel", KERNELS)
def test_refined_single_precision_agrees_with_double_to_one_in_a_million(kernel, ridge):
    train, labels, test = classes(8, 30, width=300, offset=0.3)
    train, test = train.astype(np.float32), test.astype(np.float32)
    double, single = (
        scores(train, labels, test, kernel=kernel, ridge=ridge, precision=precision)
        for precision in ("double", "single")
    )
    np.testing.assert_allclose(single, double, rtol=1e-6)


def test_refinement_gives_what_single_precision_alone_does_not(monkeypatch):
    train, labels, _ = classes(8, 30, width=12)
    kernel, z = Rbf(0.01, train.mean(axis=0)), np.eye(8)[labels]
    exact = np.linalg.solve(kernel(train, train), z)
    error = lambda solution: np.linalg.norm(solution - exact) / np.linalg.norm(exact)  # noqa: E731
    plain = np.linalg.solve(kernel(train, train, np.float32), z.astype(np.float32))
    assert error(plain) > 1e-4
    assert error(solve_in_single(kernel, train, z, 0.0, 64)) < 1e-6
    monkeypatch.setattr(kernel_systems, "REFINED", 1e-11)
    assert error(solve_in_single(kernel, train, z, 0.0, 64)) < 1e-9


def test_kernels_beyond_single_precision_are_solved_in_double():
    train, labels, test = classes(4, 30, width=6)
    kernel, z = Rbf(0.005, train.mean(axis=0)), np.eye(4)[labels]
    assert np.linalg.cond(kernel(train, train)) > 1e8
    assert solve_in_single(kernel, train, z, 0.0, 64) is None
    single, double = (
        scores(train, labels, test, kernel="rbf", gamma=0.005, precision=precision)
        for precision in ("single", "double")
    )
    np.testing.assert_array_equal(single, double)


def test_kernel_values_beyond_single_precision_are_computed_in_double():
    train, labels, test = classes()
    single = scores(train, labels, test, gamma=1e16, precision="single")
    np.testing.assert_array_equal(single, scores(train, labels, test, gamma=1e16, precision="double"))
    with pytest.raises(OutclassError, match="lower gamma or degree"):
        Knfst(gamma=1e150).fit(items(train), labels)


def test_many_items_are_solved_in_single_precision_unless_told_otherwise(monkeypatch):
    train, labels, _ = classes()
    used = []
    for name in ("solve_in_single", "solve_in_double"):
        solve = getattr(knfst, name)
        monkeypatch.setattr(knfst, name, lambda *system, name=name, solve=solve: used.append(name) or solve(*system))
    Knfst(kernel="rbf").fit(items(train), labels)
    monkeypatch.setattr(knfst, "LARGEST_DOUBLE", len(train) - 1)
    Knfst(kernel="rbf").fit(items(train), labels)
    Knfst(kernel="rbf", precision="double").fit(items(train), labels)
    assert used == ["solve_in_double", "solve_in_single", "solve_in_double"]


def test_large_rank_deficient_kernels_are_refused(monkeypatch):
    train, labels, _ = flat_classes()
    monkeypatch.setattr(knfst, "LARGEST_EIGENPROBLEM", 23)
    with pytest.raises(OutclassError, match="24 training items is rank deficient"):
        Knfst(kernel="linear").fit(items(train), labels)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("block", [1, 7, 59])
def test_blocks_change_nothing(kernel, precision, block):
    train, labels, test = classes(width=80)
    whole, blocked = (
        scores(train, labels, test, kernel=kernel, precision=precision, block=size) for size in (1000, block)
    )
    np.testing.assert_allclose(blocked, whole, rtol=1e-9 if precision == "double" else 1e-6)


@pytest.mark.parametrize("block", [1, 7, 59, 60, 61])
def test_blocked_products_and_triangles_equal_whole_ones(block):
    train, labels, _ = classes()
    kernel, z = Polynomial(2, 0.1, 1.0), np.eye(5)[labels]
    matrix = kernel(train, train)
    np.testing.assert_allclose(kernel_times(kernel, train, z, block), matrix @ z, rtol=1e-12)
    triangle = np.tril(lower_triangle(kernel, train, 0.5, np.float64, block))
    np.testing.assert_allclose(triangle, np.tril(matrix + 0.5 * np.eye(60)), rtol=1e-12)


# What else may be given


def test_scores_of_confidences():
    train, labels, test = classes()
    expected = scores(train, labels, test)
    nothing = np.empty((len(train), 0)), np.empty((len(test), 0))
    baseline = Knfst(on="confidences").fit(Items(train, nothing[0]), labels)
    np.testing.assert_array_equal(baseline.score(Items(test, nothing[1])), expected)
    with pytest.raises(OutclassError, match="KNFST on confidences: the items have none"):
        Knfst(on="confidences").fit(items(train), labels)


def test_scores_do_not_depend_on_what_else_is_scored():
    train, labels, test = classes()
    baseline = Knfst().fit(items(train), labels)
    np.testing.assert_allclose(baseline.score(items(test[3:4])), baseline.score(items(test))[3:4], rtol=1e-10)
    assert baseline.score(items(test[:0])).shape == (0,)
    np.testing.assert_array_equal(baseline.score(items(test), size=5), baseline.score(items(test)))


def test_the_same_fit_twice_is_the_same():
    train, labels, test = classes()
    np.testing.assert_array_equal(scores(train, labels, test), scores(train, labels, test))


def test_one_class_is_refused():
    with pytest.raises(OutclassError, match="at least two classes"):
        Knfst().fit(items(np.eye(3)), np.zeros(3, dtype=int))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_training_items_that_are_not_finite_are_refused(value):
    train, labels, _ = classes()
    train[3, 3] = value
    with pytest.raises(OutclassError, match="not finite"):
        Knfst().fit(items(train), labels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"degree": 0}, "degree 0"),
        ({"degree": 1.5}, r"degree 1\.5"),
        ({"gamma": 0.0}, "gamma positive"),
        ({"constant": -1.0}, "constant not negative"),
        ({"kernel": "cosine"}, "choose polynomial, rbf or linear"),
        ({"ridge": -0.1}, "must not be negative"),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    train, labels, _ = classes()
    with pytest.raises(OutclassError, match=message):
        Knfst(**wrong).fit(items(train), labels)


def test_scaled_gamma_by_hand():
    # Entries 0, 2, 4, 6: mean 3, variance 5; two columns: 1 / (2 * 5).
    assert scaled("scale", np.array([[0.0, 2.0], [4.0, 6.0]])) == pytest.approx(0.1)
    assert scaled("scale", np.ones((3, 2))) == 1.0
    assert scaled(0.3, np.ones((3, 2))) == 0.3
