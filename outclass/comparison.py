"""Methods that scored the same sets of the same runs, compared in pairs and by rank.

A run is a repetition and fold. Runs differ much in difficulty, and they do so for all methods alike: the difference of
two methods within a run says more than the difference of their means.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, t

from outclass.arrays import Floats

SAME = 9
"""Digits to which two measures are compared: what is behind them is rounding."""


class Difference(NamedTuple):
    """The mean of one method minus another over runs; a single run gives no interval, so its ends are NaN."""

    mean: float
    low: float
    high: float
    runs: int


def paired_difference(ours: Floats, theirs: Floats, confidence: float = 0.95) -> Difference:
    """Student's t interval of the mean difference, for measures (runs,) in the same order of runs."""
    differences = ours - theirs
    runs, mean = len(differences), float(np.mean(differences))
    if runs < 2:
        return Difference(mean, np.nan, np.nan, runs)
    error = np.std(differences, ddof=1) / np.sqrt(runs)
    reach = float(t.ppf((1 + confidence) / 2, runs - 1) * error)
    return Difference(mean, mean - reach, mean + reach, runs)


class Ranks(NamedTuple):
    """Each (methods,)."""

    mean: Floats  # over runs; 1 is best
    best: Floats  # in how many runs no method is better


def ranks(measures: Floats) -> Ranks:
    """Ranks of measures (methods, runs), of which a higher one is better. Equals share the mean of their ranks."""
    rounded = np.round(measures, SAME)
    in_run = rankdata(-rounded, axis=0)
    return Ranks(in_run.mean(axis=1), (rounded == rounded.max(axis=0)).sum(axis=1))
