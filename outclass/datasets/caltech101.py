"""Caltech-101 (Fei-Fei, Fergus & Perona 2004): 101 classes of objects, 31 to 800 images each."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torchvision.datasets import Caltech101

from outclass.datasets import Item, archives

ARCHIVE = archives.Archive(
    "Caltech-101",
    "caltech101/caltech-101.zip",
    "caltech101/101_ObjectCategories",
    md5="3138e1922a9193bfa496528edbbc45d0",
    url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
)


def items(root: Path) -> Iterator[Item]:
    """All images but those of the background, which torchvision leaves out."""
    found = archives.load(ARCHIVE, root, partial(Caltech101, root, download=True))
    yield from archives.class_folders(root / ARCHIVE.unpacked, found.categories)
