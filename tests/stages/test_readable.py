"""Bytes that are no whole image are told from those that are, as Pillow's decoder would."""

import io

import numpy as np
import pytest
from PIL import Image

from stages.readable import fault

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 48, 3), dtype=np.uint8)


def encoded(kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, kind, **options)
    return buffer.getvalue()


def with_thumbnail() -> bytes:
    """A JPEG whose header holds a small JPEG with an end marker of its own."""
    small = io.BytesIO()
    Image.fromarray(PIXELS[:8, :8]).save(small, "jpeg")
    segment = b"Exif\0\0" + small.getvalue()
    whole = encoded("jpeg")
    return whole[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2) + segment + whole[2:]


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "gif", "tiff", "webp", "ppm"])
def test_whole_images_are_fine(kind):
    assert fault(encoded(kind)) is None


@pytest.mark.parametrize("data", [encoded("jpeg", progressive=True), with_thumbnail(), encoded("jpeg") + b"tail"])
def test_unusual_but_whole_jpegs_are_fine(data):
    Image.open(io.BytesIO(data)).load()
    assert fault(data) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"<html>404</html>", "not an image"),
        (encoded("jpeg")[:-2], "truncated JPEG"),
        (encoded("jpeg", progressive=True)[:-400], "truncated JPEG"),
        (with_thumbnail()[:-100], "truncated JPEG"),
        (encoded("jpeg")[:40], "broken image"),
        (encoded("png")[:-100], "broken image"),
        (encoded("webp")[:-10], "broken image"),
    ],
)
def test_others_are_named(data, reason):
    with pytest.raises((OSError, SyntaxError)):
        Image.open(io.BytesIO(data)).load()
    assert reason in fault(data)


def test_a_flipped_bit_in_a_png_is_found():
    data = bytearray(encoded("png"))
    data[len(data) // 2] ^= 1
    assert "broken image" in fault(bytes(data))


def test_a_picture_said_to_be_enormous_is_refused_quietly(recwarn):
    """Its header alone would make a decoder ask for gigabytes."""
    data = encoded("bmp")
    data = data[:18] + (60_000).to_bytes(4, "little") * 2 + data[26:]
    assert "exceeds limit" in fault(data)
    assert not recwarn.list
