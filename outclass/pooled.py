"""The pooled ensemble: the paper's idea, learning novelty on artificial partitions, with one h and richer inputs.

Each partition l sees a set S through its own network and through statistics of its presumed-known classes' train items;
of its presumed-novel classes it knows nothing. What it sees becomes a row of inputs. All partitions' rows of
calibration sets, of presumed-novel classes or not, train one class-balanced logistic h; the score of a test set is

    novelty(S) = 1 / (1 + exp(-mean over l of h(inputs of S in partition l)))

Every partition has its say. The paper leaves those out that presume o_S novel; with inputs that do not hang on o_S
alone, they tell known from novel sets too.

Features are taken at unit length, and a set by the mean of its items' features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.blocks import slices
from outclass.baselines.knfst import projection_from, subset_solutions
from outclass.baselines.mahalanobis import Gaussians, gaussians, squared_mahalanobis
from outclass.baselines.plda import TwoCovariances, log_ratios, two_covariances
from outclass.baselines.statistics import Moments, class_means
from outclass.errors import OutclassError
from outclass.sets import set_means

ROUNDING = 1e-6
"""An input that varies less than this, or less than this share of a mean above 1, is constant."""
SMALLEST_PIVOT = 1e-12
"""Of a kernel matrix whose diagonal is 1: what is smaller is rounding."""


@dataclass(frozen=True)
class PooledSettings:
    plda: Sequence[tuple[float, float]] = ((0.02, 0.0), (0.2, 0.0), (0.2, 0.5), (0.5, 0.9))
    """Shares by which PLDA's within- and between-class covariances are shrunk; which suits is left to h."""
    shrinkage: float = 0.3  # of the covariances behind Mahalanobis distances
    neighbours: int = 5  # train items whose similarity is averaged
    gamma: float = 4.0  # of the Gaussian kernel whose null space the distances are taken in
    ridge: float = 0.01  # added to that kernel's diagonal
    penalty: float = 0.05  # of the squared weights of h, beside its mean loss


def input_names(settings: PooledSettings, kernel: bool) -> list[str]:
    """What the columns of ``inputs`` mean; larger speaks for known, but for length, spread and distances."""
    pairs = [f"{within:g}/{between:g}" for within, between in settings.plda]
    ratios = [f"plda {kind} {pair}" for pair in pairs for kind in ("best class", "top class")]
    confidences = ["theta", "activity", "energy", "certainty"]
    distances = ["length", "spread", "cosine", "mahalanobis", "relative mahalanobis", "neighbours"]
    null_space = ["null space of items", "null space of the set"] if kernel else []
    return [*ratios, *confidences, *distances, *null_space]


class Sets(NamedTuple):
    """Sets of one size, as their features show them to any partition; k are all known classes of the fold."""

    members: Ints  # (m, s) positions among the fold's items
    means: Floats  # (m, d) of the items' features at unit length
    length: Floats  # (m,) mean length of the items' features as they came
    cosines: Floats  # (m, k) to the mean of each class's train items
    neighbours: Floats  # (m, k, n) inner products with the n most similar train items of each class


class Confidences(NamedTuple):
    """Sets of one size, as one partition's network sees them."""

    theta: Floats  # (m,) best minus second best mean activity
    first: Floats  # (m,) best mean activity
    energy: Floats  # (m,) log sum exp of the mean activities
    certainty: Floats  # (m,) best mean softmax
    top: Ints  # (m,) code of the best class


class NullSpace(NamedTuple):
    """All items as a partition's null space has them (outclass/baselines/knfst.py)."""

    projected: Floats  # (items, q)
    points: Floats  # (k', q) where the presumed-known classes' train items fall


class Reference(NamedTuple):
    """What a partition knows of its presumed-known classes' features."""

    classes: Ints  # (k',) codes
    plda: list[TwoCovariances]
    nearest: Gaussians
    background: Gaussians


def unit_length(features: Floats) -> tuple[Floats, Floats]:
    """Features (n, d) at unit length in double precision, and their lengths (n,)."""
    x = np.asarray(features, dtype=np.float64)
    length = np.linalg.norm(x, axis=1)
    return x / np.where(length > 0, length, 1.0)[:, None], length


def projection(width: int, most: int, rng: np.random.Generator) -> Floats | None:
    """Random orthonormal directions (width, most) for features too wide to have d x d statistics of; None if not.

    They know nothing of the data, so nothing of a presumed-novel class can leak through them.
    """
    if width <= most:
        return None
    return np.asarray(np.linalg.qr(rng.normal(size=(width, most)))[0])


def describe(unit: Floats, length: Floats, members: Ints, train: Floats, labels: Ints, count: int) -> Sets:
    """``members`` (m, s) are positions in ``unit``; ``train`` (n, d) are train items with their ``labels``."""
    means = set_means(unit, members)
    towards = unit_length(class_means(train, labels))[0]
    cosines = unit_length(means)[0] @ towards.T
    neighbours = class_neighbours(means, train, labels, count)
    return Sets(members, means, length[members].mean(axis=1), cosines, neighbours)


