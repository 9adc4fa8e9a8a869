"""What each representation makes of an image, and what its values depend on beside the image itself."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

import outclass.features.hog
import outclass.features.images
from outclass.arrays import Floats, Ints
from outclass.errors import OutclassError
from outclass.features import images
from outclass.features.hog import HogSettings, check_size, histograms
from stages import command, paths, settings, tables
from stages.params import Embed

SMALL_SIDE, REDUCED = 256, 512
"""Where no representation asks for a larger side, JPEGs need not be decoded much beyond twice that size."""


@dataclass(frozen=True)
class Extractor:
    """``prepare`` runs beside the computing, for one image; ``compute`` takes many (n, ...) and gives (n, d)."""

    prepare: Callable[[Image.Image], Ints]
    compute: Callable[[Ints], Floats | Ints]
    identity: str  # of its parameters, code, libraries and weights


def build(embed: Embed, dropped: Iterable[str] = ()) -> dict[str, Extractor]:
    """The extractor of each representation that is asked for; classes that are dropped have no say in it."""
    return {name: BUILD[name](embed, list(dropped)) for name in embed.representations}


def decode(data: bytes, embed: Embed) -> Image.Image:
    """An image from its encoded bytes, upright and in RGB."""
    image = Image.open(io.BytesIO(data))
    if _reduced(embed):
        image.draft(None, (REDUCED, REDUCED))  # of effect on JPEGs only, and never below this size
    return images.normalise(image)


def _reduced(embed: Embed) -> bool:
    groups = [getattr(embed, name) for name in embed.representations]
    return all(group.side is not None and group.side <= SMALL_SIDE for group in groups)


def _hog(embed: Embed, dropped: list[str]) -> Extractor:
    assert embed.hog is not None
    side = embed.hog.side
    chosen = HogSettings(**embed.hog.model_dump(exclude={"side"}))
    height, width = (side, side) if side else _first_size(embed, dropped)
    check_size(min(height, width), chosen)

    def prepare(image: Image.Image) -> Ints:
        pixels = images.grey(image, side)
        if pixels.shape != (height, width):
            raise OutclassError(
                f"is {pixels.shape[1]} x {pixels.shape[0]} pixels, others are {width} x {height}: "
                f"set embed.hog.side, to which all are scaled"
            )
        return pixels

    compute = partial(histograms, settings=chosen)
    identity = _identity(embed, embed.hog, [outclass.features.hog], ["scikit-image"], height, width)
    return Extractor(prepare, compute, identity)


def _first_size(embed: Embed, dropped: list[str]) -> tuple[int, int]:
    """Height and width of the first image in use that can be decoded: all others must have them too."""
    count = tables.count_rows(paths.ITEMS, tables.IMAGES)
    for first in range(0, count, embed.shard):
        rows = tables.read_rows(paths.ITEMS, tables.IMAGES, first, first + embed.shard, ["class", "image"])
        for row in np.flatnonzero(~np.isin(rows["class"].to_pylist(), dropped)).tolist():
            try:
                width, height = decode(rows["image"][row].as_py(), embed).size
                return height, width
            except Exception:  # a bad item: whoever extracts it will say so
                continue
    raise OutclassError(f"{paths.ITEMS}: none of its {count:,} images can be decoded")


def _pixels(embed: Embed, dropped: list[str]) -> Extractor:
    assert embed.pixels is not None
    prepare = partial(images.colour, side=embed.pixels.side)
    return Extractor(prepare, lambda stack: stack.reshape(len(stack), -1), _identity(embed, embed.pixels, [], []))


def _pretrained(embed: Embed, dropped: list[str]) -> Extractor:
    from outclass.features import pretrained  # here, because loading torch takes longer than most others need to run

    command.single_threaded()  # once more, for torch has only just come in
    assert embed.pretrained is not None
    device = settings.device()
    network = pretrained.load(embed.pretrained.network, embed.pretrained.side)
    placed = cache(lambda: network.to(device))  # at first use: who only plans has no lease on the device
    libraries = ["torch", "torchvision", "timm"]
    identity = _identity(embed, embed.pretrained, [pretrained], libraries, network.digest, device)
    return Extractor(
        partial(images.colour, side=embed.pretrained.side), lambda stack: placed().features(stack), identity
    )


def _given(embed: Embed, dropped: list[str]) -> Extractor:
    def no_image(image: Image.Image) -> Ints:
        raise AssertionError("given features are no images")

    return Extractor(no_image, lambda features: features, "given")


BUILD = {"hog": _hog, "pixels": _pixels, "pretrained": _pretrained, "given": _given}


def _identity(embed: Embed, group: Any, modules: list[ModuleType], libraries: list[str], *more: Any) -> str:
    files = [outclass.features.images.__file__, __file__, *(module.__file__ for module in modules)]
    code = [hashlib.sha256(Path(str(file)).read_bytes()).hexdigest() for file in files]
    versions = [version(name) for name in ("pillow", "numpy", *libraries)]
    return json.dumps([group.model_dump(), _reduced(embed), code, versions, *more], sort_keys=True)
