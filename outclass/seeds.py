"""Every random choice has its own stream, named by its purpose and its place in the experiment."""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """The stream for one purpose at one place, e.g. ``generator(seed, "weights", repetition, fold, partition)``.

    Streams are independent of each other: drawing more from one, or adding a fold, changes no other.
    """
    # The length is part of it because numpy takes a missing number for 0.
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), len(place), *place])
