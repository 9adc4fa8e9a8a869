"""Distance to the k-th nearest train item, with all vectors scaled to length 1 (Sun et al. 2022).

For vectors of length 1, |x - y|^2 = 2 - 2 x.y, so one matrix product and a partial sort of each row find it. Products
are in single precision; that rounds off small distances, which are measured again.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.blocks import slices
from outclass.baselines.contract import Items, Uses
from outclass.errors import OutclassError

SMALL = 0.05
"""Below this distance, single precision would leave fewer than four digits."""


def unit_length(vectors: Floats) -> Floats:
    """Each row divided by its length, in single precision; rows of zeros stay."""
    x = vectors.astype(np.float32)  # a copy, to be changed in place
    length = np.sqrt(np.einsum("ij,ij->i", x, x))
    x /= np.where(length > 0, length, 1)[:, None]
    return x


def kth_distances(vectors: Floats, train: Floats, k: int) -> Floats:
    """The distance of each vector (n, d) to its k-th nearest train item; all of length 1."""
    products = vectors @ train.T
    if k > 1:  # in place, as the products are large; the largest alone is found faster without
        products.partition(-k, axis=1)
    kth = products[:, -k] if k > 1 else products.max(axis=1)
    distances = np.sqrt(np.maximum(2 - 2 * kth, 0))
    close = np.flatnonzero(distances < SMALL)
    neighbours = np.argpartition(vectors[close] @ train.T, -k, axis=1)[:, -k]
    distances[close] = np.linalg.norm(vectors[close] - train[neighbours], axis=1)
    return distances


@dataclass
class DeepKnn:
    neighbours: int = 10
    name: ClassVar[str] = "deep-knn"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        if not 1 <= self.neighbours <= len(items.features):
            raise OutclassError(f"neighbour {self.neighbours} of deep-knn: there are {len(items.features)} train items")
        self.train_ = unit_length(items.features)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        blocks = slices(len(items.features), len(self.train_))
        parts = [kth_distances(unit_length(items.features[rows]), self.train_, self.neighbours) for rows in blocks]
        return np.concatenate(parts) if parts else np.empty(0)
