"""The paper's own analysis of the ensemble: how good each h_l is, and what counting their votes should therefore give.

``votes`` (L, sets) says which sets each h_l calls novel; ``novel`` (sets,) which of them are of classes never taught.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.metrics import roc

# --- the bound on the error of the count (eq. 5 and 6) ---------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """The expected count of a known and of a novel set, and the threshold half-way between them."""

    known: float  # mu_known
    novel: float  # mu_novel

    @property
    def threshold(self) -> float:
        return (self.known + self.novel) / 2


def expected_by_rates(p: Floats, q: Floats, presumed_novel: float) -> Expected:
    """Under the paper's simplification: every h_l votes, with rates p_l and q_l (L,).

    A known class meets p_l in the partitions that presume it novel and q_l in the others. Over all known classes, a
    share ``presumed_novel`` of which is presumed novel in each partition, the mean is as below.
    """
    psi = presumed_novel * p + (1 - presumed_novel) * q
    return Expected(known=float(psi.sum()), novel=float(p.sum()))


def expected_by_votes(votes: Bools, novel: Bools) -> Expected:
    """As the ensemble is used: of the votes that were cast, those for novel."""
    counts = votes.sum(axis=0)
    return Expected(known=float(counts[~novel].mean()), novel=float(counts[novel].mean()))


def chernoff_bound(mean: float, threshold: float) -> float:
    """How probable a sum of independent indicators with this mean is to lie beyond the threshold (> 0), at most.

    Equations 5 and 6 are one formula once delta is what takes the mean to the threshold, (1 ± delta) mean = threshold:
    exp(threshold - mean) (mean / threshold)^threshold.
    """
    return float(np.exp(threshold - mean) * (mean / threshold) ** threshold)


@dataclass(frozen=True)
class Errors:
    """Shares of known sets called novel (a count at the threshold or above) and of novel sets called known."""

    known: float
    novel: float


def bounded_errors(expected: Expected) -> Errors:
    """What equations 5 and 6 allow; 1, that is nothing, where novel sets are not expected to get more votes."""
    if expected.novel <= expected.known:
        return Errors(1.0, 1.0)
    return Errors(
        chernoff_bound(expected.known, expected.threshold), chernoff_bound(expected.novel, expected.threshold)
    )


def observed_errors(counts: Ints, novel: Bools, threshold: float) -> Errors:
    called_novel = counts >= threshold
    return Errors(float(called_novel[~novel].mean()), float((~called_novel[novel]).mean()))


def independent_votes(votes: Bools) -> float:
    """How many independent votes the L are worth, by the spread of their count over sets of one kind.

    Independent votes with these rates r_l would give the count a variance of sum r_l (1 - r_l); votes that go together
    give more. The ratio of the two is 1 for independent votes and L for L copies of one vote; the answer is L over it.
    """
    rates = votes.mean(axis=1)
    spread = votes.sum(axis=0).var()
    alone = (rates * (1 - rates)).sum()
    return float(len(votes) * alone / spread) if spread > 0 else float(len(votes))


# --- the requirements R1 and R2 --------------------------------------------------------------------------


def distance(one: Floats, other: Floats) -> float:
    """The Kolmogorov-Smirnov statistic of two samples: the largest gap of their distributions, 0 (alike) to 1."""
    fpr, tpr = roc(np.concatenate([one, other]), np.repeat([True, False], [len(one), len(other)]))
    return float(np.abs(tpr - fpr).max())


def likeness_to_novel(theta: Floats, labels: Ints, presumed_novel: Bools) -> tuple[Floats, Floats]:
    """R2: how far theta_S of presumed-novel and of presumed-known sets is from that of novel ones, each (L,).

    ``theta`` (L, sets) is each partition network's own; ``labels`` is -1 for novel classes. NaN where there are no
    sets to compare.
    """
    novel = labels < 0
    presumed = presumed_novel[:, labels] & ~novel
    return _distances(theta, presumed, novel), _distances(theta, ~presumed & ~novel, novel)


def _distances(theta: Floats, ours: Bools, novel: Bools) -> Floats:
    pairs = zip(theta, ours, strict=True)
    return np.array([distance(row[of], row[novel]) if of.any() and novel.any() else np.nan for row, of in pairs])


# --- how many partitions it takes ------------------------------------------------------------------------


def ladder(largest: int) -> list[int]:
    """1, 2, 3, 5, 10, 20, 50, 100, ... below ``largest``, and ``largest``."""
    steps = [1, 2, 3, 5, *(m * 10**e for e in range(1, 7) for m in (1, 2, 5))]
    return [*(step for step in steps if step < largest), largest]


def auc_of_counts(counts: Ints, novel: Bools) -> Floats:
    """AUC, 0..1, of each row of counts (rows, sets), ties half: as roc and auc, for all rows at once."""
    rows, width = len(counts), int(counts.max()) + 1
    places = counts + width * np.arange(rows)[:, None]
    of_novel, of_known = (
        np.bincount(places[:, of].ravel(), minlength=rows * width).reshape(rows, width) for of in (novel, ~novel)
    )
    below = np.cumsum(of_known, axis=1) - of_known / 2
    return np.asarray((of_novel * below).sum(axis=1) / (novel.sum() * (~novel).sum()))


def auc_by_partitions(votes: Bools, novel: Bools, sizes: Sequence[int], draws: int, rng: np.random.Generator) -> Floats:
    """AUC (sizes, draws) of the count over random subsets of so many partitions, with no training anew.

    In each draw the larger subsets hold the smaller ones.
    """
    ranks = rng.permuted(np.tile(np.arange(len(votes)), (draws, 1)), axis=1)
    cast = votes.astype(np.int64)
    return np.stack([auc_of_counts((ranks < size).astype(np.int64) @ cast, novel) for size in sizes])
