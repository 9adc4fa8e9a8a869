"""CIFAR-100 (Krizhevsky 2009): 100 classes of 500 training and 100 test images, 32 x 32 in colour."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torchvision.datasets import CIFAR100

from outclass.datasets import Item, archives, png


def items(root: Path) -> Iterator[Item]:
    """The official training images, then the official test images, in the order of the official files."""
    for split in ("train", "test"):
        part = archives.load(archive(), root, partial(CIFAR100, root, train=split == "train", download=True))
        for number, (pixels, label) in enumerate(zip(part.data, part.targets, strict=True)):
            name = part.classes[label]
            yield Item(f"{name}/{split}-{number:05}", name, split, png(pixels))


def archive() -> archives.Archive:
    """As torchvision knows it."""
    return archives.Archive(
        "CIFAR-100", CIFAR100.filename, CIFAR100.base_folder, md5=CIFAR100.tgz_md5, url=CIFAR100.url
    )
