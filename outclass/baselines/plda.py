"""The two-covariance likelihood ratio (Ioffe 2006): does a set come from a known class, or from one never seen?

Class means are drawn from N(m, B), items from N(mean of their class, W). In coordinates where m = 0, W = I and B is
diagonal with entries q, the mean z of s items is distributed, dimension by dimension, as

    N(a m_c, v + 1/s),  a = n_c q / (n_c q + 1),  v = q / (n_c q + 1)      from class c with n_c items of mean m_c
    N(0, q + 1/s)                                                          from a class never seen

Novelty is minus the largest log ratio of the two densities over the classes. W is the pooled covariance within classes,
shrunk. B follows from moments: the covariance of the class means has expectation B + W mean(1 / n_c). Where q would be
negative it is 0, and such a dimension tells nothing. So at most k - 1 dimensions remain, found without an
eigenproblem of the features' width: with W = L L^T and the centred class means as columns of A / sqrt(k - 1), they are
the left singular vectors of L^-1 A, and q is the squared singular value minus mean(1 / n_c).

Classes never seen may differ in yet other directions than the k known ones do. To shrink B as well, towards a multiple
of the identity, says so: then more dimensions count, and in those without class differences so far, a set away from the
mean of all speaks for a new class. (A share too small to make up for the W mean(1 / n_c) that was taken off leaves such
dimensions out.) This takes one eigenproblem of the features' width.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy

from outclass.arrays import Floats, Ints
from outclass.baselines.blocks import by_blocks
from outclass.baselines.contract import Items, Uses
from outclass.baselines.statistics import Moments, cholesky, class_moments, shrink, whiten
from outclass.errors import OutclassError

SMALLEST_BETWEEN = 1e-9
"""Smaller variances between classes, in units of that within them, are rounding."""


class TwoCovariances(NamedTuple):
    mean: Floats  # (d,) of the class means
    axes: Floats  # (d, r) with axes^T W axes = I and axes^T B axes = diag(between)
    between: Floats  # (r,) q > 0
    means: Floats  # (k, r) of the classes, in these coordinates
    counts: Ints  # (k,) items of each class


def two_covariances(moments: Moments, shrinkage: float, between_shrinkage: float = 0.0) -> TwoCovariances:
    """The model of all classes that have items; the shares are those by which W and B are shrunk."""
    means, counts = moments.means, moments.counts
    k, n = len(counts), int(counts.sum())
    if k < 2 or n == k:
        raise OutclassError(f"PLDA of {n} items in {k} classes: give two classes or more, and one with several items")
    factor = cholesky(shrink(moments.within_scatter / (n - k), shrinkage))
    mean = means.mean(axis=0)
    columns = whiten(means - mean, factor).T / np.sqrt(k - 1)
    bias = float((1 / counts).mean())
    if between_shrinkage == 0:
        directions, between = _seen_directions(columns, bias)
    else:
        directions, between = _all_directions(columns, bias, factor, between_shrinkage)
    kept = between > SMALLEST_BETWEEN
    axes = scipy.linalg.solve_triangular(factor, directions[:, kept], lower=True, trans="T")
    return TwoCovariances(mean, axes, between[kept], (means - mean) @ axes, counts)


def _seen_directions(columns: Floats, bias: float) -> tuple[Floats, Floats]:
    """Eigenvectors and eigenvalues of L^-1 B L^-T in the span of the class means."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left, singular**2 - bias


def _all_directions(columns: Floats, bias: float, factor: Floats, share: float) -> tuple[Floats, Floats]:
    """Likewise for (1 - a) B + a tr(B) / d I, of which fewer eigenvalues are negative."""
    width = len(factor)
    whitened = columns @ columns.T
    whitened[np.diag_indices(width)] -= bias
    trace = ((factor @ columns) ** 2).sum() - bias * (factor**2).sum()  # of B, as L L^T = W
    inverse = scipy.linalg.solve_triangular(factor, np.eye(width), lower=True)
    isotropic = max(float(trace), 0.0) / width * inverse @ inverse.T
    between, directions = scipy.linalg.eigh((1 - share) * whitened + share * isotropic)
    return directions, between


def log_ratios(model: TwoCovariances, vectors: Floats, size: int = 1) -> Floats:
    """log N(z; a m_c, v + 1/s) - log N(z; 0, q + 1/s) for means of ``size`` items (n, d) and each class: (n, k)."""
    q, n = model.between, model.counts[:, None]
    z = (vectors - model.mean) @ model.axes
    known, unseen = q / (n * q + 1) + 1 / size, q + 1 / size  # variances (k, r) and (r,)
    expected = n * q / (n * q + 1) * model.means
    constant = (np.log(known / unseen) + expected**2 / known).sum(axis=1)
    return np.asarray(z @ (expected / known).T - (z**2 @ (1 / known - 1 / unseen).T + constant) / 2)


@dataclass
class Plda:
    """The only method here that models how the noise of a mean falls with the size of the set."""

    shrinkage: float = 0.1  # of W
    between_shrinkage: float = 0.0  # of B; more where new classes may differ in new directions
    name: ClassVar[str] = "plda"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        self.model_ = two_covariances(class_moments(items.features, labels), self.shrinkage, self.between_shrinkage)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return by_blocks(lambda x: -log_ratios(self.model_, x, size).max(axis=1), items.features)
