"""Compare all methods on the same test sets: metrics, score table, figures, and the report as one page."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from outclass.arrays import Floats
from outclass.errors import Fault, OutclassError
from outclass.metrics import auc, eer, mean_roc, roc
from stages import (
    analysis,
    analysis_figures,
    choices,
    command,
    comparisons,
    faults,
    figures,
    files,
    paths,
    report,
    tables,
)
from stages.params import FILE, Params
from stages.params import load as load_params
from stages.results import Section

SCORED = ("ensemble", "pooled", "baselines")
"""The stages that score sets."""

Run = tuple[int, int]
Curves = dict[str, dict[int, dict[Run, tuple[Floats, Floats]]]]
"""Method -> set size -> (repetition, fold) -> ROC curve."""


def run() -> str:
    """Write report/."""
    params = load_params()
    runs = list(product(params.repetitions, params.folds))
    accuracies, devices = zip(*(_read_backbone(r, f) for r, f in runs), strict=True)
    curves, found = _gather(params, runs)
    areas = auc_by_run(curves)
    metrics = {
        "backbone": {**_mean_and_std("accuracy", list(accuracies), 5), "n": len(runs)},
        "analysis": analysis.mean(found),
        **summarise(curves),
    }
    sections = [comparisons.section(areas), analysis.section(metrics), *choices.sections(choices.read(runs))]
    images = _draw(metrics, curves, analysis.read_rates(runs))
    tables.write(paths.REPORT / "pairs.parquet", tables.REPORT_PAIRS, comparisons.pair_rows(areas))
    tables.write(paths.REPORT / "ranks.parquet", tables.REPORT_RANKS, comparisons.rank_rows(areas))
    files.write_json(paths.REPORT / "metrics.json", metrics)
    _write_report(params, metrics, images, _notes(params, runs, set(devices)), sections)
    largest = max(params.split.set_sizes)
    best = metrics["ensemble-count"][str(largest)]
    return f"{paths.REPORT / 'index.html'} (ensemble-count, sets of {largest}: AUC {best['auc']:.1f})"


def _gather(params: Params, runs: list[Run]) -> tuple[Curves, list[analysis.Numbers]]:
    """Go through the scores run by run, as all together may be too many to hold, and write them as one table."""
    curves: Curves = {}
    found = []
    with tables.writer(paths.REPORT / "scores.parquet", tables.REPORT_SCORES) as write_part:
        for repetition, fold in runs:
            scores = _read_scores(repetition, fold)
            add_curves(curves, scores)
            known = scores.loc[~scores["novel"], "class"].nunique()
            presumed_novel = params.split.presumed_novel_classes / known
            found.append(analysis.of_run((repetition, fold), scores, presumed_novel, params.seed))
            write_part(scores)
    return curves, found


def add_curves(curves: Curves, scores: pd.DataFrame) -> None:
    """One more curve for each method, set size and run of the scores. Novel is positive."""
    for (method, size, r, f), rows in scores.groupby(["method", "s", "r", "f"], sort=False):
        by_run = curves.setdefault(str(method), {}).setdefault(int(size), {})
        by_run[int(r), int(f)] = roc(rows["novelty"].to_numpy(), rows["novel"].to_numpy())


def auc_by_run(curves: Curves) -> pd.DataFrame:
    """AUC in percent: a row for each run, columns (set size, method); NaN where a method was not measured."""
    columns = {
        (s, method): {run: 100 * auc(*curve) for run, curve in by_run.items()}
        for method, by_size in curves.items()
        for s, by_run in by_size.items()
    }
    frame = pd.DataFrame.from_dict({key: pd.Series(areas) for key, areas in columns.items()})
    return frame.rename_axis(index=["r", "f"], columns=["s", "method"])


def summarise(curves: Curves) -> dict[str, Any]:
    """Mean and standard deviation over the runs: AUC in percent, EER in 0..1."""
    return {
        method: {str(s): _measures(list(by_run.values())) for s, by_run in by_size.items()}
        for method, by_size in curves.items()
    }


def _measures(runs: list[tuple[Floats, Floats]]) -> dict[str, float]:
    areas = [100 * auc(*curve) for curve in runs]
    errors = [eer(*curve) for curve in runs]
    return {**_mean_and_std("auc", areas, 3), **_mean_and_std("eer", errors, 5), "n": len(runs)}


def _mean_and_std(name: str, values: list[float], digits: int) -> dict[str, float]:
    """The standard deviation is that of a sample, and 0 for a single run."""
    std = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return {name: round(float(np.mean(values)), digits), f"{name}_std": round(float(std), digits)}


def _read_backbone(repetition: int, fold: int) -> tuple[float, str]:
    """Accuracy, and the kind of device that it was trained on."""
    path = paths.run("backbone", repetition, fold) / "accuracy.json"
    try:
        stored = json.loads(path.read_text())
        return float(stored["accuracy"]), str(stored["device"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutclassError(f"{path}: not readable ({error}); run `dvc repro`") from error


def _read_scores(repetition: int, fold: int) -> pd.DataFrame:
    files_ = [paths.run(stage, repetition, fold) / "scores.parquet" for stage in SCORED]
    scores = pd.concat([tables.read_frame(path, tables.SCORES) for path in files_])
    return scores.assign(r=repetition, f=fold)


def _notes(params: Params, runs: list[Run], devices: set[str]) -> list[str]:
    """What a reader must know."""
    found = [paths.run("ensemble", r, f) / "classifiers.parquet" for r, f in runs]
    undefined = sum(
        int(tables.read_frame(path, tables.CLASSIFIERS, ["undefined"])["undefined"].sum()) for path in found
    )
    notes = {
        f"The ratio of equation 3 read 0 / 0 for {undefined:,} votes; it was taken as 1.": undefined > 0,
        f"Runs on different devices ({', '.join(sorted(devices))}) are mixed here.": len(devices) > 1,
    }
    chosen = [f"Class {name} was left out: {reason}." for name, reason in params.download.leave_out.items()]
    return [note for note, applies in notes.items() if applies] + chosen


def _read_skipped() -> list[Fault]:
    """What was left out because it could not be used."""
    return [fault for path in (paths.SKIPPED_FILES, paths.SKIPPED_ITEMS) for fault in faults.read(path)]


def _draw(metrics: Mapping[str, Any], curves: Curves, rates: pd.DataFrame) -> dict[str, bytes]:
    """All figures as PNG by name."""
    rocs = {m: {s: mean_roc(list(runs.values())) for s, runs in by_size.items()} for m, by_size in curves.items()}
    drawn = figures.every(metrics, rocs) | {
        "rates": analysis_figures.rates(analysis.rate_points(rates)),
        "partitions": analysis_figures.partitions(metrics["analysis"]),
    }
    return {name: figures.png(figure) for name, figure in drawn.items()}


def _write_report(
    params: Params, metrics: Mapping[str, Any], images: dict[str, bytes], notes: list[str], sections: list[Section]
) -> None:
    with files.finished_folder(paths.REPORT / "figures") as folder:
        for name, image in images.items():
            (folder / f"{name}.png").write_bytes(image)
    dataset = params.download.source
    markdown = [report.paper_tables(metrics, dataset), report.full_table(metrics), *map(report.section, sections)]
    texts = {
        "auc.csv": report.curves_csv(metrics, "auc"),
        "eer.csv": report.curves_csv(metrics, "eer"),
        "tables.md": "\n".join(markdown),
        "index.html": report.html(
            *(metrics, images, _facts(params, metrics), FILE.read_text(), notes, dataset, _read_skipped(), sections)
        ),
    }
    for name, text in texts.items():
        files.write_text(paths.REPORT / name, text)


def _facts(params: Params, metrics: Mapping[str, Any]) -> dict[str, str]:
    """What was run, for the report's head."""
    views = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS, ["mirrored", "class"])
    classes = views.loc[~views["mirrored"], "class"]
    split, backbone = params.split, metrics["backbone"]
    known = classes.nunique() - split.novel_classes
    return {
        "Data": f"{params.download.source}: {len(classes):,} items of {classes.nunique()} classes",
        "Classes in a fold": f"{known} known, {split.novel_classes} novel",
        "Items of a class": f"{split.items.train} train, {split.items.calibration} calibration, "
        f"{f'up to {split.items.test}' if split.items.test else 'all other'} test",
        "Partitions": f"{split.partitions}, each of {known - split.presumed_novel_classes} presumed-known and "
        f"{split.presumed_novel_classes} presumed-novel classes",
        "Runs": f"{backbone['n']}: repetitions {_list(params.repetitions)}; folds {_list(params.folds)}",
        "Network": f"{params.backbone.network} on {_input_name(params)}, accuracy "
        f"{backbone['accuracy']:.3f} ± {backbone['accuracy_std']:.3f} on known classes",
    }


def _input_name(params: Params) -> str:
    """What the networks see, in a word or two."""
    name = Path(params.backbone.input).stem
    return f"{params.embed.pretrained.network} features" if name == "pretrained" and params.embed.pretrained else name


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


if __name__ == "__main__":
    command.main("evaluate", run)
