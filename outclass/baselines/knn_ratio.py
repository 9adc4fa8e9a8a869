"""Distance to the nearest training items, relative to how far those are from their own (Ding et al. 2014).

For k neighbours NN_k(x) of x in the training set, with d(a, B) the mean distance from a to the points of B:

    novelty(x) = d(x, NN_k(x)) / mean over y in NN_k(x) of d(y, NN_k(y))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, On, Uses
from outclass.errors import OutclassError


def distance_ratios(distances: Floats, neighbours: Ints, own_distances: Floats, k: int) -> Floats:
    """The ratio for one k, from neighbours sorted by distance.

    ``distances`` and ``neighbours`` are (n, at least k) for the scored items, ``own_distances`` (training items,
    at least k) the training items' distances to their own neighbours. Duplicates in the training set would make
    the denominator zero; it is held at the smallest positive distance instead.
    """
    spacing = own_distances[:, :k].mean(axis=1)
    floor = spacing[spacing > 0].min(initial=np.inf)
    if not np.isfinite(floor):
        floor = 1.0  # all training items are the same point: plain distances
    denominator = np.maximum(spacing[neighbours[:, :k]].mean(axis=1), floor)
    return np.asarray(distances[:, :k].mean(axis=1) / denominator)


def exact_distances(vectors: Floats, others: Floats, neighbours: Ints) -> Floats:
    """Distance of each vector (n, d) to its chosen neighbours (n, k), free of the search's rounding.

    A search by matrix products finds exact duplicates at distances like 1e-7, which a ratio would blow up.
    """
    columns = [np.linalg.norm(vectors - others[column], axis=1) for column in neighbours.T]
    return np.stack(columns, axis=1)


@dataclass
class KnnRatio:
    """In the paper, a set has the mean of its items' scores. One search serves all smaller k too: see ``ratios``."""

    neighbours: int = 1  # k
    on: On = "features"
    name: ClassVar[str] = "knn"
    uses: ClassVar[Uses] = "both"

    def fit(self, items: Items, labels: Ints) -> Self:
        self.vectors_ = np.asarray(items.vectors(self.on), dtype=np.float64)
        count = len(self.vectors_)
        if not 1 <= self.neighbours < count:
            raise OutclassError(
                f"{self.neighbours} neighbours of each training item asked for, but there are {count} items: "
                f"give a number from 1 to {count - 1}"
            )
        self.search_ = NearestNeighbors(n_neighbors=self.neighbours, algorithm="brute").fit(self.vectors_)
        own = self.search_.kneighbors(return_distance=False)  # leaves each item itself out
        self.own_distances_ = exact_distances(self.vectors_, self.vectors_, own)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return self.ratios(items, [self.neighbours])[self.neighbours]

    def ratios(self, items: Items, ks: Sequence[int]) -> dict[int, Floats]:
        """The scores for several k, none above ``neighbours``, from one search."""
        x = np.asarray(items.vectors(self.on), dtype=np.float64)
        nearest = self.search_.kneighbors(x, return_distance=False)
        distances = exact_distances(x, self.vectors_, nearest)
        return {k: distance_ratios(distances, nearest, self.own_distances_, k) for k in ks}
