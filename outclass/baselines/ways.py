"""Two ways to judge a set by a method that scores vectors.

mean-score     the mean of the scores of its items
mean-vector    the score of the mean of its items' vectors
"""

from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Baseline, Items
from outclass.sets import set_means

Way = Literal["mean-score", "mean-vector"]
WAYS: tuple[Way, ...] = ("mean-score", "mean-vector")

Case = tuple[Way, int]
"""A way, and the size s of the sets that are judged."""


def mean_scores(scores: Floats, members: Ints) -> Floats:
    """From scores (n,) of items and sets (m, s) of their positions: (m,)."""
    return np.asarray(scores[members].mean(axis=1))


def mean_vectors(items: Items, members: Ints) -> Items:
    return Items(set_means(items.confidences, members), set_means(items.features, members))


def score_sets(
    baseline: Baseline, items: Items, sets: Mapping[int, Ints], cases: Collection[Case]
) -> dict[Case, Floats]:
    """The novelty of each set, for each case that is asked for; ``sets`` maps a size s to positions (m, s) of items.

    Items are scored once for all cases that need it. The mean of one item is the item, whatever the way.
    """
    by_items = {case for case in cases if "mean-score" in case or 1 in case}
    alone = baseline.score(items) if by_items else np.empty(0)
    return {
        (way, s): mean_scores(alone, sets[s])
        if (way, s) in by_items
        else baseline.score(mean_vectors(items, sets[s]), s)
        for way, s in cases
    }
