"""Counts, sums and second moments of the classes: all that the Gaussian methods need to know of the train items.

They are summed over blocks of items, in double precision. For a subset of the classes they follow from those of all:
counts and sums are kept by class, and the products of the items that do not belong are subtracted, which is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.blocks import slices
from outclass.errors import OutclassError

Shrinkage = float | Literal["auto"]
SMALLEST_PIVOT = 1e-7
"""Smaller ones, relative to the largest, are rounding: their squares are below the precision of the products."""


@dataclass(frozen=True)
class Moments:
    """Sums and products are taken about a centre amid the items, which keeps them accurate and changes nothing else."""

    centre: Floats  # (d,)
    count: Ints  # (k,); 0 for classes that are left out
    sums: Floats  # (k, d)
    products: Floats  # (d, d)

    @property
    def classes(self) -> Ints:
        """The classes that have items, in the order of ``means``."""
        return np.flatnonzero(self.count)

    @property
    def counts(self) -> Ints:
        return np.asarray(self.count[self.classes])

    @property
    def means(self) -> Floats:
        """The mean of each class that has items."""
        return np.asarray(self.centre + self.sums[self.classes] / self.counts[:, None])

    @property
    def mean(self) -> Floats:
        """The mean of all items."""
        return np.asarray(self.centre + self.sums.sum(axis=0) / self.count.sum())

    @property
    def within_scatter(self) -> Floats:
        """Sum over items of (x - mean of its class) (x - mean of its class)^T."""
        scaled = self.sums[self.classes] / np.sqrt(self.counts)[:, None]
        return np.asarray(self.products - scaled.T @ scaled)

    @property
    def total_scatter(self) -> Floats:
        """Sum over items of (x - mean of all) (x - mean of all)^T."""
        offset = self.mean - self.centre
        return np.asarray(self.products - self.count.sum() * np.outer(offset, offset))


def class_sums(features: Floats, labels: Ints, classes: int, centre: Floats | float = 0.0) -> tuple[Ints, Floats]:
    """The number of items (k,) and the sum of features - centre (k, d) of each class."""
    sums = np.zeros((classes, features.shape[1]))
    for rows in slices(len(features), features.shape[1]):
        sums += _add_by_class(_centred(features[rows], centre), labels[rows], classes)
    return np.bincount(labels, minlength=classes), sums


def class_means(features: Floats, labels: Ints) -> Floats:
    """The mean (k, d) of each class 0 to k - 1."""
    count, sums = class_sums(features, labels, labels.max() + 1)
    return np.asarray(sums / _all_present(count)[:, None])


def class_moments(features: Floats, labels: Ints, classes: int | None = None) -> Moments:
    """The moments of classes 0 to ``classes`` - 1; by default as many as the labels name."""
    k = int(labels.max()) + 1 if classes is None else classes
    centre = features.mean(axis=0, dtype=np.float64)
    sums, products = np.zeros((k, len(centre))), np.zeros((len(centre),) * 2)
    for rows in slices(*features.shape):
        x = _centred(features[rows], centre)
        sums += _add_by_class(x, labels[rows], k)
        products += x.T @ x
    return Moments(centre, np.bincount(labels, minlength=k), sums, products)


def subset_moments(features: Floats, labels: Ints, taught: Bools) -> Iterator[Moments]:
    """The moments of the classes that each row of ``taught`` (L, k) marks, one row after the other."""
    every = class_moments(features, labels, taught.shape[1])
    for row, classes in enumerate(taught):
        if not every.count[classes].any():
            raise OutclassError(f"subset {row} of the classes has no items: mark at least one class that has some")
        count, sums = every.count * classes, every.sums * classes[:, None]
        yield Moments(every.centre, count, sums, _subset_products(features, labels, classes, every))


def shrink(covariance: Floats, shrinkage: float) -> Floats:
    """(1 - a) C + a tr(C) / d I: eigenvalues drawn towards their mean by the share a (Ledoit & Wolf 2004)."""
    if not 0 <= shrinkage <= 1:
        raise OutclassError(f"shrinkage {shrinkage} is not a share: give a number from 0 to 1")
    shrunk = (1 - shrinkage) * covariance
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * covariance.trace() / len(covariance)
    return shrunk


def ledoit_wolf_shrinkage(scatter: Floats, fourth: float, n: int) -> float:
    """The share a of ``shrink`` with the least expected squared error (Ledoit & Wolf 2004).

    With C = scatter / n, m = tr(C) / d and |.|^2 the sum of squared entries:

        a = min(b, |C - m I|^2) / |C - m I|^2,        b = (sum over items of |x|^4 / n - |C|^2) / n

    ``fourth`` is the sum of |x|^4, where x is what the scatter sums the outer products of.
    """
    covariance = scatter / n
    squares = float((covariance**2).sum())
    spread = squares - covariance.trace() ** 2 / len(covariance)
    noise = (fourth / n - squares) / n
    return min(noise, spread) / spread if spread > 0 and noise > 0 else 0.0


def fourth_powers(features: Floats, centres: Floats, labels: Ints) -> float:
    """Sum over items of |x - centre of its label|^4, for Ledoit and Wolf's shrinkage."""
    total = 0.0
    for rows in slices(*features.shape):
        x = _centred(features[rows], centres[labels[rows]])
        total += float((np.einsum("ij,ij->i", x, x) ** 2).sum())
    return total


def cholesky(covariance: Floats) -> Floats:
    """The lower factor L of L L^T = covariance, or an answer to what makes it singular."""
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        factor = np.zeros_like(covariance)
    diagonal = factor.diagonal()
    if not diagonal.min() > SMALLEST_PIVOT * diagonal.max():
        raise OutclassError(
            "the features' covariance within classes is singular (a constant feature, or fewer items than features): "
            "raise the shrinkage, or give more items in each class"
        )
    return np.asarray(factor)


def whiten(vectors: Floats, factor: Floats) -> Floats:
    """Vectors (n, d) in coordinates in which the covariance L L^T is the identity."""
    solved = scipy.linalg.solve_triangular(factor, vectors.T, lower=True, check_finite=False)
    return np.asarray(solved.T)


def _centred(features: Floats, centre: Floats | float) -> Floats:
    return np.asarray(np.subtract(features, centre, dtype=np.float64))


def _add_by_class(x: Floats, labels: Ints, classes: int) -> Floats:
    """The sum (k, d) of each class's rows."""
    rows = np.arange(len(x) + 1)
    one_hot = scipy.sparse.csr_array((np.ones(len(x)), labels, rows), shape=(len(x), classes))
    return np.asarray(one_hot.T @ x)


def _subset_products(features: Floats, labels: Ints, classes: Bools, every: Moments) -> Floats:
    """Sum of the outer products of the items of some classes, from the items on the smaller side."""
    taught = classes[labels]
    few = np.flatnonzero(taught if 2 * taught.sum() < len(taught) else ~taught)
    products = np.zeros_like(every.products)
    for rows in slices(len(few), features.shape[1]):
        x = _centred(features[few[rows]], every.centre)
        products += x.T @ x
    return products if 2 * taught.sum() < len(taught) else every.products - products


def _all_present(count: Ints) -> Ints:
    if not count.all():
        raise OutclassError(f"class {int(count.argmin())} has no items: number the classes without gaps")
    return count
