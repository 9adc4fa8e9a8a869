"""Virtual-logit matching (Wang et al. 2022): what the features hold outside the subspace that the train items fill.

With R an orthonormal basis of the complement of the train items' principal subspace about an origin o:

    novelty(x) = alpha |R^T (x - o)| - log sum exp(u)
    alpha = sum of max u / sum of |R^T (x - o)|, over the train items

In the paper u = W^T x + b is the last layer, and the origin o = -pinv(W^T) b is where all activities are 0. Here the
features feed a network of more than one layer, so W and b are those of the linear map from features to activities that
comes nearest on the train items, by least squares; or the origin is the train items' mean.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy

from outclass.arrays import Floats, Ints
from outclass.baselines.blocks import slices
from outclass.baselines.contract import Items, Uses
from outclass.baselines.softmax_scores import energy, max_logit
from outclass.baselines.statistics import Moments, class_moments
from outclass.errors import OutclassError

Origin = Literal["least squares", "mean"]
ROUNDING = 1e-5
"""Residuals smaller than this, relative to the features' deviation, are rounding."""
COLLINEAR = 1e-10
"""Share of the features' mean variance below which a direction is taken for one in which they do not vary."""


class Complement(NamedTuple):
    origin: Floats  # (d,)
    basis: Floats  # (d, d - components), orthonormal, in single precision


def zero_activities(features: Floats, u: Floats, moments: Moments) -> Floats:
    """The point o nearest to 0 at which the least-squares linear map from features to activities gives 0."""
    mean, mean_u = moments.mean, u.mean(axis=0, dtype=np.float64)
    cross = np.zeros((len(mean), u.shape[1]))
    for rows in slices(*features.shape):
        cross += (features[rows] - mean).T @ (u[rows] - mean_u)
    scatter = moments.total_scatter
    # Too small a ridge to be seen, unless features are collinear; then it picks the smallest of the solutions.
    scatter[np.diag_indices_from(scatter)] += COLLINEAR * scatter.trace() / len(scatter)
    weights = scipy.linalg.solve(scatter, cross, assume_a="pos")
    origin, *_ = np.linalg.lstsq(weights.T, weights.T @ mean - mean_u, rcond=np.sqrt(COLLINEAR))
    return np.asarray(origin)


def complement(moments: Moments, origin: Floats, components: int) -> Complement:
    """All but the ``components`` directions in which the train items lie farthest from the origin."""
    offset = moments.mean - origin
    second = moments.total_scatter + moments.count.sum() * np.outer(offset, offset)
    # From the least of them; in single precision, as the product that they are for.
    _, directions = scipy.linalg.eigh((second / moments.count.sum()).astype(np.float32), driver="evd")
    return Complement(origin, directions[:, : len(origin) - components])


def residual_norms(features: Floats, outside: Complement) -> Floats:
    """|R^T (x - o)| of each item; the product in single precision."""
    origin = outside.origin.astype(features.dtype)
    norms = np.empty(len(features), np.float32)
    for rows in slices(*features.shape):
        residual = (features[rows] - origin).astype(np.float32, copy=False) @ outside.basis
        norms[rows] = np.sqrt(np.einsum("ij,ij->i", residual, residual))
    return norms


@dataclass
class Vim:
    components: int | None = None  # dimension of the principal subspace; None: half of the features' width
    origin: Origin = "least squares"
    name: ClassVar[str] = "vim"
    uses: ClassVar[Uses] = "both"

    def fit(self, items: Items, labels: Ints) -> Self:
        moments = class_moments(items.features, labels)
        origin = moments.mean
        if self.origin == "least squares":
            origin = zero_activities(items.features, items.confidences, moments)
        self.outside_ = complement(moments, origin, self._dimension(items.features.shape[1]))
        norms = residual_norms(items.features, self.outside_).sum(dtype=np.float64)
        if not norms / len(labels) > ROUNDING * np.sqrt(moments.total_scatter.trace() / len(labels)):
            raise OutclassError("vim: the train items lie in their principal subspace: ask for fewer components")
        self.alpha_ = float(-max_logit(items.confidences).sum(dtype=np.float64) / norms)
        if not self.alpha_ > 0:
            raise OutclassError(
                "vim: the largest activities are negative on average: give logits, not log-probabilities"
            )
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        return np.asarray(self.alpha_ * residual_norms(items.features, self.outside_) + energy(items.confidences))

    def _dimension(self, width: int) -> int:
        components = width // 2 if self.components is None else self.components
        if not 1 <= components < width:
            raise OutclassError(f"{components} components of vim: give a number from 1 to {width - 1}, one less than "
                                "there are features")  # fmt: skip
        return components
