"""The ensemble of novelty classifiers h_l: training (algorithm 1), votes and scores (algorithm 2)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from outclass.arrays import Bools, Floats
from outclass.errors import OutclassError


@dataclass(frozen=True)
class NoveltyClassifiers:
    """L linear classifiers on the plane (theta_S, theta_o), for one set size; arrays have one row a partition."""

    weights: Floats  # (L, 2): w_l
    bias: Floats  # (L,): b_l
    slope: Floats  # (L,): probability of novel = expit(slope * margin + offset)
    offset: Floats  # (L,)

    def margins(self, theta_set: Floats, theta_class: Floats) -> Floats:
        """<w_l, d> + b_l for d = (theta_S, theta_o), both (L, sets); above zero is a vote for novel."""
        w_set, w_class = self.weights.T[:, :, None]
        return np.asarray(w_set * theta_set + w_class * theta_class + self.bias[:, None])

    def probabilities(self, margins: Floats) -> Floats:
        return np.asarray(expit(self.slope[:, None] * margins + self.offset[:, None]))


def fit_novelty_classifiers(
    theta_set: Floats, theta_class: Floats, novel: Bools, cost: float = 1.0
) -> NoveltyClassifiers:
    """Algorithm 1 for every partition: from sets (L, n) whose labels are presumed novel or presumed known.

    ``theta_class`` is theta_i of the class that the partition's own network chose. Each h_l is a linear SVM with
    balanced class weights on standardised inputs: presumed-novel sets are a tenth of all, and an unbalanced SVM
    answers "known" to everything.
    """
    points = np.stack([theta_set, theta_class], axis=-1)
    one_sided = np.flatnonzero(novel.all(axis=1) | ~novel.any(axis=1))
    if len(one_sided):
        raise OutclassError(
            f"partition {one_sided[0]} has no calibration sets of its presumed-"
            f"{'known' if novel[one_sided[0]].all() else 'novel'} classes: give each class more calibration items"
        )
    fitted = [_fit_one(d, is_novel, cost) for d, is_novel in zip(points, novel, strict=True)]
    weights, bias, slope, offset = map(np.array, zip(*fitted, strict=True))
    return NoveltyClassifiers(weights, bias, slope, offset)


def _fit_one(points: Floats, novel: Bools, cost: float) -> tuple[Floats, float, float, float]:
    scaler = StandardScaler().fit(points)
    svm = LinearSVC(C=cost, class_weight="balanced", dual=False).fit(scaler.transform(points), novel)
    weights = svm.coef_[0] / scaler.scale_
    bias = float(svm.intercept_[0] - weights @ scaler.mean_)
    margins = points @ weights + bias
    platt = LogisticRegression(class_weight="balanced").fit(margins[:, None], novel)
    return weights, bias, float(platt.coef_[0, 0]), float(platt.intercept_[0])


@dataclass(frozen=True)
class NoveltyScores:
    """Three readings of the same votes, each (sets,); higher is more novel."""

    count: Floats  # algorithm 2: how many h_l say novel
    margin: Floats  # mean signed margin
    probability: Floats  # mean probability of novel, 0..1


def novelty_scores(margins: Floats, probabilities: Floats, relevant: Bools) -> NoveltyScores:
    """Algorithm 2, all (L, sets): only partitions where the chosen class is presumed known have a say.

    A set without any such partition has no votes: its count is 0, its margin 0 and its probability one half.
    """
    votes = (margins > 0) & relevant
    voters = np.maximum(relevant.sum(axis=0), 1)
    nobody = ~relevant.any(axis=0)
    return NoveltyScores(
        count=votes.sum(axis=0).astype(float),
        margin=np.where(relevant, margins, 0.0).sum(axis=0) / voters,
        probability=np.where(nobody, 0.5, np.where(relevant, probabilities, 0.0).sum(axis=0) / voters),
    )


def detection_rates(margins: Floats, novel: Bools) -> tuple[Floats, Floats]:
    """p_l and q_l, each (L,): how often h_l calls a novel and a known set novel; ``novel`` is (L, sets)."""
    votes = margins > 0
    p = (votes & novel).sum(axis=1) / np.maximum(novel.sum(axis=1), 1)
    q = (votes & ~novel).sum(axis=1) / np.maximum((~novel).sum(axis=1), 1)
    return p, q
