"""Methods to compare with, one file each, all behind the contract of ``Baseline``."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.sets import set_means

SetsBy = Literal["mean score", "mean vector"]
"""How a method judges a set: by the mean of its items' scores, or by the mean of their vectors."""


class Baseline(Protocol):
    """Fitted on vectors of training items (confidences or features), it scores vectors; higher is more novel.

    One baseline may give several scores that share their work, each under its own name.
    """

    sets_by: ClassVar[SetsBy]

    def fit(self, vectors: Floats) -> Self: ...

    def score(self, vectors: Floats) -> dict[str, Floats]: ...


def score_sets(baseline: Baseline, vectors: Floats, sets: Mapping[int, Ints]) -> dict[str, dict[int, Floats]]:
    """Score sets of items as the method prescribes: name -> set size -> novelty score of each set.

    ``sets`` maps a set size s to an array (sets, s) of positions in ``vectors``.
    """
    if baseline.sets_by == "mean vector":
        by_size = {s: baseline.score(set_means(vectors, members)) for s, members in sets.items()}
    else:
        items = baseline.score(vectors)
        by_size = {
            s: {name: np.asarray(score[members].mean(axis=1)) for name, score in items.items()}
            for s, members in sets.items()
        }
    names = next(iter(by_size.values()))
    return {name: {s: scores[name] for s, scores in by_size.items()} for name in names}
