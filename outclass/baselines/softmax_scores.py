"""Scores read off the output activities u (n, k) of each item; with p = softmax(u), higher is more novel.

    max-softmax    1 - max p                                     Hendrycks & Gimpel 2017
    max-logit      -max u                                        Hendrycks et al. 2022
    energy         -T log sum exp(u / T)                         Liu et al. 2020
    entropy        -sum p log p                                  e.g. Chan et al. 2021
    gen            sum over the M likeliest of (p (1 - p))^g     Liu, Lochman & Zach 2023

All but the second come from v = u - max u and from r, the sum of exp(v) over the other classes: max p = 1 / (1 + r).
As 1 is never added to it before it has to be, items of which the network is certain keep their order, even in single
precision.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, Uses
from outclass.errors import OutclassError


class Shifted(NamedTuple):
    top: Ints  # (n, 1) the likeliest class
    largest: Floats  # (n,) its activity
    others: Floats  # (n, k) v = u - largest
    weights: Floats  # (n, k) exp(v), but 0 for the likeliest class
    rest: Floats  # (n,) r, the sum of the weights


def shifted(u: Floats) -> Shifted:
    top = u.argmax(axis=1)[:, None]
    largest = np.take_along_axis(u, top, axis=1)
    others = u - largest
    weights = np.exp(others)
    np.put_along_axis(weights, top, 0, axis=1)
    return Shifted(top, largest[:, 0], others, weights, weights.sum(axis=1))


def max_softmax(u: Floats) -> Floats:
    rest = shifted(u).rest
    return np.asarray(rest / (1 + rest))


def max_logit(u: Floats) -> Floats:
    return np.asarray(-np.take_along_axis(u, u.argmax(axis=1)[:, None], axis=1)[:, 0])  # faster than max


def energy(u: Floats, temperature: float = 1.0) -> Floats:
    if temperature <= 0:
        raise OutclassError(f"temperature {temperature} of the energy: give a positive number")
    of = shifted(u if temperature == 1 else u / np.asarray(temperature, u.dtype))
    return np.asarray(-temperature * (of.largest + np.log1p(of.rest)))


def entropy(u: Floats) -> Floats:
    """log(1 + r) - sum of exp(v) v / (1 + r): no term is negative, so nothing cancels."""
    of = shifted(u)
    return np.asarray(np.log1p(of.rest) - np.einsum("ij,ij->i", of.weights, of.others) / (1 + of.rest))


def generalised_entropy(u: Floats, gamma: float = 0.1, top: int = 100) -> Floats:
    """The term of the likeliest class, p (1 - p) = r / (1 + r)^2, plus those of the ``top`` - 1 that follow."""
    if gamma <= 0 or top < 1:
        raise OutclassError(f"gamma {gamma}, top {top} of the generalised entropy: give positive numbers")
    of = shifted(u)
    total = 1 + of.rest[:, None]
    log_p, log_q = of.others - np.log(total), np.log(1 - of.weights / total)
    terms = np.exp(gamma * (log_p + log_q))
    np.put_along_axis(terms, of.top, 0, axis=1)
    following, k = min(top, u.shape[1]) - 1, u.shape[1]
    if following < k - 1:  # terms grow with p below 1/2, where all but the likeliest class are
        terms = np.partition(terms, k - 1 - following, axis=1)[:, k - following :]
    return np.asarray((of.rest / total[:, 0] ** 2) ** gamma + terms.sum(axis=1))


class _NothingToFit:
    uses: ClassVar[Uses] = "confidences"

    def fit(self, items: Items, labels: Ints) -> Self:
        return self


@dataclass
class MaxSoftmax(_NothingToFit):
    name: ClassVar[str] = "max-softmax"

    def score(self, items: Items, size: int = 1) -> Floats:
        return max_softmax(items.confidences)


@dataclass
class MaxLogit(_NothingToFit):
    name: ClassVar[str] = "max-logit"

    def score(self, items: Items, size: int = 1) -> Floats:
        return max_logit(items.confidences)


@dataclass
class Energy(_NothingToFit):
    temperature: float = 1.0
    name: ClassVar[str] = "energy"

    def score(self, items: Items, size: int = 1) -> Floats:
        return energy(items.confidences, self.temperature)


@dataclass
class Entropy(_NothingToFit):
    name: ClassVar[str] = "entropy"

    def score(self, items: Items, size: int = 1) -> Floats:
        return entropy(items.confidences)


@dataclass
class GeneralisedEntropy(_NothingToFit):
    gamma: float = 0.1
    top: int = 100  # classes that count; all, where there are fewer
    name: ClassVar[str] = "gen"

    def score(self, items: Items, size: int = 1) -> Floats:
        return generalised_entropy(items.confidences, self.gamma, self.top)