def class_neighbours(vectors: Floats, train: Floats, labels: Ints, count: int) -> Floats:
    """(m, k, count): inner products with the most similar train items of each class, -inf where it has fewer.

    The most similar ones of any classes together are among them, so one search serves every partition.
    """
    sizes = np.bincount(labels)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    padded = np.full((len(sizes), max(count, int(sizes.max()))), -1)
    padded[np.sort(labels), place] = np.argsort(labels, kind="stable")
    result = np.empty((len(vectors), len(sizes), count))
    for rows in slices(len(vectors), padded.size):
        products = np.where(padded >= 0, (vectors[rows] @ train.T)[:, padded], -np.inf)
        result[rows] = np.partition(products, -count, axis=2)[..., -count:]
    return result


def reference(moments: Moments, settings: PooledSettings) -> Reference:
    """From the moments of the presumed-known classes' train items."""
    n = int(moments.count.sum())
    return Reference(
        moments.classes,
        [two_covariances(moments, within, between) for within, between in settings.plda],
        gaussians(moments.means, moments.within_scatter, n, settings.shrinkage),
        gaussians(moments.mean[None], moments.total_scatter, n, settings.shrinkage),
    )


def null_spaces(
    unit: Floats, trains: Bools, labels: Ints, taught: Bools, settings: PooledSettings
) -> Iterator[NullSpace]:
    """Each partition's null space, from one inverse of the kernel matrix of all train items.

    ``trains`` marks the train items among all, ``labels`` are theirs. The kernel knows nothing of the data.
    """
    values = rbf_kernel(unit, unit[trains], settings.gamma)
    inverse = _inverse(values[trains] + settings.ridge * np.eye(len(labels)))
    for (items, solution), classes in zip(subset_solutions(inverse, labels, taught), taught, strict=True):
        own = (np.cumsum(classes) - 1)[labels[items]]
        found = projection_from(solution, own, settings.ridge)
        yield NullSpace(values[:, items] @ found.coefficients, found.points)


def _inverse(matrix: Floats) -> Floats:
    """Of a positive definite matrix, by its Cholesky factor."""
    factor, failed = dpotrf(matrix, lower=True, overwrite_a=True)
    smallest = factor.diagonal().min()
    if failed or not smallest**2 > SMALLEST_PIVOT:
        raise OutclassError("the kernel matrix of the train items is singular: raise pooled.ridge")
    lower, _ = dpotri(factor, lower=True, overwrite_c=True)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def inputs(sets: Sets, seen: Confidences, known: Reference, null_space: NullSpace | None = None) -> Floats:
    """What one partition makes of sets: (m, inputs), in the order of ``input_names``."""
    columns: list[Floats] = []
    top = np.searchsorted(known.classes, seen.top)[:, None]
    for model in known.plda:
        ratios = log_ratios(model, sets.means, sets.members.shape[1])
        columns += [ratios.max(axis=1), np.take_along_axis(ratios, top, axis=1)[:, 0]]
    columns += [seen.theta, seen.first, seen.energy, seen.certainty, sets.length]
    columns.append(np.sqrt(np.maximum(1 - (sets.means**2).sum(axis=1), 0)))
    columns.append(sets.cosines[:, known.classes].max(axis=1))
    nearest = squared_mahalanobis(sets.means, known.nearest)
    columns += [np.sqrt(nearest), nearest - squared_mahalanobis(sets.means, known.background)]
    columns.append(_mean_of_largest(sets.neighbours[:, known.classes]))
    if null_space is not None:
        of_items = cdist(null_space.projected, null_space.points).min(axis=1)
        of_sets = cdist(set_means(null_space.projected, sets.members), null_space.points).min(axis=1)
        columns += [of_items[sets.members].mean(axis=1), of_sets]
    return np.stack(columns, axis=1)


def _mean_of_largest(neighbours: Floats) -> Floats:
    """(m, k', n) -> (m,): mean of the n largest of all classes, or of all that there are."""
    together = neighbours.reshape(len(neighbours), -1)
    count = min(neighbours.shape[2], int(np.isfinite(together[:1]).sum()))
    return np.asarray(np.partition(together, -count, axis=1)[:, -count:].mean(axis=1))


class PooledClassifier(NamedTuple):
    """h(x) = weights (x - mean) / scale + bias, the log odds of being novel."""

    mean: Floats
    scale: Floats
    weights: Floats
    bias: float

    def log_odds(self, rows: Floats) -> Floats:
        """(..., inputs) -> (...)."""
        return np.asarray((rows - self.mean) / self.scale @ self.weights + self.bias)


def fit(rows: Floats, novel: Bools, penalty: float) -> PooledClassifier:
    """One h from the rows (N, inputs) of all partitions; ``novel`` marks rows of presumed-novel classes.

    The loss is a mean, so that the penalty does not fade with the number of rows: those of one set in many partitions
    are hardly more than one example.
    """
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale < ROUNDING * np.maximum(1, np.abs(mean))] = np.inf  # constant, such as the spread of single items
    logistic = LogisticRegression(C=1 / (penalty * len(rows)), class_weight="balanced", max_iter=2000, tol=1e-6)
    logistic.fit((rows - mean) / scale, novel)
    return PooledClassifier(mean, scale, logistic.coef_[0], float(logistic.intercept_[0]))


def novelty(h: PooledClassifier, rows: Floats) -> Floats:
    """(L, m, inputs) -> (m,): the probability of novelty at the mean log odds of all partitions."""
    return np.asarray(expit(h.log_odds(rows).mean(axis=0)))
