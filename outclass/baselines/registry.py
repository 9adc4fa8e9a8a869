"""The methods by name, and candidates: a method with values for its hyper-parameters."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, get_type_hints

import numpy as np

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Baseline, Items
from outclass.baselines.deep_knn import DeepKnn, unit_length
from outclass.baselines.isolation_forest import IsolationForest
from outclass.baselines.knfst import Knfst
from outclass.baselines.local_outlier_factor import LocalOutlierFactor
from outclass.baselines.mahalanobis import Mahalanobis, RelativeMahalanobis
from outclass.baselines.nearest_mean import NearestMean
from outclass.baselines.openmax import OpenMax
from outclass.baselines.plda import Plda
from outclass.baselines.softmax_scores import Energy, Entropy, GeneralisedEntropy, MaxLogit, MaxSoftmax
from outclass.baselines.vim import Vim
from outclass.baselines.ways import Case, score_sets
from outclass.errors import OutclassError

METHODS: dict[str, Any] = {
    method.name: method
    for method in (
        *(MaxSoftmax, MaxLogit, Energy, Entropy, GeneralisedEntropy, OpenMax),
        *(NearestMean, Mahalanobis, RelativeMahalanobis, Plda, DeepKnn, LocalOutlierFactor, IsolationForest),
        *(Vim, Knfst),
    )
}
"""Name -> dataclass. What the paper compares with (maximal confidence, one-class SVM, k-NN ratio) is not chosen by
name: the stage runs it the paper's own way."""


def hyper_parameters(method: str) -> dict[str, Any]:
    """Name -> type. Methods that use features know one more: whether these are first scaled to unit length."""
    hints = get_type_hints(METHODS[method])
    own = {field.name: hints[field.name] for field in fields(METHODS[method])}
    return own if METHODS[method].uses == "confidences" else {**own, "unit_length": bool}


@dataclass(frozen=True)
class Candidate:
    method: str
    values: Mapping[str, Any]  # of hyper-parameters; those left out have their defaults

    def __str__(self) -> str:
        return f"{self.method} with {self.described}" if self.values else self.method

    @property
    def described(self) -> str:
        as_listed: dict[Any, str] = {True: "true", False: "false", None: "null"}
        return ", ".join(
            f"{name} {as_listed[value] if value is None or isinstance(value, bool) else value}"
            for name, value in self.values.items()
        )

    def fit(self, items: Items, labels: Ints) -> "Fitted":
        own = {name: value for name, value in self.values.items() if name != "unit_length"}
        with _explained(self):
            return Fitted(self, METHODS[self.method](**own).fit(self.prepared(items), labels))

    def prepared(self, items: Items) -> Items:
        """What the method uses of the items; vectors that it does not use become empty."""
        uses, nothing = METHODS[self.method].uses, np.empty((len(items.features), 0), np.float32)
        if uses == "confidences":
            return Items(items.confidences, nothing)
        features = unit_length(items.features) if self.values.get("unit_length") else items.features
        return Items(items.confidences if uses == "both" else nothing, features)


@dataclass(frozen=True)
class Fitted:
    candidate: Candidate
    baseline: Baseline

    def score_sets(self, items: Items, sets: Mapping[int, Ints], cases: Collection[Case]) -> dict[Case, Floats]:
        with _explained(self.candidate):
            scores = score_sets(self.baseline, self.candidate.prepared(items), sets, cases)
            if not all(np.isfinite(of_case).all() for of_case in scores.values()):
                raise OutclassError("some scores are not finite numbers")
        return scores


def candidates(method: str, grid: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """Every combination of the listed values, in an order that depends on that of the values, not on the grid's own."""
    names = [name for name in hyper_parameters(method) if name in grid]
    combinations = product(*(grid[name] for name in names))
    return [Candidate(method, dict(zip(names, values, strict=True))) for values in combinations]


@contextmanager
def _explained(candidate: Candidate) -> Iterator[None]:
    """Say which method with which hyper-parameters failed."""
    try:
        yield
    except (OutclassError, np.linalg.LinAlgError) as error:
        raise OutclassError(f"{candidate}: {error}; give other hyper-parameters, or leave the method out") from error
