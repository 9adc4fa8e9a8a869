"""ROC, AUC and EER, exact in the presence of ties. Novel is the positive class; a higher score is more novel."""

import numpy as np

from outclass.arrays import Bools, Floats
from outclass.errors import OutclassError


def roc(scores: Floats, novel: Bools) -> tuple[Floats, Floats]:
    """False and true positive rates from (0, 0) to (1, 1), with a vertex at each *distinct* score only.

    Between vertices the curve is a straight line: sets with the same score cannot be told apart, so any order
    among them is a coin toss.
    """
    positives = int(novel.sum())
    if positives in (0, len(novel)):
        raise OutclassError("a ROC curve needs both novel and known sets")
    if not np.isfinite(scores).all():
        raise OutclassError("novelty scores must be finite numbers")
    order = np.argsort(-scores, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(novel[order])[last_of_tie]
    false_alarms = last_of_tie + 1 - hits
    fpr = np.append(0.0, false_alarms / (len(novel) - positives))
    tpr = np.append(0.0, hits / positives)
    return fpr, tpr


def auc(fpr: Floats, tpr: Floats) -> float:
    """Area under the ROC curve, 0..1: the chance that a novel set scores above a known one, ties half."""
    return float(np.trapezoid(tpr, fpr))


def eer(fpr: Floats, tpr: Floats) -> float:
    """Equal error rate, 0..1: the false positive rate where the ROC curve meets 1 - TPR = FPR."""
    excess = fpr + tpr - 1.0  # rises from -1 to 1 along the curve
    after = int(np.argmax(excess >= 0))
    low, high = excess[after - 1], excess[after]
    weight = -low / (high - low)
    return float(fpr[after - 1] + weight * (fpr[after] - fpr[after - 1]))


def mean_roc(curves: list[tuple[Floats, Floats]], points: int = 201) -> tuple[Floats, Floats]:
    """Mean true positive rate of several ROC curves at evenly spaced false positive rates.

    Where a curve rises vertically its upper end counts, except at 0, where the mean curve starts as each does.
    """
    grid = np.linspace(0.0, 1.0, points)
    mean = np.mean([np.interp(grid, fpr, tpr) for fpr, tpr in curves], axis=0)
    mean[0] = 0.0
    return grid, mean
