"""Classifiers that give each item its vector of class activities u.

Each is trained as *heads*: one for each subset of the classes that it is taught, all from the same items.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.networks.flat import FlatSettings, train_heads
from outclass.networks.nin import NinSettings, train_nin
from outclass.networks.ridge import RidgeSettings, fit_heads

Settings = FlatSettings | RidgeSettings | NinSettings


class Heads(Protocol):
    """H trained heads for k classes."""

    def activities(self, inputs: Any) -> Floats:
        """Inputs of n items -> (H, n, k): the output activities u, -inf for classes that a head was not taught."""


def train(
    settings: Settings,
    inputs: Any,
    labels: Ints,
    taught: Bools,
    generators: Sequence[np.random.Generator],
    device: Any = "cpu",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> Heads:
    """Train the network that the settings are of, once for each row of ``taught`` (H, k).

    Inputs are features (n, d), or for ``nin`` images (n, side, side, 3) of 0..255.
    """
    if isinstance(settings, NinSettings):
        return train_nin(inputs, labels, taught, generators, settings, device, on_step)
    if isinstance(settings, FlatSettings):
        return train_heads(inputs, labels, taught, generators, settings, device, on_step)
    return fit_heads(inputs, labels, taught, settings, device, on_step)
