"""The glyphs: 100 classes that can be told apart, drawn the same way every time."""

import unicodedata
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image, ImageFilter

from outclass.datasets import glyphs
from outclass.datasets.glyphs import CLASSES, FACES, Distortion, render
from outclass.errors import OutclassError

NAMES = list(CLASSES)
PLAIN = replace(Distortion(), blur=0, noise=0, contrast=(1, 1))
ALIKE = 0.07  # pairs closer than this (one minus the correlation) could be taken for one another


def shape(face, character, side=32):
    """The character alone: centred, scaled to the frame and blurred, with mean 0 and norm 1."""
    glyph = glyphs._glyph(face, character, 96)
    glyph = glyph.crop(glyph.getbbox())
    glyph.thumbnail((side - 4, side - 4), Image.Resampling.BOX)
    frame = Image.new("L", (side, side))
    frame.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    pixels = np.asarray(frame.filter(ImageFilter.GaussianBlur(1)), float).ravel()
    pixels -= pixels.mean()
    return pixels / np.linalg.norm(pixels)


def distances(face, characters):
    """One minus the correlation, for every pair of two different characters."""
    shapes = np.array([shape(face, character) for character in characters])
    return (1 - shapes @ shapes.T)[np.triu_indices(len(characters), 1)]


def test_hundred_classes_with_plain_names():
    assert len(CLASSES) == 100
    assert all(name.isascii() and name.replace("-", "").isalnum() for name in CLASSES)
    assert len({name.casefold() for name in CLASSES}) == 100


def test_no_character_appears_twice_in_any_case_or_form():
    folded = {unicodedata.normalize("NFKD", character).casefold() for character in CLASSES.values()}
    assert len(folded) == 100
    assert all(len(character) == 1 for character in CLASSES.values())


def test_sixteen_faces():
    assert len(set(FACES)) == 16


@pytest.mark.parametrize("face", FACES)
def test_every_face_has_every_character(face):
    missing = glyphs._glyph(face, "\ufffe", 40).tobytes()
    drawn = {character: glyphs._glyph(face, character, 40) for character in CLASSES.values()}
    assert [c for c, image in drawn.items() if not image.getbbox() or image.tobytes() == missing] == []


@pytest.mark.parametrize("face", FACES)
def test_no_two_classes_look_alike(face):
    assert distances(face, CLASSES.values()).min() > ALIKE


@pytest.mark.parametrize("pair", ["O0", "Oo", "Cc", "HИ", "AΛ", "ΓГ", "AА"])
def test_pairs_that_were_left_out_do_look_alike(pair):
    assert min(distances(face, pair).min() for face in FACES) < ALIKE


def test_shape_type_and_labels():
    images, labels = render(NAMES[:3], 4, 24, Distortion(), 0)
    assert images.shape == (12, 24, 24)
    assert images.dtype == np.uint8
    assert labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_same_seed_same_images():
    first, second, other = (render(NAMES[:5], 6, 32, Distortion(), seed)[0] for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_an_image_depends_on_its_class_and_index_alone():
    all_images = render(NAMES, 7, 32, Distortion(), 1)[0].reshape(100, 7, 32, 32)
    few = render([NAMES[60], NAMES[2]], 3, 32, Distortion(), 1)[0].reshape(2, 3, 32, 32)
    assert np.array_equal(few[0], all_images[60, :3])
    assert np.array_equal(few[1], all_images[2, :3])


def test_images_of_a_class_all_differ():
    images, _ = render(["latin-A"], 120, 32, Distortion(), 0)
    assert len({image.tobytes() for image in images}) == 120


@pytest.mark.parametrize("side", [8, 32])
def test_no_image_is_clipped(side):
    images, _ = render(NAMES, 10, side, PLAIN, 5)
    inside = images[:, 1:-1, 1:-1]
    assert inside.sum(dtype=int) == images.sum(dtype=int)  # hence the outermost pixels are all ground


def test_no_image_is_blank_and_glyphs_are_bright_on_dark():
    images, _ = render(NAMES, 10, 32, Distortion(), 5)
    spread = np.ptp(images.reshape(len(images), -1).astype(int), axis=1)
    assert spread.min() > 50
    assert (np.median(images, axis=(1, 2)) < 110).all()
    assert (images.max(axis=(1, 2)) > 110).all()


@pytest.mark.parametrize(
    ("option", "small", "large"),
    [("rotation", 0, 10), ("shear", 0, 0.5), ("shift", 0, 0.3), ("blur", 0, 2), ("noise", 0, 0.03)],
)
def test_every_distortion_has_an_effect(option, small, large):
    one, two = (render(["greek-xi"], 5, 32, replace(Distortion(), **{option: x}), 0)[0] for x in (small, large))
    assert not np.array_equal(one, two)


def test_size_is_the_em_as_a_fraction_of_the_side():
    def height(size):
        still = replace(PLAIN, size=(size, size), rotation=0, shear=0, shift=0)
        return np.mean([image.max(axis=1).astype(bool).sum() for image in render(["latin-H"], 30, 64, still, 0)[0]])

    heights = [height(size) for size in (0.2, 0.4, 0.8)]
    assert all(1.7 < large / small < 2.1 for small, large in pairwise(heights))
    assert 0.6 < heights[-1] / (0.8 * 64) < 0.8  # capitals are about 0.7 em high


def test_noise_stays_within_its_limit():
    noisy, _ = render(["symbol-plus"], 200, 32, replace(PLAIN, contrast=(0.6, 0.6), noise=0.03), 0)
    clean, _ = render(["symbol-plus"], 200, 32, replace(PLAIN, contrast=(0.6, 0.6)), 0)
    sigmas = (noisy / 255 - clean / 255).std(axis=(1, 2))
    assert 0.025 < sigmas.max() < 0.032


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.04}, "noise is 0.04: it must lie between 0 and 0.03"),
        ({"rotation": 11}, "rotation is 11: it must lie between 0 and 10"),
        ({"rotation": -1}, "rotation is -1: it must lie between 0 and 10"),
        ({"blur": float("nan")}, "blur is nan: it must lie between 0 and 4"),
        ({"size": (0.9, 0.5)}, r"size is \(0.9, 0.5\): it must be \(smallest, largest\) within \(0, 1\]"),
        ({"contrast": (0, 1)}, r"contrast is \(0, 1\): it must be"),
    ],
)
def test_bad_distortions_are_refused(options, message):
    with pytest.raises(OutclassError, match=message):
        Distortion(**options)


@pytest.mark.parametrize(
    ("classes", "images_per_class", "side", "seed", "message"),
    [
        (["latin-A", "latin-I"], 1, 32, 0, "no class 'latin-I': its 100 classes are latin-A, latin-b"),
        ([], 1, 32, 0, r"classes is \[\]: it must name at least one"),
        (["latin-A", "latin-A"], 1, 32, 0, "'latin-A'.*none twice"),
        (["latin-A"], 0, 32, 0, "images_per_class is 0: it must be 1 or more"),
        (["latin-A"], 1, 7, 0, "side is 7: it must be 8 or more"),
        (["latin-A"], 1, 32, -1, "seed is -1: it must be 0 or more"),
    ],
)
def test_bad_requests_are_refused(classes, images_per_class, side, seed, message):
    with pytest.raises(OutclassError, match=message):
        render(classes, images_per_class, side, Distortion(), seed)
