"""Histograms of oriented gradients: the paper's 324 values, and what they mean."""

import numpy as np
import pytest
from skimage.feature import hog

from outclass.features.hog import HogSettings, histograms


def noise(count=3, side=32):
    return np.random.default_rng(0).integers(0, 256, size=(count, side, side), dtype=np.uint8)


@pytest.mark.parametrize(
    ("settings", "side", "width"),
    [
        (HogSettings(), 32, 324),  # 4 x 4 cells, 3 x 3 blocks of 2 x 2 cells with 9 orientations each
        (HogSettings(orientations=6, cell=4), 32, 1176),  # 8 x 8 cells, 7 x 7 blocks: 49 * 4 * 6
        (HogSettings(block=1), 24, 81),  # 3 x 3 cells, each its own block: 9 * 9
    ],
)
def test_one_row_an_image_in_single_precision(settings, side, width):
    features = histograms(noise(3, side), settings)
    assert features.shape == (3, width)
    assert features.dtype == np.float32


def test_equals_scikit_image_on_one_image():
    images = noise()
    expected = hog(images[1] / 255.0, orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2))
    np.testing.assert_allclose(histograms(images, HogSettings())[1], expected, atol=1e-5)


def test_an_image_does_not_depend_on_the_others():
    images = noise()
    np.testing.assert_array_equal(histograms(images, HogSettings())[2:], histograms(images[2:], HogSettings()))


def test_an_even_image_has_no_gradients():
    assert not histograms(np.full((1, 32, 32), 200, dtype=np.uint8), HogSettings()).any()


@pytest.mark.parametrize(("transposed", "bin_of_edge"), [(False, 0), (True, 4)])
def test_an_edge_fills_the_bin_of_its_direction(transposed, bin_of_edge):
    # Dark left half, bright right half: the gradient points along x, 0 degrees, bin 0 of 9 bins of 20 degrees.
    # Turned on its side: 90 degrees, bin 4.
    image = np.zeros((1, 32, 32), dtype=np.uint8)
    image[:, :, 16:] = 255
    features = histograms(image.swapaxes(1, 2) if transposed else image, HogSettings())
    energy = features.reshape(-1, 9).sum(axis=0)
    assert energy[bin_of_edge] > 0
    assert np.delete(energy, bin_of_edge).tolist() == [0] * 8
