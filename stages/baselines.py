"""Score the same test sets by the methods that the paper compares with, and by those of params.yaml."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from outclass.arrays import Floats, Ints
from outclass.baselines.contract import Items, On
from outclass.baselines.knn_ratio import KnnRatio
from outclass.baselines.max_confidence import max_confidence
from outclass.baselines.one_class_svm import OneClassSVM
from outclass.baselines.registry import METHODS, candidates
from outclass.baselines.ways import WAYS, Case, mean_scores
from outclass.confidence import as_confidence
from outclass.errors import OutclassError
from outclass.features.pca import principal_components
from outclass.sets import set_means
from outclass.tuning import Trial, Tuned, tune
from stages import command, files, folds, params, paths, tables
from stages.trials import load_trials, members_among, select

Scored = Iterator[tuple[str, int, Floats]]
"""Method, size of the sets, novelty of each set."""


@dataclass(frozen=True)
class Task:
    """Fit on train items, which are of known classes only, and score sets of test items."""

    train: Items
    labels: Ints
    test: Items
    sets: dict[int, Ints]  # size s -> positions (m, s) of test items


def run(repetition: int, fold: int) -> str:
    """Write runs/baselines/r<repetition>-f<fold>/{scores,chosen}.parquet."""
    chosen = params.load().baselines
    data = folds.load_fold(repetition, fold)
    sets = folds.load_sets(repetition, data, "test")
    activities = folds.load_confidences(repetition, fold, data, "activation")
    items = Items(activities, folds.load_features(data, Path(chosen.input)))
    trials = load_trials(repetition, fold, data, items.features, chosen.tuning_partitions)
    tuned = {
        method: _tune(method, chosen.methods[method], trials, [(way, s) for way in WAYS for s in sets])
        for method in METHODS  # in this order, as DVC does not see that of params.yaml
        if method in chosen.methods
    }
    scored = [
        *_papers_methods(chosen, _task(data, _as_in_the_paper(items, data, chosen), sets)),
        *_chosen_methods(tuned, _task(data, items, sets)),
    ]
    scores = pd.concat(folds.score_rows(method, s, sets[s], novelty) for method, s, novelty in scored)
    with files.finished_folder(paths.run("baselines", repetition, fold)) as folder:
        tables.write(folder / "scores.parquet", tables.SCORES, scores)
        tables.write(folder / "chosen.parquet", tables.CHOSEN, _chosen_rows(tuned))
    return f"{scores['method'].nunique()} methods on {len(sets)} set sizes"


def _task(data: folds.Fold, items: Items, sets: dict[int, folds.Sets]) -> Task:
    trains, tests = data.where("train"), data.where("test")
    return Task(select(items, trains), data.codes[trains], select(items, tests), members_among(tests, sets))


# --- as in the paper -------------------------------------------------------------------------------------


def _as_in_the_paper(items: Items, data: folds.Fold, chosen: params.Baselines) -> Items:
    """Confidences of the kind that is asked for, features reduced."""
    confidences, features = as_confidence(items.confidences, chosen.confidence), items.features
    if chosen.pca is None:
        return Items(confidences, features)
    try:
        return Items(confidences, principal_components(features, features[data.where("train")], chosen.pca))
    except OutclassError as error:
        raise OutclassError(f"baselines.pca: {error}") from error


def _papers_methods(chosen: params.Baselines, task: Task) -> Scored:
    """Sets have their mean vector's score under maximal confidence, the mean of their items' scores elsewhere."""
    for s, members in task.sets.items():
        yield "max-confidence", s, max_confidence(set_means(task.test.confidences, members))
    of_items = {
        f"{name}/{on}": scores
        for on in ("confidences", "features")
        for name, scores in _scores_of_items(chosen, task, on).items()
    }
    for name, scores in of_items.items():
        for s, members in task.sets.items():
            yield name, s, mean_scores(scores, members)


def _scores_of_items(chosen: params.Baselines, task: Task, on: On) -> dict[str, Floats]:
    scores = {}
    if chosen.ocsvm:
        svm = OneClassSVM(chosen.ocsvm.nu, chosen.ocsvm.gamma, on)
        scores["ocsvm"] = svm.fit(task.train, task.labels).score(task.test)
    if chosen.knn:
        ratios = _distance_ratios(chosen.knn.neighbours, task, on)
        scores |= {f"knn-{k}": ratio for k, ratio in ratios.items()}
    return scores


def _distance_ratios(ks: list[int], task: Task, on: On) -> dict[int, Floats]:
    try:
        return KnnRatio(max(ks), on).fit(task.train, task.labels).ratios(task.test, ks)
    except OutclassError as error:
        raise OutclassError(f"baselines.knn.neighbours: {error}") from error


# --- by name, with hyper-parameters chosen on artificial partitions --------------------------------------


def _tune(method: str, grid: dict[str, list[object]], trials: list[Trial], cases: list[Case]) -> Tuned:
    try:
        return tune(candidates(method, grid), trials, cases)
    except OutclassError as error:
        raise OutclassError(f"baselines.methods.{method}: {error}") from error


def _chosen_methods(tuned: dict[str, Tuned], task: Task) -> Scored:
    for method, of_method in tuned.items():
        scores = _score(method, of_method, task)
        for way, s in of_method.choices:  # in this order, whatever was chosen
            yield f"{method}/{way}", s, scores[way, s]


def _score(method: str, tuned: Tuned, task: Task) -> dict[Case, Floats]:
    """A candidate is fitted once for all the cases that it was chosen for."""
    scores: dict[Case, Floats] = {}
    for candidate in {str(choice.candidate): choice.candidate for choice in tuned.choices.values()}.values():
        cases = [case for case, choice in tuned.choices.items() if choice.candidate == candidate]
        try:
            scores |= candidate.fit(task.train, task.labels).score_sets(task.test, task.sets, cases)
        except OutclassError as error:
            raise OutclassError(f"baselines.methods.{method}, on all known classes: {error}") from error
    return scores


def _chosen_rows(tuned: dict[str, Tuned]) -> dict[str, list[object]]:
    """One row for each method, way and size; without an AUC where there was nothing to choose."""
    rows = [
        (method, way, s, choice.candidate.described, choice.auc, "\n".join(of_method.skipped))
        for method, of_method in tuned.items()
        for (way, s), choice in of_method.choices.items()
    ]
    return {name: [row[column] for row in rows] for column, name in enumerate(tables.CHOSEN.names)}


if __name__ == "__main__":
    command.main("baselines", run, "repetition", "fold")
