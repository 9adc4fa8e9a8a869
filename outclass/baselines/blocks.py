"""Large arrays a block of rows at a time, so that no copy of the whole is ever made in double precision."""

from collections.abc import Callable, Iterator

import numpy as np

from outclass.arrays import Floats

BLOCK = 2**22
"""Numbers in a block: 32 MB in double precision."""


def slices(rows: int, width: int) -> Iterator[slice]:
    """Consecutive slices of ``rows`` rows, each with about ``BLOCK`` numbers and with at least one row."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))


def by_blocks(score: Callable[[Floats], Floats], vectors: Floats, centre: Floats | float = 0.0) -> Floats:
    """``score`` of all vectors (n, d) - centre, in double precision."""
    parts = [score(np.subtract(vectors[rows], centre, dtype=np.float64)) for rows in slices(*vectors.shape)]
    return np.concatenate(parts) if parts else np.empty(0)
