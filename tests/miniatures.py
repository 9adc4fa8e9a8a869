"""Small archives in the official layouts of public data sets, which the real loaders of torchvision take.

``accepted(root)`` makes torchvision (and outclass) expect the checksums of what lies in ``root``, in this process
alone. An unpacked Caltech archive needs no such help: ``unpack`` once, and other processes can read it too. The
files of CIFAR-100 are checked one by one each time, so that a miniature of it is for this process only.
"""

import hashlib
import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image
from torchvision.datasets import CIFAR100, caltech
from torchvision.datasets.utils import download_and_extract_archive

from outclass.datasets import caltech101, caltech256

NOWHERE = "http://127.0.0.1:9/nothing"  # the discard port: refuses at once


def pictures(classes: int, per_class: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """(classes, per_class, side, side, 3): a coarse pattern of its own for each class, with noise."""
    coarse = rng.integers(40, 216, (classes, 1, 4, 4, 3))
    blocks = np.kron(coarse, np.ones((1, 1, -(-side // 4), -(-side // 4), 1)))[:, :, :side, :side]
    noise = rng.normal(0, 20, (classes, per_class, side, side, 3))
    return np.clip(blocks + noise, 0, 255).astype(np.uint8)


def build_cifar100(
    root: Path, classes: Sequence[str], train_per_class: int, test_per_class: int, rng: np.random.Generator
) -> Path:
    """cifar-100-python.tar.gz with pickled train, test and meta."""
    drawn = pictures(len(classes), train_per_class + test_per_class, 32, rng)
    files = {"meta": {"fine_label_names": list(classes), "coarse_label_names": ["all"]}}
    for name, part in (("train", drawn[:, :train_per_class]), ("test", drawn[:, train_per_class:])):
        images = part.reshape(-1, 32, 32, 3)
        order = rng.permutation(len(images))
        labels = np.repeat(np.arange(len(classes)), part.shape[1])[order]
        data = images[order].transpose(0, 3, 1, 2).reshape(len(images), -1)
        files[name] = {"data": data, "fine_labels": labels.tolist(), "coarse_labels": [0] * len(images)}
    return _tar(root / "cifar-100-python.tar.gz", {f"cifar-100-python/{k}": pickle.dumps(v) for k, v in files.items()})


def build_caltech256(root: Path, classes: Sequence[str], per_class: int, rng: np.random.Generator) -> Path:
    """256_ObjectCategories.tar; ``classes`` without their numbers, such as toad."""
    files = {"256_ObjectCategories/001." + classes[0] + "/RENAME2": b"a stray file, as in the original"}
    for number, (name, images) in enumerate(zip(classes, _jpegs(len(classes), per_class, rng), strict=True), 1):
        for index, data in enumerate(images, 1):
            files[f"256_ObjectCategories/{number:03}.{name}/{number:03}_{index:04}.jpg"] = data
    return _tar(root / caltech256.ARCHIVE.path, files)


def build_caltech101(root: Path, classes: Sequence[str], per_class: int, rng: np.random.Generator) -> Path:
    """caltech-101.zip, with the background category beside ``classes``."""
    names = ["BACKGROUND_Google", *classes]
    files = {}
    for name, images in zip(names, _jpegs(len(names), per_class, rng), strict=True):
        for index, data in enumerate(images, 1):
            files[f"101_ObjectCategories/{name}/image_{index:04}.jpg"] = data
    path = root / caltech101.ARCHIVE.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("caltech-101/101_ObjectCategories.tar.gz", _tar_bytes(files, "w:gz"))
        archive.writestr("caltech-101/Annotations.tar", _tar_bytes({"Annotations/readme": b""}, "w"))
    return path


@contextmanager
def accepted(root: Path) -> Iterator[None]:
    """Expect the archives in ``root`` to be the official ones; whatever is not there is out of reach."""
    cifar = patch.multiple(CIFAR100, **_cifar_sums(root / CIFAR100.filename))
    with offline(), cifar, _official(caltech256, root), _official(caltech101, root):
        yield


@contextmanager
def offline() -> Iterator[None]:
    """Every download fails at once, whatever network or proxy there is."""

    def fetch(url: str, *args: Any, **options: Any) -> None:
        known = {module.ARCHIVE.path.split("/")[1]: module.ARCHIVE.md5 for module in (caltech101, caltech256)}
        download_and_extract_archive(NOWHERE, *args, **{**options, "md5": known[options["filename"]]})

    with (
        patch.dict(os.environ, {"no_proxy": "*"}),
        patch.object(CIFAR100, "url", NOWHERE),
        patch.object(caltech, "download_and_extract_archive", fetch),
    ):
        yield


def unpack(root: Path) -> None:
    """Let torchvision unpack every Caltech archive that is there."""
    with accepted(root):
        for module in (caltech101, caltech256):
            if (root / module.ARCHIVE.path).exists():
                list(module.items(root))


def _official(module: Any, root: Path) -> Any:
    path = root / module.ARCHIVE.path
    md5 = _md5(path.read_bytes()) if path.exists() else module.ARCHIVE.md5
    return patch.object(module, "ARCHIVE", replace(module.ARCHIVE, md5=md5))


def _cifar_sums(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"tgz_md5": CIFAR100.tgz_md5}
    with tarfile.open(path) as archive:
        sums = {
            member.name.split("/")[1]: _md5(archive.extractfile(member).read()) for member in archive if member.isfile()
        }
    return {
        "tgz_md5": _md5(path.read_bytes()),
        "train_list": [["train", sums["train"]]],
        "test_list": [["test", sums["test"]]],
        "meta": {**CIFAR100.meta, "md5": sums["meta"]},
    }


def _jpegs(classes: int, per_class: int, rng: np.random.Generator) -> Iterator[list[bytes]]:
    """Photographs of many sizes, a few of them grey: so are the originals."""
    for images in pictures(classes, per_class, 96, rng):
        encoded = []
        for index, pixels in enumerate(images):
            image = Image.fromarray(pixels[: rng.integers(64, 97), : rng.integers(64, 97)])
            buffer = io.BytesIO()
            (image.convert("L") if index % 5 == 4 else image).save(buffer, "jpeg")
            encoded.append(buffer.getvalue())
        yield encoded


def _tar(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_tar_bytes(files, "w:gz" if path.suffix == ".gz" else "w"))
    return path


def _tar_bytes(files: dict[str, bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
