"""Images made comparable before a convolutional network sees them: contrast-normalised and ZCA-whitened.

As for CIFAR in the papers on maxout (Goodfellow et al. 2013) and Network in Network (Lin et al. 2014): with p the d
values of an image and m their mean,

    x = 55 (p - m) / |p - m|,        z = (x - mean) V (D + epsilon)^-1/2 V^T,        V D V^T = covariance of x

Values x are rounded to a grid so fine that it changes nothing, and so coarse that float64 holds all sums of their
products without any rounding. Taking classes out of a sum then gives, to the last bit, what summing the others gives:
L whitenings of nearly the same images cost L small products and L eigendecompositions, and nothing of what was taken
out is left behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

NORM = 55.0
"""About the square root of the 3,072 values of a CIFAR image: their deviation becomes about 1."""

SMALLEST_NORM = 0.5
"""An image of whole grey levels that is not of one grey throughout has a norm of at least 0.7."""

SMALLEST_DEVIATION = 1e-3
"""Of whole grey levels over up to a million pixels; what is below is rounding."""

STEP = 2.0**-12
"""The grid of x. Sums of products are multiples of 2^-24 and stay exact up to 2^29, for 177,000 images at worst."""

BLOCK = 2048
"""Images at a time where float64 copies are needed."""


def contrast_normalised(images: Tensor) -> Tensor:
    """Images (n, ...) of whole numbers 0..255 -> x in float32, same shape; an image of one grey becomes zeros."""
    normalised = torch.empty(images.shape, dtype=torch.float32, device=images.device)
    for part, into in zip(images.split(BLOCK), normalised.split(BLOCK), strict=True):
        values = part.flatten(1).to(torch.float64)  # sums of whole numbers: exact in any order
        total, squares = values.sum(dim=1, keepdim=True), values.square().sum(dim=1, keepdim=True)
        norm = (squares - total.square() / values.shape[1]).clamp(min=0).sqrt().clamp(min=SMALLEST_NORM)
        x = (values - total / values.shape[1]) * (NORM / norm)
        into.copy_(((x / STEP).round() * STEP).view_as(part))
    return normalised


@dataclass(frozen=True)
class Moments:
    """What a whitening needs to know of images: their number, sum (d,) and sum of outer products (d, d)."""

    count: int
    total: Tensor
    products: Tensor

    def __sub__(self, part: "Moments") -> "Moments":
        """Those of the images that are left when some are taken out: exact."""
        return Moments(self.count - part.count, self.total - part.total, self.products - part.products)


def moments(images: Tensor, block: int = BLOCK) -> Moments:
    """Of the contrast-normalised images (n, ...), from one block of them at a time."""
    size = images.shape[1:].numel()
    total = torch.zeros(size, dtype=torch.float64, device=images.device)
    products = torch.zeros(size, size, dtype=torch.float64, device=images.device)
    for part in images.split(block):
        x = contrast_normalised(part).flatten(1).to(torch.float64)
        total += x.sum(dim=0)
        products.addmm_(x.T, x)
    return Moments(len(images), total, products)


@dataclass(frozen=True)
class Zca:
    """Contrast normalisation and a fitted whitening; in float32."""

    mean: Tensor  # (d,)
    matrix: Tensor  # (d, d), symmetric: a whitened image still looks like one

    def apply(self, images: Tensor) -> Tensor:
        """Images (n, ...) of 0..255 -> z in float32, same shape."""
        x = contrast_normalised(images).flatten(1)
        return ((x - self.mean) @ self.matrix).view(images.shape)


def fit_zca(images: Moments, epsilon: float) -> Zca:
    """The whitening of the images that the moments are of; ``epsilon`` keeps directions of no variance small."""
    mean = images.total / images.count
    covariance = images.products / images.count - torch.outer(mean, mean)
    variances, directions = torch.linalg.eigh(covariance)
    scaled = directions * (variances.clamp(min=0) + epsilon).rsqrt()
    return Zca(mean.to(torch.float32), (scaled @ directions.T).to(torch.float32))


def fit_zcas(images: Tensor, labels: Tensor, taught: Tensor, epsilon: float) -> Iterator[Zca]:
    """For each row of ``taught`` (H, k), the whitening of the images whose class it marks, one at a time."""
    everything = moments(images)
    for classes in taught:
        yield fit_zca(everything - moments(images[~classes[labels]]), epsilon)


@dataclass(frozen=True)
class Scaling:
    """The plain alternative: every channel to mean 0 and deviation 1."""

    mean: Tensor  # (channels,)
    deviation: Tensor  # (channels,)

    def apply(self, images: Tensor) -> Tensor:
        """Images (n, side, side, channels) of 0..255 -> the same in float32."""
        return (images.to(torch.float32) - self.mean) / self.deviation


def fit_scaling(images: Tensor) -> Scaling:
    """Mean and deviation of each channel over all pixels of the images (n, side, side, channels)."""
    total = torch.zeros(images.shape[-1], dtype=torch.float64, device=images.device)
    squares = torch.zeros_like(total)
    for part in images.split(BLOCK):
        values = part.flatten(0, -2).to(torch.float64)
        total += values.sum(dim=0)
        squares += values.square().sum(dim=0)
    count = images[..., 0].numel()
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
    deviation[deviation < SMALLEST_DEVIATION] = 1.0  # the same everywhere: it tells nothing
    return Scaling(mean.to(torch.float32), deviation.to(torch.float32))
