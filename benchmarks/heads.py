"""The closed-form head beside the flat network, on the data of this workspace: seconds to fit, accuracy, AUC.

    dvc repro split@0                     whatever params.yaml asks for, up to features and splits
    python benchmarks/heads.py [FOLD ...]

Both train the L partition networks of fold 0 of repetition 0 on one thread, side by side; the stages are then run with
either, on the folds given (those of params.yaml if none), in a folder of their own.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from outclass.metrics import auc, roc
from outclass.networks import train
from stages import backbone, ensemble, folds, networks, params, partitions, paths, tables
from stages.command import single_threaded

NETWORKS = ("flat", "ridge")
METHODS = ("ensemble-count", "ensemble-probability", "threshold")


def seconds_to_fit(chosen: params.Params, network: str) -> float:
    data = folds.load_fold(0, 0)
    features = folds.load_features(data, Path(chosen.backbone.input))[data.where("train")]
    codes = data.codes[data.where("train")]
    taught = ~folds.load_presumed_novel(0, 0, data.known)
    settings = networks.settings_of(chosen.backbone.model_copy(update={"network": network}))
    generators = [np.random.default_rng(number) for number in range(len(taught))]
    started = time.perf_counter()
    for first in range(0, len(taught), chosen.partitions.chunk):
        chunk = slice(first, first + chosen.partitions.chunk)
        train(settings, features, codes, taught[chunk], generators[chunk])
    return time.perf_counter() - started


def run_stages(network: str, chosen: list[int]) -> tuple[float, dict[str, dict[int, float]]]:
    """Mean accuracy, and mean AUC by method and set size, over the folds."""
    values = yaml.safe_load(params.FILE.read_text())
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("features", "splits"):
            (Path(folder) / name).symlink_to(before / name)
        os.chdir(folder)
        try:
            values["backbone"]["network"] = network
            params.FILE.write_text(yaml.safe_dump(values))
            results = [run_fold(fold) for fold in chosen]
        finally:
            os.chdir(before)
    areas = [result[1] for result in results]
    sizes = areas[0][METHODS[0]]
    means = {m: {s: float(np.mean([area[m][s] for area in areas])) for s in sizes} for m in METHODS}
    return float(np.mean([result[0] for result in results])), means


def run_fold(fold: int) -> tuple[float, dict[str, dict[int, float]]]:
    accuracy = float(backbone.run(0, fold).split()[1])
    partitions.run(0, fold)
    ensemble.run(0, fold)
    scores = tables.read_frame(paths.run("ensemble", 0, fold) / "scores.parquet", tables.SCORES)
    areas: dict[str, dict[int, float]] = {}
    for (method, size), rows in scores.groupby(["method", "s"]):
        area = 100 * auc(*roc(rows["novelty"].to_numpy(), rows["novel"].to_numpy()))
        areas.setdefault(str(method), {})[int(size)] = area
    return accuracy, areas


def main() -> None:
    chosen = params.load()
    wanted = [int(fold) for fold in sys.argv[1:]] or chosen.folds
    data = f"{chosen.download.source}, {chosen.backbone.input}, {chosen.split.partitions} partitions"
    print(f"{data}; folds {', '.join(map(str, wanted))}")
    fit = {network: seconds_to_fit(chosen, network) for network in NETWORKS}
    for network in NETWORKS:
        accuracy, areas = run_stages(network, wanted)
        ends = (min(chosen.split.set_sizes), max(chosen.split.set_sizes))
        shown = "; ".join(f"{m} " + " / ".join(f"{areas[m][s]:.1f}" for s in ends) for m in METHODS)
        print(
            f"{network:<6} {fit[network]:8.2f} s to fit, accuracy {accuracy:.3f}, "
            f"AUC at s = {ends[0]} / {ends[1]}: {shown}"
        )
    print(f"ridge is {fit['flat'] / fit['ridge']:.1f} times faster to fit")


if __name__ == "__main__":
    with single_threaded():
        main()
