"""Geometry and colour: by hand on images of a few pixels, and every kind of image that files hold."""

import io

import numpy as np
import pytest
from PIL import Image

from outclass.features.images import colour, grey, mirror, normalise

RAMP = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def reopened(image: Image.Image, kind: str, **options) -> Image.Image:
    """The image as it comes back from a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return Image.open(io.BytesIO(buffer.getvalue()))


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(normalise(image))


class TestGeometry:
    @pytest.mark.parametrize("turned", [False, True])
    def test_cuts_the_centre_out(self, turned):
        wide = np.arange(8, dtype=np.uint8).reshape(2, 4) * 30  # columns 1 and 2 of 0..3 are the centre
        image = Image.fromarray(wide.T.copy() if turned else wide).convert("RGB")
        expected = wide[:, 1:3]
        np.testing.assert_array_equal(grey(image, 2), expected.T if turned else expected)

    def test_scales_the_shorter_edge_before_it_cuts(self):
        # Four 4 x 4 squares of one colour in a row: of the 16 x 4 pixels, the middle 4 x 4 are half of the 2nd and 3rd.
        wide = np.repeat(np.array([[0, 100, 200, 50]], dtype=np.uint8), 4, axis=0).repeat(4, axis=1)
        cut = grey(Image.fromarray(wide).convert("RGB"), 2)
        assert cut.shape == (2, 2)
        # Bicubic weights reach a little beyond the edge and overshoot it.
        np.testing.assert_allclose(cut, [[100, 200]] * 2, atol=12)
        assert (cut[:, 0] < 125).all()
        assert (cut[:, 1] > 175).all()

    def test_shrinking_averages_rather_than_picks(self):
        board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
        np.testing.assert_allclose(grey(Image.fromarray(board).convert("RGB"), 8), 127.5, atol=2)

    @pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (7, 9), (300, 200)])
    def test_gives_the_side_that_is_asked_for(self, size):
        image = Image.new("RGB", size, (10, 20, 30))
        cut = colour(image, 16)
        assert cut.shape == (16, 16, 3)
        assert cut.dtype == np.uint8
        assert (cut == [10, 20, 30]).all()

    def test_leaves_an_image_of_the_right_size_alone(self):
        noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        np.testing.assert_array_equal(colour(Image.fromarray(noise), 16), noise)

    def test_without_a_side_the_image_is_as_it_is(self):
        assert colour(Image.new("RGB", (5, 3)), None).shape == (3, 5, 3)
        assert grey(Image.new("RGB", (5, 3)), None).shape == (3, 5)

    def test_a_mirror_exchanges_left_and_right_only(self):
        np.testing.assert_array_equal(mirror(np.array([[1, 2], [3, 4]])), [[2, 1], [4, 3]])
        coloured = np.arange(12).reshape(2, 2, 3)
        np.testing.assert_array_equal(mirror(coloured)[0, 0], coloured[0, 1])


class TestColour:
    def test_grey_keeps_its_very_values_on_the_way_through_rgb(self):
        every = np.arange(256, dtype=np.uint8).reshape(16, 16)
        np.testing.assert_array_equal(grey(normalise(Image.fromarray(every)), None), every)

    @pytest.mark.parametrize(
        ("mode", "kind"), [("1", "png"), ("L", "png"), ("P", "gif"), ("P", "png"), ("RGB", "bmp"), ("RGB", "webp")]
    )
    def test_black_and_white_stay_so_in_every_mode(self, mode, kind):
        half = np.zeros((8, 8), np.uint8)
        half[:, 4:] = 255
        options = {"lossless": True} if kind == "webp" else {}
        np.testing.assert_array_equal(
            pixels(reopened(Image.fromarray(half).convert(mode), kind, **options)), half[..., None].repeat(3, 2)
        )

    def test_a_palette_gives_its_colours(self):
        image = Image.fromarray(np.array([[0, 1], [1, 0]], dtype=np.uint8), "P")
        image.putpalette([200, 10, 20, 30, 40, 250])
        np.testing.assert_array_equal(pixels(reopened(image, "png"))[0], [[200, 10, 20], [30, 40, 250]])

    @pytest.mark.parametrize(("alpha", "expected"), [(0, 255), (255, 55), (51, 215)])  # 51 / 255 = a fifth
    @pytest.mark.parametrize("mode", ["RGBA", "LA"])
    def test_transparent_images_are_put_on_white(self, mode, alpha, expected):
        values = (55,) * (len(mode) - 1) + (alpha,)
        assert pixels(reopened(Image.new(mode, (2, 2), values), "png"))[0, 0].tolist() == [expected] * 3

    def test_so_are_palettes_and_greys_with_one_transparent_value(self):
        image = Image.fromarray(np.array([[0, 1]], dtype=np.uint8), "P")
        image.putpalette([9, 9, 9, 30, 40, 250])
        assert pixels(reopened(image, "png", transparency=0))[0].tolist() == [[255] * 3, [30, 40, 250]]
        assert pixels(reopened(Image.fromarray(RAMP), "png", transparency=0))[0, :2].tolist() == [[255] * 3, [20] * 3]

    def test_cmyk_is_turned_into_rgb(self):
        red = reopened(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "jpeg", quality=95)
        assert red.mode == "CMYK"
        np.testing.assert_allclose(pixels(red), np.broadcast_to([255, 0, 0], (8, 8, 3)), atol=3)

    @pytest.mark.parametrize("kind", ["png", "tiff"])
    def test_sixteen_bits_are_scaled_not_cut(self, kind):
        deep = np.array([[0, 257, 25700, 65535]], dtype=np.uint16)
        image = reopened(Image.fromarray(deep), kind)
        assert image.mode.startswith("I")
        assert pixels(image)[0, :, 0].tolist() == [0, 1, 100, 255]

    @pytest.mark.parametrize("value", [-1, 70_000])
    def test_what_is_deeper_is_refused(self, value):
        with pytest.raises(ValueError, match="more than 16 bits"):
            normalise(Image.fromarray(np.array([[0, value]], dtype=np.int32)))

    def test_floating_point_pixels_are_refused(self):
        with pytest.raises(ValueError, match="floating-point"):
            normalise(reopened(Image.fromarray(np.ones((2, 2), np.float32)), "tiff"))

    @pytest.mark.parametrize(
        ("orientation", "expected"),
        [
            (1, RAMP),
            (2, RAMP[:, ::-1]),
            (3, RAMP[::-1, ::-1]),
            (4, RAMP[::-1]),
            (5, RAMP.T),
            (6, np.rot90(RAMP, -1)),
            (7, RAMP[::-1, ::-1].T),
            (8, np.rot90(RAMP)),
        ],
    )
    def test_is_turned_as_its_exif_data_say(self, orientation, expected):
        exif = Image.Exif()
        exif[0x0112] = orientation
        image = reopened(Image.fromarray(RAMP), "png", exif=exif)
        np.testing.assert_array_equal(pixels(image)[..., 0], expected)
