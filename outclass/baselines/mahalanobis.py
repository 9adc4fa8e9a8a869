"""Mahalanobis distance to the nearest class mean (Lee et al. 2018), plain or relative to all items (Ren et al. 2021).

With the class means m_c, the covariance S that the classes share, and mean m and covariance T of all train items:

    mahalanobis             min over c of (x - m_c)^T S^-1 (x - m_c)
    relative-mahalanobis    the same minus (x - m)^T T^-1 (x - m)

Both covariances are maximum-likelihood estimates, shrunk towards a multiple of the identity; "auto" takes the share of
Ledoit & Wolf (2004).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.blocks import by_blocks
from outclass.baselines.contract import Items, Uses
from outclass.baselines.statistics import (
    Shrinkage,
    cholesky,
    class_moments,
    fourth_powers,
    ledoit_wolf_shrinkage,
    shrink,
    whiten,
)


class Gaussians(NamedTuple):
    """One or more normal distributions that share their covariance L L^T."""

    means: Floats  # (k, d)
    factor: Floats  # (d, d) L, lower triangular


def gaussians(means: Floats, scatter: Floats, n: int, shrinkage: float) -> Gaussians:
    """From the sum ``scatter`` of n items' outer products about their means."""
    return Gaussians(means, cholesky(shrink(scatter / n, shrinkage)))


def squared_mahalanobis(vectors: Floats, to: Gaussians) -> Floats:
    """The squared distance of each vector (n, d) to the nearest of the means."""
    from sklearn.metrics.pairwise import euclidean_distances

    centre = to.means.mean(axis=0)  # shortens the vectors, which keeps differences of squares accurate
    means = whiten(to.means - centre, to.factor)

    def nearest(x: Floats) -> Floats:
        return np.asarray(euclidean_distances(whiten(x, to.factor), means, squared=True).min(axis=1))

    return by_blocks(nearest, vectors, centre)


def share(shrinkage: Shrinkage, features: Floats, labels: Ints, means: Floats, scatter: Floats) -> float:
    """The shrinkage as a number: as it is given, or Ledoit and Wolf's for items about the means of their labels."""
    if shrinkage != "auto":
        return shrinkage
    return ledoit_wolf_shrinkage(scatter, fourth_powers(features, means, labels), len(features))


@dataclass
class Mahalanobis:
    shrinkage: Shrinkage = "auto"
    name: ClassVar[str] = "mahalanobis"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        self.moments_ = class_moments(items.features, labels)
        self.classes_ = self._gaussians(items.features, labels, self.moments_.means, self.moments_.within_scatter)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return squared_mahalanobis(items.features, self.classes_)

    def _gaussians(self, features: Floats, labels: Ints, means: Floats, scatter: Floats) -> Gaussians:
        return gaussians(means, scatter, len(features), share(self.shrinkage, features, labels, means, scatter))


@dataclass
class RelativeMahalanobis(Mahalanobis):
    name: ClassVar[str] = "relative-mahalanobis"

    def fit(self, items: Items, labels: Ints) -> Self:
        super().fit(items, labels)
        every, mean = np.zeros_like(labels), self.moments_.mean[None]
        self.background_ = self._gaussians(items.features, every, mean, self.moments_.total_scatter)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return super().score(items) - squared_mahalanobis(items.features, self.background_)
