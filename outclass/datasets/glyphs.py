"""The embedded default data set: 100 characters in 16 faces, drawn from a seed and without a network."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from outclass.datasets import Item, png
from outclass.errors import OutclassError

# The text faces that ship with matplotlib and hold every character below.
FACES = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
)

# Shapes that one face or another makes (nearly) equal appear once: no O with 0, S with 5, H with И or Π,
# F with Γ, A with Λ, D with O (hence d), B with 8 (hence b), E with F (hence e). The tests measure this.
# No two names differ by case alone, so that they may also name files.
_GROUPS = {
    "latin": {letter: letter for letter in "AbCdeFGHJKLMNOPQRTUVWXYZ"} | {"AE": "Æ", "OE": "Œ", "thorn": "Þ"},
    "digit": {digit: digit for digit in "123456789"},
    "greek": {
        "alpha": "α",
        "beta": "β",
        "delta": "Δ",
        "epsilon": "ε",
        "zeta": "ζ",
        "lambda": "λ",
        "mu": "μ",
        "xi": "Ξ",
        "sigma": "Σ",
        "phi": "Φ",
        "psi": "Ψ",
        "omega": "ω",
        "sampi": "Ϡ",
        "koppa": "ϟ",
    },
    "cyrillic": {
        "de": "Д",
        "zhe": "Ж",
        "tse": "Ц",
        "che": "Ч",
        "sha": "Ш",
        "hard-sign": "Ъ",
        "yery": "Ы",
        "e": "Э",
        "yu": "Ю",
        "ya": "Я",
        "dje": "Ђ",
        "lje": "Љ",
        "nje": "Њ",
    },
    "symbol": {
        "hash": "#",
        "percent": "%",
        "ampersand": "&",
        "at": "@",
        "question": "?",
        "plus": "+",
        "equals": "=",
        "asterisk": "*",
        "less": "<",
        "greater": ">",
        "brace": "{",
        "euro": "€",
        "pound": "£",
        "section": "§",
        "pilcrow": "¶",
        "copyright": "©",
        "left-quotes": "«",
        "right-quotes": "»",
        "plus-minus": "±",
        "double-dagger": "‡",
        "inverted-question": "¿",
        "tilde": "~",
        "numero": "№",
        "not": "¬",
        "currency": "¤",
        "half": "½",
        "trade-mark": "™",
        "dollar": "$",
        "exclamation": "!",
        "partial": "∂",
        "caret": "^",
        "double-cross": "╬",
        "double-up": "╩",
        "double-right": "╠",
        "cent": "¢",
        "per-mille": "‰",
        "semicolon": ";",
    },
}
CLASSES: dict[str, str] = {
    f"{group}-{name}": character for group, names in _GROUPS.items() for name, character in names.items()
}

_SUPERSAMPLING = 2  # glyphs are placed on a finer grid and averaged, so that thin strokes do not break up


@dataclass(frozen=True)
class Distortion:
    """How far one image may stray from the plain glyph; every value is drawn uniformly.

    The defaults make a benchmark that a small network neither fails nor solves: about two images in three
    right with 60 to learn from. The shift does most of this, since features on a grid feel it.
    """

    size: tuple[float, float] = (0.5, 0.87)  # em as a fraction of the image side, smallest and largest
    rotation: float = 10.0  # largest turn either way, in degrees
    shear: float = 0.15  # largest slant either way, as x per y
    shift: float = 0.25  # largest move from the centre along either axis, as a fraction of the side
    blur: float = 0.6  # largest Gaussian sigma, in pixels
    contrast: tuple[float, float] = (0.6, 1.0)  # glyph minus ground, as a fraction of the grey range
    noise: float = 0.01  # largest Gaussian sigma, as a fraction of the grey range

    def __post_init__(self) -> None:
        _check_range("size", self.size)
        _check_range("contrast", self.contrast)
        # Beyond these a glyph could turn into another, or drown: the label would be wrong.
        limits = {"rotation": 10.0, "shear": 0.5, "shift": 0.5, "blur": 4.0, "noise": 0.03}
        for name, most in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise OutclassError(f"distortion {name} is {value}: it must lie between 0 and {most:g}")


def items(
    classes: Sequence[str], images_per_class: int, side: int, distortion: Distortion, seed: int
) -> Iterator[Item]:
    """What ``render`` draws, class by class, as files."""
    _check_request(classes, images_per_class, side, seed)
    for name in classes:
        for index, image in enumerate(_render_class(name, images_per_class, side, distortion, seed)):
            yield Item(f"{name}/{index:04}", name, "", png(image))


def render(
    classes: Sequence[str], images_per_class: int, side: int, distortion: Distortion, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw bright glyphs on a dark ground; return (n, side, side) images and their indices into classes.

    An image depends on the seed, its class's name and its index within the class alone: neither the other
    classes asked for nor the number of images changes it.
    """
    _check_request(classes, images_per_class, side, seed)
    images = np.empty((len(classes), images_per_class, side, side), np.uint8)
    for index, name in enumerate(classes):
        images[index] = _render_class(name, images_per_class, side, distortion, seed)
    return images.reshape(-1, side, side), np.repeat(np.arange(len(classes)), images_per_class)


