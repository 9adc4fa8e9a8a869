"""Classifiers that give each item its vector of class activities u.

Each is trained as *heads*: one for each subset of the classes that it is taught, all from the same items.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.networks.flat import FlatSettings, train_heads
from outclass.networks.ridge import RidgeSettings, fit_heads


class Heads(Protocol):
    """H trained heads for k classes."""

    def activities(self, features: Floats) -> Floats:
        """(n, d) -> (H, n, k): the output activities u, -inf for classes that a head was not taught."""


def train(
    settings: FlatSettings | RidgeSettings,
    features: Floats,
    labels: Ints,
    taught: Bools,
    generators: Sequence[np.random.Generator],
    device: Any = "cpu",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> Heads:
    """Train the network that the settings are of, once for each row of ``taught`` (H, k)."""
    if isinstance(settings, FlatSettings):
        return train_heads(features, labels, taught, generators, settings, device, on_step)
    return fit_heads(features, labels, taught, settings, device, on_step)
