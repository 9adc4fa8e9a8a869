"""A head in closed form: ridge regression of the class indicators on standardised features.

With x standardised by the taught items' mean m and deviations s, and Z the centred class indicators of n items,

    W = (X^T X / n + penalty I)^-1  X^T Z / n,        u(x) = W^T x + share of each class

All that the taught items contribute are class-wise counts and sums, and the sum of their outer products. The latter is
taken once over all items; a head subtracts the few of its untaught classes, which is exact. So L heads cost little
more than one, and no randomness is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from outclass.arrays import Bools, Floats, Ints

SMALLEST_SCALE = 1e-6
"""Features that vary less than this, relative to their mean, tell nothing but rounding."""


@dataclass(frozen=True)
class RidgeSettings:
    penalty: float = 0.01  # added to the diagonal of the features' correlation matrix


@dataclass(frozen=True)
class RidgeHeads:
    weights: Tensor  # (H, d, k), for features as they come
    bias: Tensor  # (H, 1, k); -inf for classes that the head was not taught

    def activities(self, features: Floats) -> Floats:
        """The output activities u of all items, (H, n, k) in float32; -inf for absent classes."""
        x = torch.as_tensor(features, dtype=torch.float64, device=self.weights.device)
        return (x @ self.weights + self.bias).to(torch.float32).cpu().numpy()


def fit_heads(
    features: Floats,
    labels: Ints,
    taught: Bools,
    settings: RidgeSettings,
    device: torch.device | str = "cpu",
    on_step: Callable[[int, int], None] = lambda done, total: None,
) -> RidgeHeads:
    """Fit a head for each row of ``taught`` (H, k), on the items whose label it marks."""
    x = torch.as_tensor(features, dtype=torch.float64, device=device)
    centre = x.mean(dim=0)  # only for the sums' accuracy: the result does not depend on it
    x = x - centre
    y = torch.as_tensor(labels, dtype=torch.long, device=device)
    one_hot = torch.nn.functional.one_hot(y, taught.shape[1]).to(x)
    count, sums, products = one_hot.sum(dim=0), one_hot.T @ x, x.T @ x
    fitted = []
    for classes in torch.as_tensor(taught, device=device):
        untaught = x[~classes[y]]
        fitted.append(_solve(count, sums, products - untaught.T @ untaught, classes, settings.penalty))
        on_step(len(fitted), len(taught))
    weights, bias = (torch.stack(parts) for parts in zip(*fitted, strict=True))
    return RidgeHeads(weights, (bias - centre @ weights)[:, None])


def _solve(count: Tensor, sums: Tensor, products: Tensor, classes: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (d, k) and bias (k,) of one head, from its classes' counts and sums and its items' products."""
    count, sums = count * classes, sums * classes[:, None]
    n = count.sum()
    mean = sums.sum(dim=0) / n
    covariance = products / n - torch.outer(mean, mean)
    scale = covariance.diagonal().clamp(min=0).sqrt()
    scale[scale < SMALLEST_SCALE * mean.abs().clamp(min=1)] = torch.inf  # constant: its weight becomes zero
    correlation = covariance / scale / scale[:, None]
    factor = torch.linalg.cholesky(correlation + penalty * torch.eye(len(mean)).to(correlation))
    targets = (sums - count[:, None] * mean).T / n / scale[:, None]
    weights = torch.cholesky_solve(targets, factor) / scale[:, None]
    bias = torch.where(classes, count / n - mean @ weights, -torch.inf)
    return weights, bias
