"""Items that are there more than once, found by digests: 16 bytes an item, however large the items."""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from outclass.arrays import Bools, Floats, Ints

SIZE = 16


class Copies(NamedTuple):
    group: Ints  # (n,) items of the same content have the same number
    ambiguous: Bools  # (n,) the same content is in another class as well
    first: Ints  # (n,) place of the first item of the same content
    repeated: Bools  # (n,) the class holds this content before already; ambiguous ones apart


def digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=SIZE).digest()


def digests(features: Floats) -> list[bytes]:
    """One digest a row; equal values give equal digests, 0.0 and -0.0 too."""
    return [digest(row.data) for row in np.ascontiguousarray(features + np.float32(0))]


def find(digests: bytes | bytearray, classes: Ints) -> Copies:
    """``digests`` of all items, one after the other; ``classes`` as whole numbers."""
    _, first, group = np.unique(np.frombuffer(digests, f"V{SIZE}"), return_index=True, return_inverse=True)
    lowest, highest = np.full(len(first), np.iinfo(np.int64).max), np.full(len(first), -1)
    np.minimum.at(lowest, group, classes)
    np.maximum.at(highest, group, classes)
    ambiguous = (lowest < highest)[group]
    return Copies(group, ambiguous, first[group], (first[group] < np.arange(len(group))) & ~ambiguous)
