"""Kernel null Foley-Sammon transform (Bodesheim et al. 2013, "Kernel null space methods for novelty detection").

Training items are projected onto all unit directions of feature space, within the span of their differences, along
which every class has no scatter: each class becomes one point. Novelty is the distance to the nearest class point.

A direction is a combination alpha of training items. With K their kernel matrix and Z (n, k) the class indicators, no
scatter means K alpha = Z m for some m (k,). If K is positive definite, that is alpha = A m with A = K^-1 Z, and with
G = Z^T K^-1 Z = Z^T A = R^T R (Cholesky)

    unit length, mutually orthogonal:      alpha^T K alpha = m^T G m       M^T G M = I       M = R^-1 Q,  Q^T Q = I
    in the span of differences:            1^T alpha = 1^T G m = 0         M^T G 1 = 0       Q^T R 1 = 0

so Q is any orthonormal basis of the complement of R 1, x is projected to k_x A M, and the class points are the rows of
M. One Cholesky factorisation of K replaces the published eigendecompositions, and the scores are the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.contract import Items, Uses
from outclass.baselines.kernel_systems import ROUNDING, blocks, solve_in_double, solve_in_single
from outclass.baselines.kernels import KernelName, kernel_for
from outclass.errors import OutclassError

Precision = Literal["single", "double", "auto"]

SAME_ANGLE = 1e-6
"""Subspaces that enclose a smaller angle are taken to meet: such a direction scatters a class by a millionth."""

LARGEST_DOUBLE = 16_384
"""Training items up to which K is held in double precision (2 GB) if nothing else is asked for."""

LARGEST_EIGENPROBLEM = 8_192
"""Training items up to which a rank-deficient K is decomposed (minutes, and several times K's memory)."""

ADVICE = (
    "Take a kernel of more dimensions (rbf, with a larger gamma if need be, or a polynomial of higher degree), fewer "
    "training items, or a positive ridge, which is another detector"
)


class Projection(NamedTuple):
    coefficients: Floats  # (n, q): an item with kernel values k_x (n,) is projected to k_x @ coefficients
    points: Floats  # (k, q): where the classes are projected to


def indicators(labels: Ints) -> Floats:
    """Z (n, k): one where the item is of the class."""
    return np.asarray(labels[:, None] == np.arange(labels.max() + 1), dtype=np.float64)


def projection_from(solution: Floats, labels: Ints, ridge: float = 0.0) -> Projection:
    """The projection that follows from A = (K + ridge I)^-1 Z.

    The class points are the means of the projected classes; K A = Z - ridge A gives them without K.
    """
    z = indicators(labels)
    gram = z.T @ solution
    r = np.linalg.cholesky((gram + gram.T) / 2).T
    m = scipy.linalg.solve_triangular(r, _complement(r.sum(axis=1)))
    return Projection(solution @ m, m - ridge * (gram @ m) / z.sum(axis=0)[:, None])


def subset_solutions(inverse: Floats, labels: Ints, taught: Bools) -> Iterator[tuple[Bools, Floats]]:
    """From K^-1 of all items, for each row of ``taught`` (L, k): which items are of its classes, and A of these alone.

    With P = K^-1 in blocks of taught (t) and other (u) items, the inverse of K_tt is P_tt - P_tu P_uu^-1 P_ut: exact,
    and cheap where the others are few.
    """
    for classes in taught:
        items = classes[labels]
        z = np.asarray(labels[items][:, None] == np.flatnonzero(classes), dtype=np.float64)
        solution = inverse[np.ix_(items, items)] @ z
        if not items.all():
            across = inverse[np.ix_(items, ~items)]
            solution -= across @ np.linalg.solve(inverse[np.ix_(~items, ~items)], across.T @ z)
        yield items, solution


def _complement(vector: Floats) -> Floats:
    """An orthonormal basis (k, k - 1) of all that is orthogonal to a vector (k,)."""
    return np.asarray(np.linalg.qr(vector[:, None], mode="complete").Q[:, 1:])


def projection_by_eigenvectors(matrix: Floats, labels: Ints) -> Projection:
    """The same from a kernel matrix K (n, n) of any rank, by the eigenvectors of the centred K as published.

    With the centred K = V diag(e) V^T, e > 0, the projected classes T = K alpha have to lie in the range of V and be
    constant on classes: the class-constant vectors without a part among the other eigenvectors. Then alpha = K^+ T.
    There may be fewer than k - 1 of them, or none.
    """
    values, vectors = np.linalg.eigh(_doubly_centred(matrix))
    positive = values > ROUNDING * matrix.trace()
    z = indicators(labels)
    roots = np.sqrt(z.sum(axis=0))
    constant_on_classes = z / roots @ _complement(roots)  # orthonormal, of mean zero
    targets = constant_on_classes @ _kernel_of(vectors[:, ~positive].T @ constant_on_classes)
    part = vectors[:, positive].T @ targets
    r = np.linalg.cholesky(part.T @ (part / values[positive, None])).T
    coefficients = vectors[:, positive] @ _over(part / values[positive, None], r)
    offset = matrix.mean(axis=0) @ coefficients  # k_x is not centred
    return Projection(coefficients, z.T @ _over(targets, r) / roots[:, None] ** 2 + offset)


def _doubly_centred(matrix: Floats) -> Floats:
    means = matrix.mean(axis=0)
    return np.asarray(matrix - means - means[:, None] + means.mean())


def _kernel_of(matrix: Floats) -> Floats:
    """An orthonormal basis of what a matrix takes to zero; its singular values are sines of angles."""
    _, sines, right = np.linalg.svd(np.linalg.qr(matrix, mode="r"))  # the matrix may be tall
    return np.asarray(right[(sines > SAME_ANGLE).sum() :].T)


def _over(matrix: Floats, r: Floats) -> Floats:
    """matrix @ r^-1, r upper triangular."""
    return np.asarray(scipy.linalg.solve_triangular(r, matrix.T, trans="T").T)


def distinct(x: Floats, labels: Ints) -> Ints:
    """The positions of the items that are left when exact duplicates within a class are merged, in order.

    They change nothing: a class without scatter has the same differences with and without them.
    """
    rows = np.ascontiguousarray(x + 0.0)  # -0.0 and 0.0 are the same value of different bytes
    as_bytes = rows.view(np.dtype((np.void, rows.strides[0])))[:, 0]
    _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    clash = np.flatnonzero(labels != labels[first[which]])
    if len(clash):
        item, other = clash[0], first[which[clash[0]]]
        raise OutclassError(
            f"{len(clash)} training items have exact duplicates in other classes, as {other} (class {labels[other]}) "
            f"and {item} (class {labels[item]}), counted from 0: nothing separates such classes. Remove those items "
            "or correct their labels"
        )
    return np.sort(first)


@dataclass
class Knfst:
    """Distance to the nearest class point in the null space.

    Where K is positive definite, the projection comes from its Cholesky factor: in double precision up to
    ``LARGEST_DOUBLE`` training items, beyond that in refined single precision ("auto"). Where K is rank deficient, it
    comes from eigenvectors. Either way it is the published one; if there is none, ``fit`` says so.

    A positive ridge is ANOTHER detector: K + ridge I always gives a projection, but training items no longer fall onto
    their class points, which are then the means of the projected classes.
    """

    kernel: KernelName = "polynomial"
    degree: int = 3  # of the polynomial
    gamma: float | Literal["scale"] = "scale"  # of polynomial and rbf; "scale": 1 / (width * variance)
    constant: float = 1.0  # of the polynomial
    ridge: float = 0.0  # added to the diagonal of K
    on: Literal["features", "confidences"] = "features"
    precision: Precision = "auto"
    block: int = 512  # items a side of the blocks in which K is computed
    name: ClassVar[str] = "knfst"
    uses: ClassVar[Uses] = "both"

    def fit(self, items: Items, labels: Ints) -> Self:
        x = self._vectors(items)
        _check(x, labels, self.ridge)
        kept = np.arange(len(x)) if self.ridge else distinct(x, labels)
        self.vectors_, labels = (x, labels) if len(kept) == len(x) else (x[kept], labels[kept])
        self.kernel_ = kernel_for(self.kernel, self.vectors_, self.degree, self.gamma, self.constant)
        solution = self._solve(indicators(labels))
        self.by_eigenvectors_ = solution is None
        self.projection_ = (
            self._decompose(labels) if solution is None else projection_from(solution, labels, self.ridge)
        )
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        x = self._vectors(items)
        return np.concatenate([self._distances(x[rows]) for rows in blocks(len(x), self.block)] or [np.empty(0)])

    def _distances(self, x: Floats) -> Floats:
        parts = blocks(len(self.vectors_), self.block)
        projected = sum(self.kernel_(x, self.vectors_[part]) @ self.projection_.coefficients[part] for part in parts)
        return np.asarray(scipy.spatial.distance.cdist(projected, self.projection_.points).min(axis=1))

    def _solve(self, targets: Floats) -> Floats | None:
        """A, in single precision if that is asked for and enough, otherwise in double; None if K is not definite."""
        system = (self.kernel_, self.vectors_, targets, self.ridge, self.block)
        single = self.precision == "single" or (self.precision == "auto" and len(targets) > LARGEST_DOUBLE)
        solution = solve_in_single(*system) if single else None
        return solve_in_double(*system) if solution is None else solution

    def _decompose(self, labels: Ints) -> Projection:
        count = len(self.vectors_)
        if self.ridge:
            raise OutclassError(f"ridge {self.ridge} is lost in the rounding of the kernel matrix: raise it")
        if count > LARGEST_EIGENPROBLEM:
            raise OutclassError(f"the kernel matrix of {count} training items is rank deficient and large. {ADVICE}")
        projection = projection_by_eigenvectors(self.kernel_(self.vectors_, self.vectors_), labels)
        if projection.points.shape[1] == 0:
            raise OutclassError(f"{count} training items leave no null space under the {self.kernel} kernel. {ADVICE}")
        return projection

    def _vectors(self, items: Items) -> Floats:
        x = items.features if self.on == "features" else items.confidences
        if x.shape[1] == 0:
            raise OutclassError(f"KNFST on {self.on}: the items have none")
        return x


def _check(x: Floats, labels: Ints, ridge: float) -> None:
    if labels.max(initial=0) < 1:
        raise OutclassError("KNFST needs training items of at least two classes")
    if not np.isfinite(x).all():
        raise OutclassError("KNFST: training items have entries that are not finite: remove or mend those items")
    if ridge < 0:
        raise OutclassError(f"ridge {ridge}: it must not be negative")
