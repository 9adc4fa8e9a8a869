"""Histograms of oriented gradients (Dalal & Triggs 2005), 324 values for a 32 x 32 image as in the paper."""

from dataclasses import dataclass

import numpy as np
from skimage.feature import hog

from outclass.arrays import Floats, Ints
from outclass.errors import OutclassError


@dataclass(frozen=True)
class HogSettings:
    orientations: int = 9
    cell: int = 8  # pixels along a cell's side
    block: int = 2  # cells along a block's side


def histograms(images: Ints, settings: HogSettings) -> Floats:
    """Grey images (n, height, width) with values 0..255 -> HOG features (n, d) in float32."""
    check_size(min(images.shape[1:]), settings)
    unit = images.astype(np.float32) / 255
    return np.stack(
        [
            hog(
                image,
                orientations=settings.orientations,
                pixels_per_cell=(settings.cell, settings.cell),
                cells_per_block=(settings.block, settings.block),
            )
            for image in unit
        ]
    )


def check_size(side: int, settings: HogSettings) -> None:
    if side < settings.cell * settings.block:
        raise OutclassError(
            f"embed.hog: a block of {settings.block} cells of {settings.cell} pixels does not fit images of {side} "
            f"pixels: choose smaller cells or blocks, or a larger embed.hog.side"
        )
