"""Contrast normalisation and whitening: by hand, against other implementations, exact when classes are taken out."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import fractional_matrix_power
from sklearn.decomposition import PCA

from outclass.features.whitening import STEP, Zca, contrast_normalised, fit_scaling, fit_zca, fit_zcas, moments

RNG = np.random.default_rng(0)
LABELS = torch.as_tensor(RNG.permutation(np.repeat(np.arange(4), [90, 120, 100, 90])))
SMOOTH = RNG.normal(size=(400, 4, 4, 3)).cumsum(axis=1).cumsum(axis=2) * 20 + 128  # neighbours are alike, as in photos
IMAGES = torch.as_tensor(SMOOTH.clip(0, 255).astype(np.uint8))
TAUGHT = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 0]], dtype=torch.bool)
D = 48


def rows(images=IMAGES):
    return contrast_normalised(images).flatten(1).numpy().astype(np.float64)


def bits(zca):
    return zca.mean.numpy().tobytes() + zca.matrix.numpy().tobytes()


def same(one, other):
    return (
        one.count == other.count and torch.equal(one.total, other.total) and torch.equal(one.products, other.products)
    )


def test_contrast_by_hand():
    # Mean 1, deviations -1, -1, 1, 1 of norm 2: each times 55 / 2. And mean 2, deviations -2, 0, 0, 2 of norm sqrt 8.
    images = torch.tensor([[[0, 0], [2, 2]], [[0, 2], [2, 4]]], dtype=torch.uint8)
    normalised = contrast_normalised(images)
    assert normalised.dtype == torch.float32
    assert normalised[0].tolist() == [[-27.5, -27.5], [27.5, 27.5]]
    side = 55 / 2**0.5
    np.testing.assert_allclose(normalised[1], [[-side, 0], [0, side]], atol=STEP / 2)


@pytest.mark.parametrize("grey", [0, 7, 201, 255])
def test_an_image_of_one_grey_becomes_zeros(grey):
    blank = torch.full((1, 4, 4, 3), grey, dtype=torch.uint8)
    assert not contrast_normalised(blank).any()
    with_blank = torch.cat([IMAGES, blank])
    whitened = fit_zca(moments(with_blank), 0.1).apply(with_blank)
    assert whitened.isfinite().all()
    assert whitened[-1].abs().max() < 1


def test_the_faintest_contrast_is_kept():
    faint = torch.full((1, 3072), 100, dtype=torch.uint8)
    faint[0, 5] += 1
    normalised = contrast_normalised(faint)
    assert normalised[0, 5] == pytest.approx(55, rel=1e-3)
    assert normalised.norm() == pytest.approx(55, rel=1e-3)


@settings(derandomize=True, database=None, deadline=None, max_examples=50)
@given(arrays(np.uint8, (3, 5, 4), elements=st.integers(0, 40)), st.integers(1, 5), st.integers(0, 50))
def test_brightness_and_contrast_do_not_matter(images, contrast, brightness):
    before, after = (
        rows(torch.as_tensor(images)),
        rows(torch.as_tensor(images * np.uint8(contrast) + np.uint8(brightness))),
    )
    np.testing.assert_allclose(after, before, atol=STEP)
    varied = images.reshape(3, -1).std(axis=1) > 0
    np.testing.assert_allclose(before.mean(axis=1), 0, atol=STEP)
    np.testing.assert_allclose(np.linalg.norm(before, axis=1), 55.0 * varied, atol=20 * STEP)


def test_whitening_by_hand():
    # Two values: x = +-(c, -c), c = 55 / sqrt 2. The covariance is c^2 [[1, -1], [-1, 1]]: a variance of 3025 along
    # (1, -1) / sqrt 2 and none along (1, 1) / sqrt 2. With epsilon = 3 * 3025 the former is divided by
    # sqrt(4 * 3025) = 110, the latter by sqrt(3 * 3025) = 55 sqrt 3.
    images = torch.tensor([[0, 10], [9, 3]], dtype=torch.uint8)
    zca = fit_zca(moments(images), 3 * 3025.0)
    along, across = 1 / 110, 1 / (55 * 3**0.5)
    expected = [[(along + across) / 2, (across - along) / 2], [(across - along) / 2, (along + across) / 2]]
    np.testing.assert_allclose(zca.matrix, expected, rtol=1e-4)
    np.testing.assert_allclose(zca.mean, [0, 0], atol=1e-6)
    quarter = 2**0.5 / 4  # c / 110
    np.testing.assert_allclose(zca.apply(images), [[-quarter, quarter], [quarter, -quarter]], rtol=1e-4)


def test_moments_are_exact():
    whole = np.rint(rows() / STEP).astype(np.int64)
    np.testing.assert_array_equal(whole * STEP, rows())
    found = moments(IMAGES)
    np.testing.assert_array_equal(np.rint(found.products.numpy() / STEP**2).astype(np.int64), whole.T @ whole)
    np.testing.assert_array_equal(np.rint(found.total.numpy() / STEP).astype(np.int64), whole.sum(axis=0))
    assert found.count == 400


@pytest.mark.parametrize("block", [1, 7, 399, 5000])
def test_the_block_size_changes_no_bit(block):
    assert same(moments(IMAGES, block=block), moments(IMAGES))


def test_whitened_images_have_the_identity_as_covariance():
    z = fit_zca(moments(IMAGES), 1e-6).apply(IMAGES).flatten(1).numpy().astype(np.float64)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-4)
    # All x sum to zero, so that one direction of the 48 has no variance that could become 1.
    np.testing.assert_allclose(np.cov(z.T, bias=True), np.eye(D) - 1 / D, atol=5e-3)


def test_it_is_scikit_learns_whitening_turned_back():
    x = rows()
    pca = PCA(D - 1, whiten=True, svd_solver="full").fit(x)
    expected = pca.transform(x) @ pca.components_ * np.sqrt(400 / 399)  # scikit-learn's variance is over n - 1
    z = fit_zca(moments(IMAGES), 1e-6).apply(IMAGES).flatten(1)
    z = z - z.mean(dim=1, keepdim=True)  # the direction of no variance, where a tiny epsilon blows up mere rounding
    np.testing.assert_allclose(z, expected, atol=2e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 10.0])
def test_epsilon_is_added_to_the_variances(epsilon):
    x = rows()
    power = fractional_matrix_power(np.cov(x.T, bias=True) + epsilon * np.eye(D), -0.5)
    zca = fit_zca(moments(IMAGES), epsilon)
    np.testing.assert_allclose(zca.matrix, power, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(zca.apply(IMAGES).flatten(1), (x - x.mean(axis=0)) @ power, rtol=1e-3, atol=1e-3)


def test_a_whitened_image_keeps_its_shape_and_place_in_any_batch():
    zca = fit_zca(moments(IMAGES), 0.1)
    assert zca.apply(IMAGES).shape == IMAGES.shape
    np.testing.assert_allclose(zca.apply(IMAGES[7:9]), zca.apply(IMAGES)[7:9], rtol=1e-5, atol=1e-5)


def test_classes_taken_out_leave_what_the_others_give_to_the_last_bit():
    for classes in TAUGHT:
        mine = classes[LABELS]
        left = moments(IMAGES) - moments(IMAGES[~mine])
        assert same(left, moments(IMAGES[mine]))


def test_many_whitenings_are_those_fitted_alone():
    together = list(fit_zcas(IMAGES, LABELS, TAUGHT, 0.1))
    assert len(together) == 3
    for zca, classes in zip(together, TAUGHT, strict=True):
        assert isinstance(zca, Zca)
        assert bits(zca) == bits(fit_zca(moments(IMAGES[classes[LABELS]]), 0.1))


def test_untaught_classes_leave_no_trace():
    garbage = IMAGES.clone()
    garbage[LABELS == 0] = torch.as_tensor(RNG.integers(0, 256, (90, 4, 4, 3), dtype=np.uint8))
    clean, dirty = (list(fit_zcas(images, LABELS, TAUGHT, 0.1)) for images in (IMAGES, garbage))
    assert [bits(a) == bits(b) for a, b in zip(clean, dirty, strict=True)] == [False, True, False]


def test_scaling_by_hand():
    # Channel 0: 1, 3: mean 2, deviation 1. Channel 1: 0, 200: mean 100, deviation 100. Channel 2 tells nothing.
    images = torch.tensor([[[[1, 0, 9]]], [[[3, 200, 9]]]], dtype=torch.uint8)
    scaling = fit_scaling(images)
    assert scaling.mean.tolist() == [2, 100, 9]
    assert scaling.deviation.tolist() == [1, 100, 1]
    assert scaling.apply(images).tolist() == [[[[-1, -1, 0]]], [[[1, 1, 0]]]]


def test_scaled_channels_have_mean_zero_and_deviation_one():
    scaled = fit_scaling(IMAGES).apply(IMAGES).numpy().astype(np.float64)
    np.testing.assert_allclose(scaled.mean(axis=(0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=(0, 1, 2)), 1, rtol=1e-6)


def test_images_are_left_as_they_were():
    before = IMAGES.clone()
    fit_zca(moments(IMAGES), 0.1).apply(IMAGES)
    fit_scaling(IMAGES).apply(IMAGES)
    assert torch.equal(IMAGES, before)
