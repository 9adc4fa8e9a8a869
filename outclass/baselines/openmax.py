"""OpenMax (Bendale & Boult 2016): the probability of a class of its own for all that is unknown.

Each class c has the mean activities m_c of its correctly classified train items, and a Weibull distribution of their
largest distances |u - m_c|. It is fitted by maximum likelihood after a shift, as the authors' library libMR does:

    F_c(x) = 1 - exp(-((x - smallest distance of the tail + SHIFT) / scale)^shape)

The a classes of the largest activities, of rank i = 1 ... a, give the share w = (a + 1 - i) / a F_c(|u - m_c|) of their
activity to the unknown class 0, as in the authors' programme (the paper prints the weights a little differently):

    novelty = exp(u_0) / (exp(u_0) + sum over c of exp(u_c (1 - w_c))),        u_0 = sum over c of u_c w_c
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.blocks import by_blocks
from outclass.baselines.contract import Items, Uses
from outclass.baselines.statistics import class_means
from outclass.errors import OutclassError

SHIFT = 10_000.0
"""libMR's. Being much larger than the distances, it makes the tail a Gumbel distribution of smallest values."""
SMALLEST_SPREAD = 1e-12
"""Of distances that are the same but for rounding, as those of two items from their mean: F becomes a step."""
BRACKET = (1e-2, 1e4)
"""Of the shape that fits standardised values: it is 1.2 for two, and about the root of their number for the oddest."""


class Weibulls(NamedTuple):
    """One distribution a class, of y = log(1 + (distance - smallest) / SHIFT): F = 1 - exp(-exp(shape (y - scale)))."""

    smallest: Floats  # (k,)
    shape: Floats  # (k,)
    scale: Floats  # (k,) its logarithm, relative to SHIFT

    def cumulative(self, distances: Floats) -> Floats:
        """F of distances (n, k) from each class; 0 far below the tail."""
        y = np.log1p(np.maximum((distances - self.smallest) / SHIFT, -1 + 1e-9))
        return np.asarray(-np.expm1(-np.exp(np.minimum(self.shape * (y - self.scale), 700))))


def tails(distances: Floats, labels: Ints, size: int) -> tuple[Floats, Bools]:
    """The largest distances (k, size) of each class, and which of them exist."""
    order = np.lexsort((-distances, labels))
    count = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count)
    kept = rank < size
    at = labels[order][kept], rank[kept]
    largest, exist = np.zeros((len(count), size)), np.zeros((len(count), size), bool)
    largest[at], exist[at] = distances[order][kept], True
    return largest, exist


def fit_weibulls(largest: Floats, exist: Bools) -> Weibulls:
    """Maximum likelihood, all classes at once.

    For y standardised to mean 0 and deviation 1, the shape g solves sum of y exp(g y) / sum of exp(g y) = 1 / g, whose
    left side grows and right side falls; the scale is log(mean of exp(g y)) / g.
    """
    from scipy.optimize import elementwise

    smallest = np.where(exist, largest, np.inf).min(axis=1)
    y = np.log1p(np.where(exist, largest - smallest[:, None], 0) / SHIFT)
    mean = np.mean(y, axis=1, where=exist)
    spread = np.std(y, axis=1, where=exist)
    unit = np.maximum(spread, SMALLEST_SPREAD)
    y = np.where(exist, (y - mean[:, None]) / unit[:, None], -np.inf)
    shape, varied = np.ones(len(y)), np.flatnonzero(spread > SMALLEST_SPREAD)
    shape[varied] = elementwise.find_root(lambda g, row: _excess(g, y[row.astype(int)]), BRACKET, args=(varied,)).x
    scale = np.log(np.exp(shape[:, None] * y).sum(axis=1) / exist.sum(axis=1)) / shape
    return Weibulls(smallest, shape / unit, mean + scale * unit)


def _excess(shape: Floats, y: Floats) -> Floats:
    """Left side minus right side of the equation for the shape, for rows of y; -inf are no values."""
    weights = np.exp(shape[:, None] * (y - y.max(axis=1, keepdims=True)))
    return np.asarray((weights * np.maximum(y, -1e300)).sum(axis=1) / weights.sum(axis=1) - 1 / shape)


def unknown_probability(u: Floats, means: Floats, weibulls: Weibulls, alpha: int) -> Floats:
    """The probability (n,) of the unknown class after ``alpha`` classes have given it their shares."""
    from sklearn.metrics.pairwise import euclidean_distances

    alpha = min(alpha, u.shape[1])
    top = np.argsort(-u, axis=1, kind="stable")[:, :alpha]
    outlying = np.take_along_axis(weibulls.cumulative(euclidean_distances(u, means)), top, axis=1)
    given = np.zeros_like(u)
    np.put_along_axis(given, top, outlying * np.arange(alpha, 0, -1) / alpha, axis=1)
    unknown = (u * given).sum(axis=1, keepdims=True)
    return np.asarray(scipy.special.softmax(np.concatenate([unknown, u * (1 - given)], axis=1), axis=1)[:, 0])


def well_classified(u: Floats, labels: Ints) -> Bools:
    """Which items have the largest activity for their own class; all of a class that has fewer than two such."""
    if np.bincount(labels, minlength=u.shape[1]).min() < 2:
        raise OutclassError("openmax: each class needs two train items or more: add items, or leave the class out")
    correct = u.argmax(axis=1) == labels
    return np.asarray(correct | (np.bincount(labels[correct], minlength=u.shape[1]) < 2)[labels])


@dataclass
class OpenMax:
    tail: int = 20  # largest distances of each class that the distribution is fitted to
    alpha: int = 10  # classes revised
    name: ClassVar[str] = "openmax"
    uses: ClassVar[Uses] = "confidences"

    def fit(self, items: Items, labels: Ints) -> Self:
        if self.tail < 2 or self.alpha < 1:
            raise OutclassError(f"openmax: tail {self.tail} must be 2 or more, alpha {self.alpha} 1 or more")
        used = well_classified(items.confidences, labels)
        u, own = items.confidences[used].astype(np.float64), labels[used]
        self.means_ = class_means(u, own)
        self.weibulls_ = fit_weibulls(*tails(np.linalg.norm(u - self.means_[own], axis=1), own, self.tail))
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return by_blocks(lambda u: unknown_probability(u, self.means_, self.weibulls_, self.alpha), items.confidences)
