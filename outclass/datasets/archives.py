"""Public data sets that torchvision fetches, checks and unpacks; when it cannot, words on what to place where."""

import http.client
import socket
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchvision.datasets.utils import check_integrity

from outclass.datasets import Item
from outclass.errors import OutclassError

PATIENCE = 60.0
"""Seconds without an answer after which a server counts as out of reach."""
FAILURES = (
    OSError,
    RuntimeError,
    EOFError,
    http.client.HTTPException,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Archive:
    """One file that holds a data set."""

    title: str
    path: str  # below the folder of downloads
    unpacked: str  # the folder it is unpacked to, likewise
    md5: str
    url: str


def load(archive: Archive, root: Path, loader: Callable[[], T]) -> T:
    """Call a torchvision loader: it takes what is unpacked, else an archive that is there, else downloads one."""
    try:
        with _patience():
            return loader()
    except FAILURES as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise OutclassError(_advice(archive, root, reason)) from error


def class_folders(folder: Path, classes: Iterable[str]) -> Iterator[Item]:
    """The JPEG files of each class's folder, in the order of their names."""
    for label in classes:
        for path in sorted((folder / label).glob("*.jpg")):
            yield Item(f"{label}/{path.name}", label, "", path)


def _advice(archive: Archive, root: Path, reason: str) -> str:
    path = root / archive.path
    again = f"get {path.name} (md5 {archive.md5}) from {archive.url} by other means, place it in {path.parent}"
    if not path.exists():
        return f"{archive.title}: {path} is not there and cannot be downloaded ({reason}): {again}, and run again"
    if not check_integrity(path, archive.md5):
        return f"{path}: damaged, or not the right file, and cannot be downloaded anew ({reason}): delete it, {again}"
    folder = root / archive.unpacked
    return f"{path}: cannot be unpacked ({reason}): free space if there is none, delete {folder}, and run again"


@contextmanager
def _patience() -> Iterator[None]:
    """torchvision itself would wait for an answer for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
