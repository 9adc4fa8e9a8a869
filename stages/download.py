"""Bring a data set into one table of items, whatever its source."""

import io

import numpy as np
from PIL import Image

from outclass.arrays import Ints
from outclass.datasets import glyphs
from stages import command, params, paths, tables


def run() -> str:
    """Write data/items.parquet."""
    chosen = params.load()
    wanted = chosen.download.glyphs
    names = list(glyphs.CLASSES)[: wanted.classes]
    distortion = glyphs.Distortion(**wanted.model_dump(exclude={"classes", "images_per_class", "side"}))
    images, labels = glyphs.render(names, wanted.images_per_class, wanted.side, distortion, chosen.seed)
    tables.write(paths.ITEMS, tables.ITEMS, _items(names, images, labels))
    return f"{len(images):,} images of {len(names)} classes"


def _items(names: list[str], images: Ints, labels: Ints) -> dict[str, object]:
    per_class = len(images) // len(names)
    return {
        "item": np.arange(len(images)),
        "name": [f"{names[label]}/{index % per_class:04}" for index, label in enumerate(labels)],
        "class": np.array(names)[labels],
        "image": [_png(image) for image in images],
    }


def _png(image: Ints) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png", compress_level=1)
    return buffer.getvalue()


if __name__ == "__main__":
    command.main("download", run)
