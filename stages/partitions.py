"""Train the network of each partition, and keep of its confidences what the novelty classifiers h_l need.

Those of the first few partitions are kept as they are, for methods whose hyper-parameters are chosen on them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.confidence import CONFIDENCES, Summary, as_confidence, summarise
from outclass.sets import label_means, set_means
from stages import chunks, command, files, folds, networks, paths, tables
from stages.chunks import Chunk, OnStep, Tables
from stages.params import Params
from stages.params import load as load_params

SCHEMAS = {
    "sets": tables.PARTITION_SETS,
    "classes": tables.PARTITION_CLASSES,
    "networks": tables.PARTITION_NETWORKS,
    "confidences": tables.PARTITION_CONFIDENCES,  # without rows, unless partitions.keep_confidences asks for some
}
CODE = (*networks.CODE, "outclass/sets.py", "stages/partitions.py")


@dataclass(frozen=True)
class Material:
    """Everything that the networks of a fold's partitions are made of, and what is asked of them."""

    params: Params
    data: folds.Fold
    inputs: Floats | Ints | None
    presumed_novel: Bools  # (L, known classes)
    sets: dict[str, dict[int, folds.Sets]]  # role -> size -> sets


def run(repetition: int, fold: int) -> str:
    """Write runs/partitions/r<repetition>-f<fold>/, training one chunk after the other."""
    return chunks.run(WORK, repetition, fold)


def plan(repetition: int, fold: int, device: str) -> list[Chunk]:
    """The chunks of a fold. They follow from the parameters and the device alone, not from who will train them."""
    params = load_params()
    known = folds.load_fold(repetition, fold).known
    presumed_novel = folds.load_presumed_novel(repetition, fold, known)
    inputs = [
        *networks.files_read(params.backbone, repetition, fold),
        *(paths.split(repetition, name) for name in ("items", "sets")),
    ]
    values = (params.seed, params.backbone.model_dump(), known.tolist(), repetition, fold, device)
    common = chunks.digest_of_inputs(inputs, CODE, *values)
    count, size = len(presumed_novel), params.partitions.chunk
    numbers = [tuple(range(first, min(first + size, count))) for first in range(0, count, size)]
    keep = params.partitions.keep_confidences

    def key(ls: tuple[int, ...]) -> str:
        return chunks.digest(common, ls, presumed_novel[list(ls)].tolist(), sum(number < keep for number in ls))

    return [Chunk("partitions", repetition, fold, ls, tuple(SCHEMAS), device, key(ls)) for ls in numbers]


def load(repetition: int, fold: int) -> Material:
    params, data = load_params(), folds.load_fold(repetition, fold)
    return Material(
        params,
        data,
        inputs=networks.load_inputs(params.backbone, data),
        presumed_novel=folds.load_presumed_novel(repetition, fold, data.known),
        sets={role: folds.load_sets(repetition, data, role) for role in ("calibration", "test")},
    )


def gather(trained: list[Chunk]) -> str:
    """Put the finished chunks of a fold together as the stage's output."""
    with files.finished_folder(paths.run("partitions", trained[0].repetition, trained[0].fold)) as folder:
        for name, schema in SCHEMAS.items():
            tables.concatenate([chunk.table(name) for chunk in trained], folder / f"{name}.parquet", schema)
        accuracy = tables.read_frame(folder / "networks.parquet", tables.PARTITION_NETWORKS)["accuracy"]
    return f"{len(accuracy)} partition networks, accuracy {accuracy.mean():.3f}"


def compute(material: Material, chunk: Chunk, on_step: OnStep) -> Tables:
    params, data, numbers = material.params, material.data, list(chunk.partitions)
    taught = ~material.presumed_novel[numbers]
    lessons = [
        networks.partition_lesson(params, classes, chunk.repetition, chunk.fold, number)
        for classes, number in zip(taught, numbers, strict=True)
    ]
    outputs = networks.activities(params.backbone, data, material.inputs, lessons, chunk.device, on_step)
    columns = np.nonzero(taught)[1].reshape(len(taught), -1)  # (H, k'): which class each output stands for
    activations = np.take_along_axis(outputs, columns[:, None, :], axis=2)
    return {
        "sets": pd.concat(_set_rows(activations, columns, data, material.sets, numbers)),
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


WORK = chunks.Work(SCHEMAS, plan, load, compute, gather)

if __name__ == "__main__":
    command.main("partitions", run, "repetition", "fold")
