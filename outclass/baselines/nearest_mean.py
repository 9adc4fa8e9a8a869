"""Distance to the nearest class mean (Mensink et al. 2013): |x - m_c|, or 1 - cos(x, m_c), for the nearest class c."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.blocks import by_blocks
from outclass.baselines.contract import Items, Uses
from outclass.baselines.statistics import class_means
from outclass.errors import OutclassError

Metric = Literal["euclidean", "cosine"]
METRICS = ("euclidean", "cosine")


def nearest_mean(vectors: Floats, means: Floats, metric: Metric = "euclidean") -> Floats:
    """The distance of each vector (n, d) to the nearest of the means (k, d)."""
    if metric not in METRICS:
        raise OutclassError(f"metric {metric!r} of the nearest mean: choose one of {', '.join(METRICS)}")
    if metric == "cosine":
        from sklearn.metrics.pairwise import cosine_distances

        return by_blocks(lambda x: np.asarray(cosine_distances(x, means).min(axis=1)), vectors)
    return np.sqrt(nearest_squared(vectors, means))


def nearest_squared(vectors: Floats, means: Floats) -> Floats:
    """The squared Euclidean distance of each vector (n, d) to the nearest of the means (k, d)."""
    from sklearn.metrics.pairwise import euclidean_distances

    centre = means.mean(axis=0)  # shortens the vectors, which keeps differences of squares accurate
    centred = means - centre
    return by_blocks(lambda x: np.asarray(euclidean_distances(x, centred, squared=True).min(axis=1)), vectors, centre)


@dataclass
class NearestMean:
    metric: Metric = "euclidean"
    name: ClassVar[str] = "nearest-mean"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        self.means_ = class_means(items.features, labels)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return nearest_mean(items.features, self.means_, self.metric)
