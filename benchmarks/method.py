"""How fast the parts are, each beside what one would otherwise write, in the same run on one thread.

    python benchmarks/method.py        or: make bench

Sizes are those of the default run: 5,400 train and 4,000 test items of 90 classes, 324 features.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import OneClassSVM as ScikitOneClassSVM

from outclass.arrays import Floats
from outclass.baselines.contract import Items
from outclass.baselines.knn_ratio import KnnRatio
from outclass.baselines.one_class_svm import OneClassSVM
from outclass.metrics import auc, eer, roc
from outclass.networks.flat import FlatSettings, train_heads
from outclass.networks.ridge import RidgeSettings, fit_heads
from outclass.partitions import balanced_subsets
from outclass.seeds import generator
from outclass.sets import draw_sets, set_means
from stages.command import single_threaded

CLASSES, TRAIN, TEST, WIDTH = 90, 60, 40, 324
rng = np.random.default_rng(0)
centres = rng.normal(size=(CLASSES, WIDTH))
train_labels, test_labels = (np.repeat(np.arange(CLASSES), count) for count in (TRAIN, TEST))
train, test = (
    (centres[labels] + 3 * rng.normal(size=(len(labels), WIDTH))).astype(np.float32)
    for labels in (train_labels, test_labels)
)


def items(features: Floats) -> Items:
    return Items(np.empty((len(features), 0)), features)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The best of several runs: others on the machine only ever add to it."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def compare(what: str, ours: Callable[[], object], other: str, theirs: Callable[[], object], repeats: int = 5) -> None:
    mine, yours = seconds(ours, repeats), seconds(theirs, repeats)
    print(f"{what:<44} {mine:9.4f} s   {other:<42} {yours:9.4f} s   ratio {yours / mine:6.1f}", flush=True)


def heads_at_once() -> None:
    settings = FlatSettings(steps=100)
    taught = ~balanced_subsets(CLASSES, 9, 5, rng)

    def plain_loop() -> None:
        for classes in taught:
            x = torch.as_tensor(train[classes[train_labels]])
            y = torch.as_tensor(train_labels[classes[train_labels]])
            network = torch.nn.Sequential(
                torch.nn.Linear(WIDTH, settings.hidden), torch.nn.ReLU(), torch.nn.Linear(settings.hidden, CLASSES)
            )
            optimiser = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate)
            for _ in range(settings.steps):
                batch = torch.randint(len(x), (settings.batch,))
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
                optimiser.step()

    generators = [generator(0, "benchmark", head) for head in range(5)]
    ours = lambda: train_heads(train, train_labels, taught, generators, settings)  # noqa: E731
    compare("5 heads at once, 100 steps", ours, "a loop over nn.Sequential", plain_loop, 3)


def closed_form() -> None:
    taught = ~balanced_subsets(CLASSES, 9, 20, rng)
    generators = [generator(0, "benchmark", head) for head in range(20)]
    compare(
        "20 ridge heads",
        lambda: fit_heads(train, train_labels, taught, RidgeSettings()),
        "20 flat heads, 600 steps",
        lambda: train_heads(train, train_labels, taught, generators, FlatSettings()),
        1,
    )


def measures() -> None:
    counts, novel = rng.integers(0, 19, 4000).astype(float), rng.random(4000) < 0.1

    def ours() -> tuple[float, float]:
        curve = roc(counts, novel)
        return auc(*curve), eer(*curve)

    compare("AUC and EER of 4,000 counts", ours, "scikit-learn: roc_auc_score, roc_curve", lambda: (
        roc_auc_score(novel, counts), roc_curve(novel, counts)), 50)  # fmt: skip


def means_of_sets() -> None:
    sets = draw_sets(test_labels, 5, rng)
    compare(
        "means of 720 sets of 5",
        lambda: set_means(test, sets),
        "a loop over the sets",
        lambda: np.stack([test[list(members)].mean(axis=0) for members in sets]),
        20,
    )


def neighbours() -> None:
    baseline = KnnRatio(5)

    def one_k_after_the_other() -> None:
        for k in (1, 2, 5):
            search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(train)
            own, _ = search.kneighbors()
            distances, nearest = search.kneighbors(test)
            distances.mean(axis=1) / own.mean(axis=1)[nearest].mean(axis=1)

    ours = lambda: baseline.fit(items(train), train_labels).ratios(items(test), [1, 2, 5])  # noqa: E731
    compare("k-NN ratios for k = 1, 2, 5", ours, "scikit-learn, one k after the other", one_k_after_the_other, 3)


def support_vectors() -> None:
    ours = OneClassSVM(0.1).fit(items(train[:, :100]), train_labels)
    theirs = ScikitOneClassSVM(nu=0.1).fit(train[:, :100])
    compare(
        "one-class SVM: scores of 3,600 items",
        lambda: ours.score(items(test[:, :100])),
        "scikit-learn: decision_function",
        lambda: theirs.decision_function(test[:, :100]),
    )


if __name__ == "__main__":
    print(f"torch {torch.__version__}, numpy {np.__version__}; a ratio above 1 is in our favour")
    with single_threaded():
        for benchmark in (heads_at_once, closed_form, measures, means_of_sets, neighbours, support_vectors):
            benchmark()
