"""Systems (K + ridge I) A = B of a kernel matrix too large to be held twice.

K's lower triangle is computed block by block and factorised in its place. What needs K after that computes it anew
from the items, block by block.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy

from outclass.arrays import Floats
from outclass.baselines.kernels import Kernel
from outclass.errors import OutclassError

ROUNDING = 10 * float(np.finfo(np.float64).eps)
"""Eigenvalues of K below this share of its trace cannot be told from zero."""

REFINED = 1e-7
"""Relative error of a solution at which its refinement stops."""


def blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def lower_triangle(kernel: Kernel, x: Floats, ridge: float, precision: npt.DTypeLike, block: int) -> Floats:
    """The lower triangle of K + ridge I for items x, in column order for LAPACK; anything above it."""
    matrix = np.empty((len(x), len(x)), dtype=precision, order="F")
    for rows in blocks(len(x), block):
        row_items = x[rows].astype(precision)
        for columns in blocks(rows.stop, block):
            matrix[rows, columns] = kernel(row_items, x[columns], precision)
    matrix[np.diag_indices(len(x))] += ridge
    return matrix


def kernel_times(kernel: Kernel, x: Floats, b: Floats, block: int) -> Floats:
    """K @ b in double precision, from one half of K."""
    product = np.zeros(b.shape)
    for rows in blocks(len(x), block):
        row_items = x[rows].astype(np.float64)
        for columns in blocks(rows.stop, block):
            values = kernel(row_items, x[columns])
            product[rows] += values @ b[columns]
            if rows != columns:
                product[columns] += values.T @ b[rows]
    return product


def solve_in_double(kernel: Kernel, x: Floats, b: Floats, ridge: float, block: int) -> Floats | None:
    """A in double precision, or None if the matrix is not safely positive definite."""
    matrix = lower_triangle(kernel, x, ridge, np.float64, block)
    trace = float(matrix.trace())
    if not np.isfinite(trace):
        raise OutclassError("kernel values of the training items are too large to compute with: lower gamma or degree")
    factorise, estimate, solve = scipy.linalg.get_lapack_funcs(("potrf", "pocon", "potrs"), (matrix,))
    factor, failed = factorise(matrix, lower=1, clean=0, overwrite_a=1)
    if failed or not estimate(factor, trace, uplo="L")[0] > ROUNDING:
        return None
    return np.asarray(solve(factor, b, lower=1)[0])


def solve_in_single(kernel: Kernel, x: Floats, b: Floats, ridge: float, block: int) -> Floats | None:
    """A from a factor in single precision, half the memory, refined with residuals in double precision.

    Every step multiplies the error by about the same rate, which the sizes of the steps tell; so the last error is
    known without one more residual. None if the steps do not shrink: the matrix is too near to singular.
    """
    matrix = lower_triangle(kernel, x, ridge, np.float32, block)
    if not np.isfinite(matrix.trace()):
        return None
    factorise, solve = scipy.linalg.get_lapack_funcs(("potrf", "potrs"), (matrix,))
    factor, failed = factorise(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None
    solution, size = solve(factor, b.astype(np.float32), lower=1)[0].astype(np.float64), 1.0
    while True:
        residual = b - ridge * solution - kernel_times(kernel, x, solution, block)
        step = solve(factor, residual.astype(np.float32), lower=1)[0]
        solution += step
        before, size = size, float(np.linalg.norm(step) / np.linalg.norm(solution))
        rate = size / before
        if size * rate <= REFINED:
            return np.asarray(solution)
        if not rate < 0.5:
            return None
