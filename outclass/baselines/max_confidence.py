"""Distance reject: the less confident the best class, the more novel (Le Capitaine & Frelicot 2012)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from outclass.arrays import Floats
from outclass.baselines import SetsBy


def max_confidence(vectors: Floats) -> Floats:
    """Minus the largest entry of each confidence vector (..., k)."""
    return np.asarray(-vectors.max(axis=-1))


@dataclass
class MaxConfidence:
    """Needs no training; a set is scored by its mean confidence vector, as in the paper."""

    sets_by: ClassVar[SetsBy] = "mean vector"

    def fit(self, vectors: Floats) -> Self:
        return self

    def score(self, vectors: Floats) -> dict[str, Floats]:
        return {"max-confidence": max_confidence(vectors)}
