"""Local outlier factor (Breunig et al. 2000): how much sparser it is around an item than around its neighbours.

With N(x) the k nearest train items of x, D(y) the distance of y to its own k-th neighbour:

    density(x) = 1 / mean over y in N(x) of max(|x - y|, D(y))
    novelty(x) = mean over y in N(x) of density(y) / density(x)
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, Uses
from outclass.errors import OutclassError


@dataclass
class LocalOutlierFactor:
    neighbours: int = 20
    name: ClassVar[str] = "lof"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        if not 1 <= self.neighbours < len(items.features):
            raise OutclassError(
                f"{self.neighbours} neighbours of each train item for lof: there are {len(items.features)} items"
            )
        from sklearn.neighbors import LocalOutlierFactor as Lof

        self.factor_ = Lof(n_neighbors=self.neighbours, novelty=True).fit(items.features)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return np.asarray(-self.factor_.score_samples(items.features))
