"""Balanced subsets of classes: the folds' novel classes and the partitions' presumed-novel ones alike."""

import numpy as np

from outclass.arrays import Bools
from outclass.errors import OutclassError


def balanced_subsets(classes: int, size: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw ``count`` random subsets of ``size`` classes; True marks a member, one row a subset.

    Each row takes the classes taken least often so far, ties broken at random. So the numbers of times that two
    classes were taken differ by at most 1 after every row, every class is taken once ``count * size >= classes``,
    and a larger ``count`` only adds rows: earlier ones, and what was trained on them, stay.
    """
    if not 0 < size < classes:
        raise OutclassError(
            f"cannot set {size} of {classes} classes aside: choose at least 1 and leave at least 1 class known"
        )
    subsets = np.zeros((count, classes), dtype=bool)
    taken = np.zeros(classes, dtype=int)
    for row in subsets:
        least_taken_first = np.lexsort((rng.random(classes), taken))
        row[least_taken_first[:size]] = True
        taken += row
    return subsets
