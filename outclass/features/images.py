"""Images as networks and histograms want them: upright, 8 bits a channel, on white ground, square.

Here are geometry and colour; whoever has the file or the bytes decodes them with Pillow.
"""

import numpy as np
from PIL import Image, ImageOps

from outclass.arrays import Ints

DEEP = ("I", "I;16", "I;16B", "I;16L", "I;16N")
"""Modes of grey images with more than 8 bits; files that hold them count from 0 to 65,535."""


def normalise(image: Image.Image) -> Image.Image:
    """Any image as upright RGB: turned as its EXIF data say, and put on white where it is transparent."""
    upright = ImageOps.exif_transpose(image)
    if upright.mode in DEEP:
        return _eight_bits(upright).convert("RGB")
    if upright.mode == "F":
        raise ValueError("its pixels are floating-point numbers, of a range that nobody can tell")
    if upright.has_transparency_data:
        coloured = upright.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
    return upright.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow itself would cut all values beyond 255 off."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65_535:
        raise ValueError("its pixels have more than 16 bits")
    return Image.fromarray((values // 257).astype(np.uint8))


def centre(image: Image.Image, side: int | None) -> Image.Image:
    """Scale the shorter edge to ``side`` and cut the centre out; without a side, the image as it is."""
    return image if side is None else ImageOps.fit(image, (side, side), Image.Resampling.BICUBIC)


def colour(image: Image.Image, side: int | None) -> Ints:
    """The centre as (side, side, 3), values 0..255."""
    return np.asarray(centre(image, side))


def grey(image: Image.Image, side: int | None) -> Ints:
    """The centre as (side, side), values 0..255. What was grey before keeps its very values."""
    return np.asarray(centre(image, side).convert("L"))


def mirror(pixels: Ints) -> Ints:
    """Left and right exchanged, for (height, width) and (height, width, 3)."""
    return pixels[:, ::-1]
