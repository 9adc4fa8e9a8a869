"""The ensemble of novelty classifiers h_l: training (algorithm 1), votes and scores (algorithm 2).

Arrays have a row for each of the L partitions. Known classes are numbered 0 to k - 1; ``presumed_novel`` (L, k) marks
those that a partition keeps from its network, and ``theta_class`` (L, k) holds theta_i of the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from outclass.arrays import Bools, Floats, Ints
from outclass.errors import OutclassError


class Seen(NamedTuple):
    """Sets as the partition networks see them, each (L, sets)."""

    theta: Floats  # theta_S
    top: Ints  # o_S: the class that the partition's own network chooses


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
    sets: Seen, labels: Ints, theta_class: Floats, presumed_novel: Bools, cost: float = 1.0
) -> NoveltyClassifiers:
    """Algorithm 1 for every partition, from sets of known classes ``labels`` (sets,).

    A set is an example of novelty where its class is presumed novel. Each h_l is a linear SVM with balanced class
    weights on standardised inputs: presumed-novel sets are a tenth of all, and an unbalanced SVM answers "known" to
    everything.
    """
    novel = presumed_novel[:, labels]
    one_sided = np.flatnonzero(novel.all(axis=1) | ~novel.any(axis=1))
    if len(one_sided):
        lacking = "known" if novel[one_sided[0]].all() else "novel"
        raise OutclassError(
            f"partition {one_sided[0]} has no calibration sets of its presumed-{lacking} classes: "
            f"give each class more calibration items"
        )
    points = np.stack([sets.theta, _theta_of_own_choice(sets, theta_class)], axis=-1)
    fitted = [_fit_one(d, is_novel, cost) for d, is_novel in zip(points, novel, strict=True)]
    weights, bias, slope, offset = map(np.array, zip(*fitted, strict=True))
    return NoveltyClassifiers(weights, bias, slope, offset)


def _theta_of_own_choice(sets: Seen, theta_class: Floats) -> Floats:
    return np.take_along_axis(theta_class, sets.top, axis=1)


def _fit_one(points: Floats, novel: Bools, cost: float) -> tuple[Floats, float, float, float]:
    scaler = StandardScaler().fit(points)
    svm = LinearSVC(C=cost, class_weight="balanced", dual=False).fit(scaler.transform(points), novel)
    weights = svm.coef_[0] / scaler.scale_
    bias = float(svm.intercept_[0] - weights @ scaler.mean_)
    margins = points @ weights + bias
    platt = LogisticRegression(class_weight="balanced").fit(margins[:, None], novel)
    return weights, bias, float(platt.coef_[0, 0]), float(platt.intercept_[0])


class Votes(NamedTuple):
    """What h_l says of sets, each (L, sets)."""

    relevant: Bools  # whether the partition has a say
    margins: Floats  # above zero: novel; meaningless where the partition has no say
    probabilities: Floats


def vote(h: NoveltyClassifiers, sets: Seen, chosen: Ints, theta_class: Floats, presumed_novel: Bools) -> Votes:
    """Algorithm 2, lines 2-9: ``chosen`` (sets,) is the class that the network of all known classes chooses.

    Partitions that presume it novel have no say: they were taught to call it so.
    """
    relevant = ~presumed_novel[:, chosen]
    margins = h.margins(sets.theta, np.where(relevant, theta_class[:, chosen], 0.0))
    return Votes(relevant, margins, h.probabilities(margins))


@dataclass(frozen=True)
class NoveltyScores:
    """Three readings of the same votes, each (sets,); higher is more novel."""

    count: Floats  # algorithm 2: how many h_l say novel
    margin: Floats  # mean signed margin
    probability: Floats  # mean probability of novel, 0..1


def novelty_scores(votes: Votes) -> NoveltyScores:
    """Algorithm 2, line 10, and two finer scores.

    A set on which no partition has a say gets count 0, margin 0 and probability one half.
    """
    relevant = votes.relevant
    voters = np.maximum(relevant.sum(axis=0), 1)
    nobody = ~relevant.any(axis=0)
    return NoveltyScores(
        count=((votes.margins > 0) & relevant).sum(axis=0).astype(float),
        margin=np.where(relevant, votes.margins, 0.0).sum(axis=0) / voters,
        probability=np.where(nobody, 0.5, np.where(relevant, votes.probabilities, 0.0).sum(axis=0) / voters),
    )


def own_votes(h: NoveltyClassifiers, sets: Seen, theta_class: Floats) -> Bools:
    """Whether each h_l says novel (L, sets) if all have a say, each on the class that its own network chooses."""
    return np.asarray(h.margins(sets.theta, _theta_of_own_choice(sets, theta_class)) > 0)


def detection_rates(
    h: NoveltyClassifiers, sets: Seen, labels: Ints, theta_class: Floats, presumed_novel: Bools
) -> tuple[Floats, Floats]:
    """p_l and q_l, each (L,): how often h_l calls a set novel whose class its network was not, and was, taught.

    Every partition votes on the class that its own network chooses, as in the paper's analysis. ``labels`` is -1 for
    classes that are not known at all.
    """
    novel = presumed_novel[:, labels] | (labels < 0)
    votes = own_votes(h, sets, theta_class)
    p = (votes & novel).sum(axis=1) / np.maximum(novel.sum(axis=1), 1)
    q = (votes & ~novel).sum(axis=1) / np.maximum((~novel).sum(axis=1), 1)
    return p, q
