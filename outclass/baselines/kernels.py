"""Kernels between the rows of two arrays, in the precision that is asked for.

A kernel is called with blocks of rows and converts only those, so that features may stay as they are kept.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from outclass.arrays import Floats
from outclass.errors import OutclassError

KernelName = Literal["polynomial", "rbf", "linear"]


class Kernel(Protocol):
    def __call__(self, x: Floats, y: Floats, precision: npt.DTypeLike = np.float64) -> Floats:
        """The values (n, m) of rows x (n, d) with rows y (m, d)."""


@dataclass(frozen=True)
class Polynomial:
    """k(x, y) = (gamma <x, y> + constant)^degree"""

    degree: int
    gamma: float
    constant: float

    def __call__(self, x: Floats, y: Floats, precision: npt.DTypeLike = np.float64) -> Floats:
        base = x.astype(precision, copy=False) @ y.astype(precision, copy=False).T
        base *= self.gamma
        base += self.constant
        with np.errstate(over="ignore"):  # whoever factors the matrix sees infinity and says so
            return np.asarray(_power(base, self.degree))


def _power(base: Floats, degree: int) -> Floats:
    """Many times faster than ``base**degree``, which calls a general power for each entry."""
    result = base.copy() if degree > 1 else base
    for _ in range(degree - 1):
        result *= base
    return result


@dataclass(frozen=True)
class Rbf:
    """k(x, y) = exp(-gamma |x - y|^2); the centre cancels out, and with it the digits that a far origin costs."""

    gamma: float
    centre: Floats  # (d,)

    def __call__(self, x: Floats, y: Floats, precision: npt.DTypeLike = np.float64) -> Floats:
        x, y = _centred(x, self.centre, precision), _centred(y, self.centre, precision)
        values = x @ y.T
        values *= 2
        values -= np.einsum("ij,ij->i", x, x)[:, None]
        values -= np.einsum("ij,ij->i", y, y)
        np.minimum(values, 0, out=values)
        values *= self.gamma
        return np.asarray(np.exp(values, out=values))


@dataclass(frozen=True)
class Linear:
    """k(x, y) = <x - centre, y - centre> + constant"""

    centre: Floats  # (d,)
    constant: float

    def __call__(self, x: Floats, y: Floats, precision: npt.DTypeLike = np.float64) -> Floats:
        values = _centred(x, self.centre, precision) @ _centred(y, self.centre, precision).T
        values += self.constant
        return np.asarray(values)


def _centred(x: Floats, centre: Floats, precision: npt.DTypeLike) -> Floats:
    return np.asarray(x.astype(precision, copy=False) - centre.astype(precision, copy=False))


def kernel_for(
    name: KernelName, features: Floats, degree: int, gamma: float | Literal["scale"], constant: float
) -> Kernel:
    """The kernel of that name for features (n, d) as these; gamma "scale" is 1 / (d * variance of all entries).

    The linear kernel is that of centred features plus their mean squared norm. Methods that see only differences of
    items get the same answer from any constant, and this one is on the scale of the rest.
    """
    if degree < 1 or degree != int(degree) or constant < 0 or not (gamma == "scale" or gamma > 0):
        raise OutclassError(
            f"kernel with degree {degree}, gamma {gamma}, constant {constant}: the degree must be 1, 2, 3, ..., "
            'gamma positive or "scale", the constant not negative'
        )
    if name == "polynomial":
        return Polynomial(int(degree), scaled(gamma, features), constant)
    centre = features.mean(axis=0, dtype=np.float64)
    if name == "rbf":
        return Rbf(scaled(gamma, features), centre)
    if name == "linear":
        spread = float(features.var(axis=0, dtype=np.float64).sum())  # the mean squared norm of centred features
        return Linear(centre, spread or 1.0)
    raise OutclassError(f"kernel {name!r} is not known: choose polynomial, rbf or linear")


def scaled(gamma: float | Literal["scale"], features: Floats) -> float:
    if gamma != "scale":
        return gamma
    variance = float(features.var(dtype=np.float64))
    return 1 / (features.shape[1] * variance) if variance > 0 else 1.0