def _render_class(name: str, count: int, side: int, distortion: Distortion, seed: int) -> NDArray[np.uint8]:
    shape_seed, noise_seed = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).spawn(2)
    # One row an image, so that asking for more images only adds rows.
    draws = np.random.default_rng(shape_seed).random((count, 9), np.float32).T
    images = _blur(_place(CLASSES[name], side, distortion, draws[:6]), distortion.blur * draws[6])
    contrast = _between(distortion.contrast, draws[7])[:, None, None]
    sigma = (distortion.noise * draws[8])[:, None, None]
    grain = np.random.default_rng(noise_seed).standard_normal(images.shape, np.float32)
    images = 0.5 + contrast * (images - 0.5) + sigma * grain
    return np.asarray(np.rint(255 * images.clip(0, 1)), np.uint8)


def _place(character: str, side: int, distortion: Distortion, draws: NDArray[np.float32]) -> NDArray[np.float32]:
    """Put the glyph on images of 0 to 1: one affine transform each, wholly inside the frame."""
    grid = side * _SUPERSAMPLING
    em = max(1, round(grid * distortion.size[1]))  # the largest, so that glyphs are only ever shrunk
    glyphs = [_glyph(face, character, em) for face in FACES]
    faces = (draws[0] * len(FACES)).astype(int)
    extents = np.array([glyph.size for glyph in glyphs])[faces] / 2
    matrices = _matrices(distortion, draws[1:4], grid / em)
    shifts = distortion.shift * grid * (2 * draws[4:6].T - 1)
    canvas = np.empty((len(faces), grid, grid), np.uint8)
    for index, inverse in enumerate(_fit(matrices, extents, shifts, grid).tolist()):
        glyph = glyphs[faces[index]]
        canvas[index] = glyph.transform((grid, grid), Image.Transform.AFFINE, inverse, Image.Resampling.BILINEAR)
    blocks = canvas.reshape(-1, side, _SUPERSAMPLING, side, _SUPERSAMPLING)
    return np.asarray(blocks.mean((2, 4)) / 255, np.float32)


def _matrices(distortion: Distortion, draws: NDArray[np.float32], unit: float) -> NDArray[np.float64]:
    """Scale, slant and turn, as (n, 2, 2); a scale of 1 makes the em one unit."""
    scale = unit * _between(distortion.size, draws[0])
    angle = np.radians(distortion.rotation * (2 * draws[1] - 1))
    slant = distortion.shear * (2 * draws[2] - 1)
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [[cos, cos * slant - sin], [sin, sin * slant + cos]]
    return np.moveaxis(np.asarray(scale * np.array(rows), np.float64), 2, 0)


def _fit(
    matrices: NDArray[np.float64], extents: NDArray[np.float64], shifts: NDArray[np.float32], grid: int
) -> NDArray[np.float64]:
    """The (n, 6) inverse affine maps that Pillow wants, shrunk and moved so that no glyph is clipped."""
    room = grid / 2 - _SUPERSAMPLING  # leaves one pixel of ground all round
    reach = np.einsum("nij,nj->ni", np.abs(matrices), extents)
    shrink = np.minimum(1, room / reach.max(axis=1))[:, None]
    spare = room - reach * shrink
    centres = grid / 2 + np.clip(shifts, -spare, spare)
    inverses = np.linalg.inv(matrices * shrink[:, :, None])
    offsets = extents - np.einsum("nij,nj->ni", inverses, centres)
    return np.concatenate([inverses, offsets[:, :, None]], axis=2).reshape(-1, 6)


def _blur(images: NDArray[np.float32], sigmas: NDArray[np.float32]) -> NDArray[np.float32]:
    """Blur each image by its own sigma: a Gaussian separates into one matrix for rows and for columns."""
    places = np.arange(images.shape[1], dtype=np.float32)
    squares = (places[:, None] - places) ** 2
    variances = np.maximum(sigmas, 0.1)[:, None, None] ** 2  # 0.1 already leaves an image as it is
    kernels = np.exp(-squares / (2 * variances))
    kernels /= kernels.sum(axis=2, keepdims=True)
    blurred: NDArray[np.float32] = kernels @ images @ kernels.transpose(0, 2, 1)
    return blurred


def _glyph(face: str, character: str, em: int) -> Image.Image:
    """The glyph alone in a one-pixel frame of ground, which keeps its edges soft when transformed."""
    font = _font(face, em)
    left, top, right, bottom = font.getbbox(character)
    image = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(image).text((1 - left, 1 - top), character, fill=255, font=font)
    return image


@lru_cache(maxsize=4 * len(FACES))
def _font(face: str, em: int) -> ImageFont.FreeTypeFont:
    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{face}.ttf")
    # The basic layout is always there; the other engine is not, and may place glyphs otherwise.
    return ImageFont.truetype(str(path), em, layout_engine=ImageFont.Layout.BASIC)


def _between(limits: tuple[float, float], draws: NDArray[np.float32]) -> NDArray[np.float32]:
    return limits[0] + (limits[1] - limits[0]) * draws


def _check_range(name: str, limits: tuple[float, float]) -> None:
    if not 0 < limits[0] <= limits[1] <= 1:
        raise OutclassError(f"distortion {name} is {limits}: it must be (smallest, largest) within (0, 1]")


def _check_request(classes: Sequence[str], images_per_class: int, side: int, seed: int) -> None:
    unknown = [name for name in classes if name not in CLASSES]
    if unknown:
        raise OutclassError(f"glyphs has no class {unknown[0]!r}: its {len(CLASSES)} classes are {', '.join(CLASSES)}")
    if not classes or len(set(classes)) < len(classes):
        raise OutclassError(f"classes is {list(classes)}: it must name at least one, and none twice")
    numbers = {"images_per_class": (images_per_class, 1), "side": (side, 8), "seed": (seed, 0)}
    for name, (value, least) in numbers.items():
        if value < least:
            raise OutclassError(f"{name} is {value}: it must be {least} or more")
