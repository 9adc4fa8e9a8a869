"""Train the classifier of all known classes of a fold; keep its confidences in every item."""

import numpy as np

from outclass.arrays import Floats
from stages import command, files, folds, networks, params, paths, settings, tables


def run(repetition: int, fold: int) -> str:
    """Write runs/backbone/r<repetition>-f<fold>/{confidences,columns}.parquet and accuracy.json."""
    chosen = params.load()
    data = folds.load_fold(repetition, fold)
    lesson = networks.backbone_lesson(chosen, data, repetition, fold)
    confidences = networks.activities(chosen.backbone, data, [lesson])[0]
    test = data.where("test") & (data.codes >= 0)
    accuracy = float((confidences.argmax(axis=1) == data.codes)[test].mean())
    with files.finished_folder(paths.run("backbone", repetition, fold)) as folder:
        tables.write(folder / "confidences.parquet", tables.CONFIDENCES, _columns(data, confidences))
        columns = {"column": np.arange(len(data.known)), "class": data.known}
        tables.write(folder / "columns.parquet", tables.COLUMNS, columns)
        files.write_json(folder / "accuracy.json", {"accuracy": accuracy, "device": settings.device()})
    return f"accuracy {accuracy:.3f} on {len(data.known)} known classes"


def _columns(data: folds.Fold, confidences: Floats) -> dict[str, np.ndarray]:
    views = {"item": data.items, "mirrored": data.mirrored}
    return {**views, "class": data.classes, "role": data.roles, "confidences": confidences}


if __name__ == "__main__":
    command.main("backbone", run, "repetition", "fold")
