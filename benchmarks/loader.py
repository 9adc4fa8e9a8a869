"""How fast images reach a convolutional network, beside torchvision's usual way, in the same run on one thread.

    python benchmarks/loader.py

CIFAR-sized random images in batches of 128, each shifted by up to 4 pixels, mirrored every other time and scaled to
mean 0 and deviation 1. Ours scales all images once, then gathers whole batches from memory; theirs is a Dataset of PIL
images with transforms and a DataLoader in the same process. Scaling is timed apart, and counted in for a training of
one and of 160 epochs. Below: the training steps of Network in Network that ours feeds, and whitenings that share their
sums.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from outclass.features.whitening import fit_scaling, fit_zca, fit_zcas, moments
from outclass.networks.nin import NinSettings, prepared, random_views, train_nin
from outclass.partitions import balanced_subsets
from stages.command import single_threaded

BATCH, SHIFT = 128, 4
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (3840, 32, 32, 3), dtype=np.uint8)
labels = np.arange(len(images)) % 10


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The best of several runs: others on the machine only ever add to it."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def prepare() -> torch.Tensor:
    x = torch.as_tensor(images)
    return prepared(x, torch.arange(len(x)), fit_scaling(x), SHIFT)


def our_epoch(padded: torch.Tensor) -> None:
    for items in torch.randperm(len(padded)).split(BATCH):
        random_views(padded, items, SHIFT, flip=True)


class PilImages(Dataset[tuple[torch.Tensor, int]]):
    """As torchvision.datasets.CIFAR10 keeps and serves its images."""

    def __init__(self) -> None:
        scale = [v2.Normalize([0.5, 0.5, 0.5], [0.289, 0.289, 0.289])]
        tensor = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        self.transform = v2.Compose([v2.RandomCrop(32, padding=SHIFT), v2.RandomHorizontalFlip(), *tensor, *scale])

    def __len__(self) -> int:
        return len(images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(images[index])), int(labels[index])


def their_epoch() -> None:
    for _ in DataLoader(PilImages(), batch_size=BATCH, shuffle=True):
        pass


def loaders() -> None:
    padded = prepare()
    once, ours, theirs = seconds(prepare, 5), seconds(lambda: our_epoch(padded), 20), seconds(their_epoch, 3)
    rates = [len(images) / epoch for epoch in (ours, theirs)]
    print(f"images a second: ours {rates[0]:,.0f}, Dataset and DataLoader {rates[1]:,.0f}, ratio {theirs / ours:.1f}")
    print(f"scaling them once takes us {once:.2f} s, an epoch of theirs {theirs:.2f} s", end="; ")
    one, many = (epochs * theirs / (once + epochs * ours) for epochs in (1, 160))
    print(f"ratio over 1 epoch {one:.1f}, over 160 epochs {many:.1f}", flush=True)


def training_steps() -> None:
    ticks = []
    settings = NinSettings(epochs=1, batch=BATCH, whitening=None)
    few, everything = slice(4 * BATCH), np.ones((1, 10), bool)
    tick = lambda done, total: ticks.append(time.perf_counter())  # noqa: E731
    train_nin(images[few], labels[few], everything, [rng], settings, on_step=tick)
    rate = 1 / min(np.diff(ticks))
    print(f"Network in Network: {rate:.2f} training steps of {BATCH} images a second ({rate * BATCH:.0f} images)")


def whitenings() -> None:
    x, y = torch.as_tensor(images[:, ::2, ::2].copy()), torch.as_tensor(labels)
    taught = torch.as_tensor(~balanced_subsets(10, 1, 5, rng))
    ours = seconds(lambda: list(fit_zcas(x, y, taught, 0.1)), 2)
    theirs = seconds(lambda: [fit_zca(moments(x[classes[y]]), 0.1) for classes in taught], 2)
    print(f"5 whitenings of 768 values: shared sums {ours:.2f} s, each by itself {theirs:.2f} s, {theirs / ours:.1f}")


if __name__ == "__main__":
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}; a ratio above 1 is in our favour")
    with single_threaded():
        for benchmark in (loaders, training_steps, whitenings):
            benchmark()
