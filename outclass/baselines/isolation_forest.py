"""Isolation forest (Liu, Ting & Zhou 2008): how few random splits it takes to set an item apart.

novelty = 2^(-mean depth of the item / expected depth)
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, Uses
from outclass.errors import OutclassError


@dataclass
class IsolationForest:
    trees: int = 100
    seed: int = 0
    name: ClassVar[str] = "isolation-forest"
    uses: ClassVar[Uses] = "features"

    def fit(self, items: Items, labels: Ints) -> Self:
        if self.trees < 1:
            raise OutclassError(f"isolation-forest of {self.trees} trees: give a positive number")
        from sklearn.ensemble import IsolationForest as Forest

        self.forest_ = Forest(n_estimators=self.trees, random_state=self.seed).fit(items.features)
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return np.asarray(-self.forest_.score_samples(items.features))
