"""Train the network of each partition, and keep of its confidences what the novelty classifiers h_l need.

Those of the first few partitions are kept as they are, for methods whose hyper-parameters are chosen on them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import CONFIDENCES, Summary, as_confidence, summarise
from outclass.errors import OutclassError
from outclass.sets import label_means, set_means
from stages import command, files, folds, networks, paths, tables
from stages.chunks import TABLES, Chunk, plan
from stages.networks import OnStep
from stages.params import load as load_params


def run(repetition: int, fold: int) -> str:
    """Write runs/partitions/r<repetition>-f<fold>/, training one chunk after the other."""
    chunks = plan(repetition, fold)
    for chunk in chunks:
        train(chunk)
    return gather(chunks)


def train(chunk: Chunk, on_step: OnStep = lambda done, total: None) -> Path:
    """Train a chunk unless it is finished already; the folder appears only when it is whole."""
    if not chunk.finished:
        _check_unchanged(chunk)
        frames = _train(chunk, on_step)
        if not chunk.finished:  # nobody else was faster: what is there lacks a table that was damaged
            shutil.rmtree(chunk.folder, ignore_errors=True)
        with files.finished_folder(chunk.folder, replace=False) as folder:
            for name, frame in frames.items():
                tables.write(folder / f"{name}.parquet", TABLES[name], frame)
    return chunk.folder


def _check_unchanged(chunk: Chunk) -> None:
    """Who planned the chunk made its key: what has changed since then must not be kept under it."""
    if chunk not in plan(chunk.repetition, chunk.fold):
        raise OutclassError(f"{chunk}: params.yaml changed while the run was under way: start it again")


def gather(chunks: list[Chunk]) -> str:
    """Put the finished chunks of a fold together as the stage's output."""
    with files.finished_folder(paths.run("partitions", chunks[0].repetition, chunks[0].fold)) as folder:
        for name, schema in TABLES.items():
            tables.concatenate([chunk.table(name) for chunk in chunks], folder / f"{name}.parquet", schema)
        accuracy = tables.read_frame(folder / "networks.parquet", tables.PARTITION_NETWORKS)["accuracy"]
    return f"{len(accuracy)} partition networks, accuracy {accuracy.mean():.3f}"


def _train(chunk: Chunk, on_step: OnStep) -> dict[str, Any]:
    params = load_params()
    data = folds.load_fold(chunk.repetition, chunk.fold)
    numbers = list(chunk.partitions)
    taught = ~folds.load_presumed_novel(chunk.repetition, chunk.fold, data.known)[numbers]
    lessons = [
        networks.partition_lesson(params, classes, chunk.repetition, chunk.fold, number)
        for classes, number in zip(taught, numbers, strict=True)
    ]
    outputs = networks.activities(params.backbone, data, lessons, on_step)
    columns = np.nonzero(taught)[1].reshape(len(taught), -1)  # (H, k'): which class each output stands for
    activations = np.take_along_axis(outputs, columns[:, None, :], axis=2)
    sets = {role: folds.load_sets(chunk.repetition, data, role) for role in ("calibration", "test")}
    return {
        "sets": pd.concat(_set_rows(activations, columns, data, sets, numbers)),
        "classes": pd.concat(_class_rows(activations, columns, data, taught, numbers)),
        "networks": _network_rows(activations, columns, data, taught, numbers),
        "confidences": _confidence_rows(activations, data, taught, numbers, params.partitions.keep_confidences),
    }


def _set_rows(
    activations: Floats, columns: Ints, data: folds.Fold, sets: dict[str, dict[int, folds.Sets]], numbers: list[int]
) -> Iterator[pd.DataFrame]:
    """Eq. 1 and 2 in every partition's own network, for all sets of calibration items and of test items."""
    for kind in CONFIDENCES:
        confidences = as_confidence(activations, kind)
        for by_size in sets.values():
            for size, chosen in by_size.items():
                summary = summarise(set_means(confidences, chosen.members))
                rows = _summary_rows(summary, columns, data.known, numbers, "set", chosen.numbers)
                yield rows.assign(confidence=kind, s=size)


def _class_rows(
    activations: Floats, columns: Ints, data: folds.Fold, taught: Bools, numbers: list[int]
) -> Iterator[pd.DataFrame]:
    """What eq. 4 needs: the same of all train items, or all calibration items, of each presumed-known class."""
    for kind in CONFIDENCES:
        confidences = as_confidence(activations, kind)
        for source in ("train", "calibration"):
            where = data.where(source)
            summary = summarise(label_means(confidences[:, where], data.codes[where], len(data.known)))
            rows = _summary_rows(summary, columns, data.known, numbers, "class", data.known)
            yield rows.assign(confidence=kind, source=source)[taught.ravel()]


def _summary_rows(
    summary: Summary, columns: Ints, known: Strings, numbers: list[int], name: str, values: Ints | Strings
) -> pd.DataFrame:
    """Arrays (H, m) as rows, one for each partition and set (or class)."""
    return pd.DataFrame(
        {
            "l": np.repeat(numbers, len(values)),
            name: np.tile(values, len(numbers)),
            "top": known[np.take_along_axis(columns, summary.top, axis=1)].ravel(),
            "u1": summary.first.ravel(),
            "u2": summary.second.ravel(),
            "u_min": summary.lowest.ravel(),
            "energy": summary.energy.ravel(),
        }
    )


def _network_rows(
    activations: Floats, columns: Ints, data: folds.Fold, taught: Bools, numbers: list[int]
) -> pd.DataFrame:
    predicted = np.take_along_axis(columns, activations.argmax(axis=2), axis=1)
    tested = data.where("test") & (data.codes >= 0) & taught[:, data.codes]
    right = ((predicted == data.codes) & tested).sum(axis=1)
    return pd.DataFrame(
        {
            "l": numbers,
            "train_items": taught[:, data.codes[data.where("train")]].sum(axis=1),
            "accuracy": right / tested.sum(axis=1),
        }
    )


def _confidence_rows(
    activations: Floats, data: folds.Fold, taught: Bools, numbers: list[int], keep: int
) -> dict[str, Any]:
    """Of partitions l < keep: u of all calibration items, and of train items that are not of presumed-novel classes."""
    may_be_seen = (data.where("train") & taught[:, data.codes]) | data.where("calibration")
    heads, items = np.nonzero(may_be_seen & (np.array(numbers) < keep)[:, None])
    return {
        **{"l": np.array(numbers)[heads], "item": data.items[items], "mirrored": data.mirrored[items]},
        **{"role": data.roles[items], "confidences": activations[heads, items]},
    }


if __name__ == "__main__":
    command.main("partitions", run, "repetition", "fold")
