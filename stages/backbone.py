"""Train the classifier of all known classes of a fold; keep its confidences in every item."""

import shutil
from dataclasses import dataclass

import numpy as np

from outclass.arrays import Floats, Ints
from stages import chunks, command, files, folds, networks, params, paths, tables
from stages.chunks import Chunk, OnStep, Tables

SCHEMAS = {"confidences": tables.CONFIDENCES, "columns": tables.COLUMNS}
CODE = (*networks.CODE, "stages/backbone.py")


@dataclass(frozen=True)
class Material:
    """Everything that a fold's backbone is made of."""

    params: params.Params
    data: folds.Fold
    inputs: Floats | Ints | None


def run(repetition: int, fold: int) -> str:
    """Write runs/backbone/r<repetition>-f<fold>/{confidences,columns}.parquet and accuracy.json."""
    return chunks.run(WORK, repetition, fold)


def plan(repetition: int, fold: int, device: str) -> list[Chunk]:
    """The one chunk of a fold's backbone."""
    chosen = params.load()
    known = folds.load_fold(repetition, fold).known
    inputs = [*networks.files_read(chosen.backbone, repetition, fold), paths.split(repetition, "items")]
    values = (chosen.seed, chosen.backbone.model_dump(), known.tolist(), repetition, fold, device)
    key = chunks.digest_of_inputs(inputs, CODE, "backbone", *values)
    return [Chunk("backbone", repetition, fold, (), tuple(SCHEMAS), device, key)]


def load(repetition: int, fold: int) -> Material:
    chosen, data = params.load(), folds.load_fold(repetition, fold)
    return Material(chosen, data, networks.load_inputs(chosen.backbone, data))


def compute(material: Material, chunk: Chunk, on_step: OnStep) -> Tables:
    data, chosen = material.data, material.params
    lesson = networks.backbone_lesson(chosen, data, chunk.repetition, chunk.fold)
    (confidences,) = networks.activities(chosen.backbone, data, material.inputs, [lesson], chunk.device, on_step)
    views = {"item": data.items, "mirrored": data.mirrored}
    return {
        "confidences": {**views, "class": data.classes, "role": data.roles, "confidences": confidences},
        "columns": {"column": np.arange(len(data.known)), "class": data.known},
    }


def gather(trained: list[Chunk]) -> str:
    """Put the finished backbone where the other stages look for it."""
    (chunk,) = trained
    with files.finished_folder(paths.run("backbone", chunk.repetition, chunk.fold)) as folder:
        for name in SCHEMAS:
            shutil.copyfile(chunk.table(name), folder / f"{name}.parquet")
        accuracy, known = _accuracy(chunk)
        files.write_json(folder / "accuracy.json", {"accuracy": accuracy, "device": chunk.device})
    return f"accuracy {accuracy:.3f} on {known} known classes"


def _accuracy(chunk: Chunk) -> tuple[float, int]:
    """On test items of known classes, and the number of these classes."""
    items, confidences = tables.read_vectors(chunk.table("confidences"), tables.CONFIDENCES, "confidences")
    known = tables.read_frame(chunk.table("columns"), tables.COLUMNS)["class"].to_numpy(dtype=str)
    codes = folds.encode(items["class"].to_numpy(dtype=str), known)
    tested = (items["role"] == "test").to_numpy() & (codes >= 0)
    return float((confidences.argmax(axis=1) == codes)[tested].mean()), len(known)


WORK = chunks.Work(SCHEMAS, plan, load, compute, gather)

if __name__ == "__main__":
    command.main("backbone", run, "repetition", "fold")
