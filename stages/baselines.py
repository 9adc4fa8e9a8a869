"""Score the same test sets by the methods that the paper compares with."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from outclass.arrays import Floats
from outclass.baselines import Baseline, score_sets
from outclass.baselines.knn_ratio import KnnRatio
from outclass.baselines.max_confidence import MaxConfidence
from outclass.baselines.one_class_svm import OneClassSVM
from outclass.errors import OutclassError
from outclass.features.pca import principal_components
from stages import command, files, folds, params, paths, tables


def run(repetition: int, fold: int) -> str:
    """Write runs/baselines/r<repetition>-f<fold>/scores.parquet."""
    chosen = params.load()
    data = folds.load_fold(repetition, fold)
    vectors = {
        "confidences": folds.load_confidences(repetition, fold, data, chosen.baselines.confidence),
        "features": _reduced_features(data, chosen.baselines),
    }
    sets = folds.load_sets(repetition, data, "test")
    scores = pd.concat(
        folds.score_rows(name, size, sets[size], values)
        for representation, suffix, baseline in _choose(chosen.baselines)
        for name, by_size in _score(baseline, vectors[representation], suffix, data, sets).items()
        for size, values in by_size.items()
    )
    with files.finished_folder(paths.run("baselines", repetition, fold)) as folder:
        tables.write(folder / "scores.parquet", tables.SCORES, scores)
    return f"{scores['method'].nunique()} methods on {len(sets)} set sizes"


def _choose(chosen: params.Baselines) -> Iterator[tuple[str, str, Baseline]]:
    """Representation, suffix of the method's name, method."""
    yield "confidences", "", MaxConfidence()
    for representation in ("confidences", "features"):
        yield representation, f"/{representation}", OneClassSVM(chosen.ocsvm.nu, chosen.ocsvm.gamma)
        yield representation, f"/{representation}", KnnRatio(chosen.knn.neighbours)


def _score(
    baseline: Baseline, vectors: Floats, suffix: str, data: folds.Fold, sets: dict[int, folds.Sets]
) -> dict[str, dict[int, Floats]]:
    """Fit on train items, which are of known classes only, and score the test sets."""
    try:
        baseline.fit(vectors[data.where("train")])
    except OutclassError as error:
        raise OutclassError(f"baselines, {type(baseline).__name__}: {error}") from error
    test = np.flatnonzero(data.where("test"))
    members = {size: np.searchsorted(test, chosen.members) for size, chosen in sets.items()}
    return {f"{name}{suffix}": scores for name, scores in score_sets(baseline, vectors[test], members).items()}


def _reduced_features(data: folds.Fold, chosen: params.Baselines) -> Floats:
    features = folds.load_features(data, Path(chosen.input))
    if chosen.pca is None:
        return features
    try:
        return principal_components(features, features[data.where("train")], chosen.pca)
    except OutclassError as error:
        raise OutclassError(f"baselines.pca: {error}") from error


if __name__ == "__main__":
    command.main("baselines", run, "repetition", "fold")
