"""One-class SVM with a Gaussian kernel (Schoelkopf et al. 2001): minus the margin is the novelty score."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.svm import OneClassSVM as LibSVM

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, On, Uses


def negative_margin(vectors: Floats, support: Floats, coefficients: Floats, intercept: float, gamma: float) -> Floats:
    """Minus (sum over support vectors v of coefficient_v * exp(-gamma |x - v|^2), plus the intercept).

    One matrix product over all support vectors instead of libsvm's loop.
    """
    squared = (vectors**2).sum(1)[:, None] + (support**2).sum(1) - 2 * vectors @ support.T
    return np.asarray(-(np.exp(-gamma * np.maximum(squared, 0)) @ coefficients + intercept))


def _inverse_variance(vectors: Floats) -> float:
    variance = float(vectors.var())
    return 1 / (vectors.shape[1] * variance) if variance > 0 else 1.0


@dataclass
class OneClassSVM:
    """In the paper, a set has the mean of its items' scores."""

    nu: float = 0.1  # bound on the share of training items left outside
    gamma: float | Literal["scale"] = "scale"  # "scale": 1 / (width * variance of the training vectors)
    on: On = "features"
    name: ClassVar[str] = "ocsvm"
    uses: ClassVar[Uses] = "both"

    def fit(self, items: Items, labels: Ints) -> Self:
        x = np.asarray(items.vectors(self.on), dtype=np.float64)
        self.gamma_ = _inverse_variance(x) if self.gamma == "scale" else self.gamma
        svm = LibSVM(nu=self.nu, gamma=self.gamma_, cache_size=1000).fit(x)
        self.support_ = svm.support_vectors_
        self.coefficients_ = svm.dual_coef_[0]
        self.intercept_ = float(svm.intercept_[0])
        return self

    def score(self, items: Items, size: int = 1) -> Floats:
        x = np.asarray(items.vectors(self.on), dtype=np.float64)
        return negative_margin(x, self.support_, self.coefficients_, self.intercept_, self.gamma_)
