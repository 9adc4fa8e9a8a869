"""How fast KNFST is fitted, beside the published algorithm, in the same run on one thread.

    python benchmarks/knfst.py              960 and 2,880 training items
    python benchmarks/knfst.py --large      26,880 training items of 4,096 features, one fit per precision

Seconds are those of the processor, so that others on the machine do not count. Both sides compute their kernel matrix.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items
from outclass.baselines.kernels import KernelName, kernel_for
from outclass.baselines.knfst import Knfst, Precision
from stages.command import single_threaded

TEST = 500


def published(matrix: Floats, labels: Ints, null_space: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Bodesheim et al. 2013, as printed: the projection's coefficients (n, q) and the class points (k, q)."""
    n = len(matrix)
    means = matrix.mean(axis=0)
    values, vectors = np.linalg.eigh(matrix - means - means[:, None] + means.mean())
    kept = values > 1e-12 * values.max()
    basis = vectors[:, kept] / np.sqrt(values[kept])
    basis -= basis.mean(axis=0)
    within = np.eye(n) - (labels[:, None] == labels) / np.bincount(labels)[labels]
    h = basis.T @ matrix @ within
    coefficients = basis @ null_space(h @ h.T)
    projected = matrix @ coefficients
    return coefficients, np.stack([projected[labels == label].mean(axis=0) for label in range(labels.max() + 1)])


def by_singular_values(scatter: Floats) -> Floats:
    """What a general null-space routine does."""
    return np.asarray(scipy.linalg.null_space(scatter, rcond=1e-10))


def by_eigenvalues(scatter: Floats) -> Floats:
    """Cheaper, since the scatter is symmetric."""
    values, vectors = np.linalg.eigh(scatter)
    return np.asarray(vectors[:, values < 1e-10 * values.max()])


def draw(classes: int, each: int, width: int) -> tuple[Floats, Ints, Floats]:
    """Train items, their labels, and test items of known and of unknown classes, all in single precision."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), each)
    centres = rng.normal(size=(2 * classes, width)).astype(np.float32)
    train = rng.normal(size=(len(labels), width)).astype(np.float32)
    train += centres[labels]
    test = rng.normal(size=(TEST, width)).astype(np.float32) + centres[rng.integers(0, 2 * classes, TEST)]
    return train, labels, test


def items(features: Floats) -> Items:
    return Items(np.empty((len(features), 0)), features)


def cpu_seconds(work: Callable[[], object], repeats: int = 1) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def compare(name: KernelName, classes: int, each: int, width: int = 512) -> None:
    train, labels, test = draw(classes, each, width)
    baseline = Knfst(kernel=name)
    ours = cpu_seconds(lambda: baseline.fit(items(train), labels), 3)
    print(f"{name:<10} {len(train):>5,} items of {classes} classes, {width} features   {ours:6.2f} s", end="")
    kernel = kernel_for(name, train, baseline.degree, "scale", baseline.constant)
    found: list[tuple[Floats, Floats]] = []

    def fit_published(null_space: Callable[[Floats], Floats]) -> None:
        found.append(published(kernel(train, train), labels, null_space))

    for null_space in (by_singular_values, by_eigenvalues):
        theirs = cpu_seconds(partial(fit_published, null_space))
        print(f"   published, null space {null_space.__name__} {theirs:6.2f} s, ratio {theirs / ours:5.1f}", end="")
    coefficients, points = found[0]
    expected = np.linalg.norm((kernel(test, train) @ coefficients)[:, None] - points, axis=2).min(axis=1)
    gap = abs(baseline.score(items(test)) / expected - 1).max()
    print(f"   scores differ by {gap:.0e}", flush=True)


def large(name: KernelName, precision: Precision) -> Floats:
    """Fit and score once; meant for a process of its own, whose peak memory it prints."""
    with single_threaded():
        train, labels, test = draw(224, 120, 4096)
        baseline = Knfst(kernel=name, precision=precision)
        fit = cpu_seconds(lambda: baseline.fit(items(train), labels))
        found: list[Floats] = []
        score = cpu_seconds(lambda: found.append(baseline.score(items(test))))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{name:<10} {len(train):,} items of 224 classes, 4,096 features, {precision} precision   fit {fit:6.1f} s   "
        f"score of {TEST} {score:5.1f} s   peak {peak:.1f} GB",
        flush=True,
    )
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="26,880 items; takes minutes and up to 7 GB")
    if parser.parse_args().large:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
            single, double = (fresh.apply(large, ("polynomial", precision)) for precision in ("single", "double"))
        print(f"scores differ by {abs(single / double - 1).max():.0e}")
        return
    with single_threaded():
        for name in ("polynomial", "rbf"):
            compare(name, 16, 60)
            compare(name, 48, 60)


if __name__ == "__main__":
    main()
