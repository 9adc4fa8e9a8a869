"""Where items come from: one file a source, all giving the same stream of items."""

import io
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray
from PIL import Image


class Item(NamedTuple):
    """One labelled image, not decoded yet."""

    name: str  # unique in its source; for a file, its path below the source's folder
    label: str  # the class, as the source spells it
    split: str  # train or test where the source itself says so, else ""
    image: bytes | Path  # the encoded image, or the file that holds it


def png(pixels: NDArray[Any]) -> bytes:
    """Pixels as a file; compressed lightly, because small images gain little from more."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", compress_level=1)
    return buffer.getvalue()
