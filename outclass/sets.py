"""Sets of s items that share a label, drawn and averaged as whole arrays."""

from typing import Any

import numpy as np

from outclass.arrays import Floats, Ints


def random_ranks(labels: Ints, rng: np.random.Generator) -> Ints:
    """Each item's place in a random order of the items that share its label: 0, 1, 2, ..."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    _, start, count = np.unique(labels[order], return_index=True, return_counts=True)
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(start, count)
    return ranks


def draw_sets(labels: Ints, size: int, rng: np.random.Generator) -> Ints:
    """All disjoint same-label sets of ``size`` items: positions in ``labels``, one row a set.

    Items left over in a class (fewer than ``size``) are in no set.
    """
    ranks = random_ranks(labels, rng)
    _, inverse, count = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((ranks, labels))
    in_a_set = ranks < (count - count % size)[inverse]
    return order[in_a_set[order]].reshape(-1, size)


def set_means(values: Floats, sets: Ints) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean over each set of its items' values: ``values`` is (..., items, k), the result (..., sets, k)."""
    total = np.zeros((*values.shape[:-2], len(sets), values.shape[-1]))
    for member in sets.T:  # s terms: no copy of every item's values is held
        total += values[..., member, :]
    return np.asarray(total / sets.shape[1])


def label_means(values: Floats, labels: Ints, labels_count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Mean over all items of each label: ``values`` is (..., items, k), the result (..., labels, k).

    Every label in ``range(labels_count)`` must occur.
    """
    order = np.argsort(labels, kind="stable")
    count = np.bincount(labels, minlength=labels_count)
    start = np.cumsum(count) - count
    total = np.add.reduceat(values[..., order, :].astype(np.float64), start, axis=-2)
    return np.asarray(total / count[:, None])
