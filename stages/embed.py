"""Represent every item by a vector of features, the same in every fold."""

import io

import numpy as np
import pyarrow as pa
from PIL import Image

from outclass.arrays import Ints
from outclass.errors import OutclassError
from outclass.features.hog import HogSettings, histograms
from stages import command, params, paths, tables


def run() -> str:
    """Write features/<representation>.parquet."""
    chosen = params.load().embed
    items = tables.read(paths.ITEMS, tables.ITEMS, ["item", "name", "image"])
    images = _grey_images(items)
    _check_size(images, chosen.hog)
    features = histograms(images, HogSettings(**chosen.hog.model_dump()))
    columns = {"item": items["item"].to_numpy(), "features": features}
    tables.write(paths.features(chosen.representation), tables.FEATURES, columns)
    return f"{features.shape[1]} {chosen.representation} features of {len(features):,} items"


def _check_size(images: Ints, hog: params.Hog) -> None:
    side, needed = min(images.shape[1:]), hog.cell * hog.block
    if side < needed:
        raise OutclassError(
            f"embed.hog: a block of {hog.block} x {hog.cell} pixels does not fit images of {side} pixels"
        )


def _grey_images(items: pa.Table) -> Ints:
    names = items["name"].to_pylist()
    images = [_decode(name, data) for name, data in zip(names, items["image"].to_pylist(), strict=True)]
    odd = next((i for i, image in enumerate(images) if image.shape != images[0].shape), None)
    if odd is not None:
        raise OutclassError(
            f"{paths.ITEMS}: item {names[odd]} is {images[odd].shape}, {names[0]} is {images[0].shape} pixels: "
            f"HOG needs images of one size"
        )
    return np.stack(images)


def _decode(name: str, data: bytes) -> Ints:
    try:
        return np.asarray(Image.open(io.BytesIO(data)).convert("L"))
    except (OSError, ValueError, SyntaxError) as error:  # all of these are Pillow's ways to say so
        raise OutclassError(f"{paths.ITEMS}: item {name} is not a readable image ({error})") from error


if __name__ == "__main__":
    command.main("embed", run)
