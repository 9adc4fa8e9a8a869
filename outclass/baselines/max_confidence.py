"""Distance reject: the less confident the best class, the more novel (Le Capitaine & Frelicot 2012)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, Uses


def max_confidence(vectors: Floats) -> Floats:
    """Minus the largest entry of each confidence vector (..., k)."""
    return np.asarray(-vectors.max(axis=-1))


@dataclass
class MaxConfidence:
    """Of confidences of any kind; of activities it is max-logit. In the paper, sets have their mean vector's score."""

    name: ClassVar[str] = "max-confidence"
    uses: ClassVar[Uses] = "confidences"

    def fit(self, items: Items, labels: Ints) -> Self:
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return max_confidence(items.confidences)
