"""Caltech-256 (Griffin, Holub & Perona 2007): 256 classes of objects and one of clutter, 80 images or more each."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torchvision.datasets import Caltech256

from outclass.datasets import Item, archives

ARCHIVE = archives.Archive(
    "Caltech-256",
    "caltech256/256_ObjectCategories.tar",
    "caltech256/256_ObjectCategories",
    md5="67b4f42ca05d46448c6bb8ecd2220f6d",
    url="https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
)


def items(root: Path) -> Iterator[Item]:
    """All images, clutter among them; a class is named as its official folder, such as 256.toad."""
    found = archives.load(ARCHIVE, root, partial(Caltech256, str(root), download=True))
    yield from archives.class_folders(root / ARCHIVE.unpacked, found.categories)
