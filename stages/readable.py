"""Is this an image at all, and whole? Answered from the bytes without decoding the pixels, which comes later."""

import io
import warnings

from PIL import Image, UnidentifiedImageError

END_OF_JPEG = b"\xff\xd9"


def fault(data: bytes) -> str | None:
    """Why bytes are not a readable image; None if nothing speaks against them."""
    if not data:
        return "empty file"
    try:
        with warnings.catch_warnings(action="ignore"):  # oddities of a header that do no harm
            return _fault_inside(data)
    except UnidentifiedImageError:
        return "not an image: Pillow knows no such format"
    except Exception as error:  # Pillow's readers raise whatever a broken file leads them to
        return f"broken image ({str(error) or type(error).__name__})"


def _fault_inside(data: bytes) -> str | None:
    with Image.open(io.BytesIO(data)) as image:
        if image.format in ("JPEG", "MPO"):
            # Opening has read up to the first scan. From there on the marker can only be the end of the image;
            # before, it may belong to a thumbnail.
            scan = image.fp.tell() if image.fp else 0
            return None if data.find(END_OF_JPEG, scan) >= 0 else "truncated JPEG: its end is missing"
        image.verify()  # of use for PNG: checks every chunk's checksum
        return None
