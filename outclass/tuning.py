"""Hyper-parameters without a look at novel classes: what tells presumed-novel classes best is taken.

The paper's own idea, turned on the methods that it is compared with. In each of some artificial partitions of the known
classes, a candidate is fitted on train items of the presumed-known classes and scores calibration sets of all; those
of presumed-novel classes are positive. The best mean AUC wins, for each way to judge sets and each size apart.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.baselines.contract import Items
from outclass.baselines.registry import Candidate
from outclass.baselines.ways import Case
from outclass.errors import OutclassError
from outclass.metrics import auc, roc


class Trial(NamedTuple):
    """One artificial partition of the known classes, as a method sees it."""

    train: Items  # of presumed-known classes
    labels: Ints  # of the train items: 0 to k' - 1
    calibration: Items  # of all known classes
    sets: Mapping[int, Ints]  # size s -> positions (m, s) of calibration items
    novel: Mapping[int, Bools]  # size s -> (m,): is the set of a presumed-novel class?


class Choice(NamedTuple):
    candidate: Candidate
    auc: float | None  # mean over the trials, 0..1; None: there was nothing to choose


class Tuned(NamedTuple):
    choices: dict[Case, Choice]
    skipped: list[str]  # why, for each candidate that some trial could not do with


def best(areas: Floats) -> int:
    """The row of the AUCs (candidates, trials) with the largest mean; the first of several."""
    return int(areas.mean(axis=1).round(12).argmax())  # what differs by rounding alone is a tie


def tune(candidates: Sequence[Candidate], trials: Sequence[Trial], cases: Collection[Case]) -> Tuned:
    """The best candidate for each case; a single one is taken as it is, untried."""
    if len(candidates) == 1:
        return Tuned({case: Choice(candidates[0], None) for case in cases}, [])
    tried: dict[int, list[dict[Case, float]]] = {}
    skipped = []
    for number, candidate in enumerate(candidates):
        try:
            tried[number] = [trial_areas(candidate, trial, cases) for trial in trials]
        except OutclassError as error:
            skipped.append(str(error))
    if not tried:
        raise OutclassError("\n".join(["no candidate could be fitted in the artificial partitions:", *skipped]))
    left = list(tried)
    areas = {case: np.array([[trial[case] for trial in tried[number]] for number in left]) for case in cases}
    winners = {case: best(of_case) for case, of_case in areas.items()}
    return Tuned(
        {case: Choice(candidates[left[row]], float(areas[case][row].mean())) for case, row in winners.items()}, skipped
    )


def trial_areas(candidate: Candidate, trial: Trial, cases: Collection[Case]) -> dict[Case, float]:
    """AUC of presumed-novel against presumed-known sets."""
    scores = candidate.fit(trial.train, trial.labels).score_sets(trial.calibration, trial.sets, cases)
    return {(way, s): auc(*roc(of_case, trial.novel[s])) for (way, s), of_case in scores.items()}
