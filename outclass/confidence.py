"""The raw novelty score: how far the best class of a set is ahead of the second best (eq. 1-4 of the paper)."""

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy

from outclass.arrays import Bools, Floats, Ints

Confidence = Literal["activation", "softmax"]
Theta = Literal["difference", "ratio", "log_ratio"]

CONFIDENCES: tuple[Confidence, ...] = ("activation", "softmax")

LARGEST_RATIO = 1e6
"""A ratio beyond this (up to u/0) counts as this much: the second class has no confidence worth the name."""


class Summary(NamedTuple):
    """What any theta needs of a mean confidence vector."""

    top: Ints  # position of the largest entry: o_S of eq. 1
    first: Floats  # u(S)_1, the largest entry
    second: Floats  # u(S)_2, the second largest
    lowest: Floats  # the smallest entry
    energy: Floats  # log sum exp of all entries


def summarise(means: Floats) -> Summary:
    """Eq. 1 and 2 for mean confidence vectors (..., k) of sets; k is at least 2."""
    top_two = np.partition(means, -2, axis=-1)[..., -2:]
    return Summary(
        top=means.argmax(axis=-1),
        first=top_two[..., 1],
        second=top_two[..., 0],
        lowest=means.min(axis=-1),
        energy=scipy.special.logsumexp(means, axis=-1),
    )


def theta(first: Floats, second: Floats, lowest: Floats, kind: Theta) -> Floats:
    """Theta_S (eq. 3) and theta_i (eq. 4): large when the best class is clear, small when a set looks novel.

    ``ratio`` is the equation as printed. It presumes confidences >= 0; where a vector has negative entries, its
    lowest entry is subtracted first. ``difference`` is the alternative that the paper's introduction allows.
    """
    if kind == "difference":
        return np.asarray(first - second)
    shift = np.minimum(lowest, 0.0)
    ratio = _ratio(np.asarray(first - shift, dtype=float), np.asarray(second - shift, dtype=float))
    return ratio if kind == "ratio" else np.log(ratio)


def undefined_ratio(first: Floats, second: Floats, lowest: Floats) -> Bools:
    """Where eq. 3 reads 0 / 0 (taken as 1: nothing tells the two best classes apart)."""
    shift = np.minimum(lowest, 0.0)
    return np.asarray((first - shift == 0) & (second - shift == 0))


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    limited = np.full_like(numerator, LARGEST_RATIO)
    positive = denominator * LARGEST_RATIO > numerator
    np.divide(numerator, denominator, out=limited, where=positive)
    limited[(numerator == 0) & (denominator == 0)] = 1.0
    return limited


def softmax(activations: Floats) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Activations (..., k) as probabilities over k classes."""
    shifted = np.exp(activations - activations.max(axis=-1, keepdims=True).astype(np.float64))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def as_confidence(activations: Floats, kind: Confidence) -> Floats:
    """The confidence vectors u that the method works on."""
    return activations if kind == "activation" else softmax(activations)
