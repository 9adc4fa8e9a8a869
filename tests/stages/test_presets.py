"""The presets, from the data's own files to the report: real loaders, small archives, less of everything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from stages import (
    backbone,
    baselines,
    download,
    embed,
    ensemble,
    evaluate,
    folds,
    partitions,
    paths,
    pooled,
    results,
    split,
    tables,
)
from tests import miniatures

PRESETS = Path(__file__).resolve().parents[2] / "presets"
CLASSES = [f"kind-{letter}" for letter in "abcdefghij"]
SMALL_SPLIT = {
    **{"folds_drawn": 4, "novel_classes": 2, "partitions": 4, "presumed_novel_classes": 2, "set_sizes": [1, 3]},
    "items": {"train": 8, "calibration": 4, "test": None},
}
SMALL_FLAT = {"hidden": 32, "steps": 100, "batch": 32, "learning_rate": 0.01, "dropout": 0.0}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shrink(preset: str, **changes: Any) -> None:
    """Write the preset as params.yaml, with some values replaced: ``shrink("table", **{"seed": 1})``."""
    values = yaml.safe_load((PRESETS / f"{preset}.yaml").read_text())
    small = {"repetitions": [0], "folds": [0], "split": SMALL_SPLIT, "baselines.pca": 5, "partitions.chunk": 2}
    for key, value in {**small, **changes}.items():
        *groups, name = key.split(".")
        group = values
        for part in groups:
            group = group[part]
        group[name] = {**group[name], **value} if isinstance(value, dict) and name != "leave_out" else value
    Path("params.yaml").write_text(yaml.safe_dump(values))


def run_all() -> dict[str, Any]:
    """Every stage; the metrics."""
    download.run()
    embed.run()
    split.run(0)
    for stage in (backbone, partitions, ensemble, pooled, baselines):
        stage.run(0, 0)
    evaluate.run()
    assert (paths.REPORT / "index.html").stat().st_size > 10_000
    return json.loads((paths.REPORT / "metrics.json").read_text())


def check(metrics: dict[str, Any]) -> None:
    """Classes drawn so far apart are learnt by anything that is put together rightly, and novel ones are told."""
    assert metrics["backbone"]["accuracy"] > 0.7
    assert metrics["ensemble-count"]["3"]["auc"] > 60
    for method in results.methods(metrics):
        assert all(0 <= cell["auc"] <= 100 for cell in metrics[method].values())
    assert {"pooled", "ensemble-count", "max-confidence"} < set(results.methods(metrics))


@pytest.mark.slow
def test_cifar100(here):
    """The official layout, GCN + ZCA, Network in Network, HOG for the baselines."""
    miniatures.build_cifar100(here / "downloads", CLASSES, 10, 8, np.random.default_rng(0))
    # With so few images, whitening to the letter would make their noise as large as what tells them apart.
    nin = {"width": 12, "epochs": 80, "batch": 16, "dropout": 0.0, "whitening": 100.0}
    shrink("cifar100", **{"backbone.nin": nin, "embed.shard": 50, "embed.pixels.side": 16})
    with miniatures.accepted(here / "downloads"):
        metrics = run_all()
    check(metrics)
    data = folds.load_fold(0, 0)
    of_train = np.char.find(data.names, "/train-") >= 0
    np.testing.assert_array_equal(of_train, data.where("train"))
    u = tables.read_vectors(paths.run("backbone", 0, 0) / "confidences.parquet", tables.CONFIDENCES, "confidences")[1]
    assert (u >= 0).all()


@pytest.mark.slow
def test_caltech256(here):
    """The official layout, clutter and near-duplicates left out, mirrored train images, features of a real network."""
    miniatures.build_caltech256(here / "downloads", [*CLASSES, "clutter"], 16, np.random.default_rng(0))
    small = {"network": "efficientnet_lite0", "side": 64, "batch": 16}
    left_out = {"011.clutter": "not a class"}
    shrink(
        "caltech256",
        **{"embed.pretrained": small, "embed.shard": 60, "backbone.flat": SMALL_FLAT, "download.leave_out": left_out},
    )
    with miniatures.accepted(here / "downloads"):
        metrics = run_all()
    check(metrics)
    data = folds.load_fold(0, 0)
    assert data.mirrored.sum() == (data.where("train") & ~data.mirrored).sum() == 8 * 8
    assert not any("clutter" in name for name in data.names)
    assert "Class 011.clutter was left out: not a class." in (paths.REPORT / "index.html").read_text()


def write_folder(root: Path, per_class: int) -> None:
    rng = np.random.default_rng(0)
    for name, images in zip(CLASSES, miniatures.pictures(len(CLASSES), per_class, 40, rng), strict=True):
        (root / name).mkdir(parents=True)
        for index, (image, suffix) in enumerate(zip(images, ["png", "jpg", "bmp", "webp"] * per_class, strict=False)):
            Image.fromarray(image).save(root / name / f"{index:03}.{suffix}")


@pytest.mark.slow
def test_image_folder_with_what_cannot_be_used(here):
    """With skip: a damaged image, an image of two classes, and a class that is too small; all are in the report."""
    write_folder(here / "images", 16)
    (here / "images/kind-a/broken.jpg").write_bytes((here / "images/kind-a/001.jpg").read_bytes()[:200])
    (here / "images/kind-b/copy.png").write_bytes((here / "images/kind-a/000.png").read_bytes())
    (here / "images/rare").mkdir()
    Image.new("RGB", (40, 40), (9, 200, 9)).save(here / "images/rare/only.png")
    small = {"embed.pretrained": {"side": 32, "batch": 16}, "embed.shard": 60, "backbone.flat": SMALL_FLAT}
    shrink("image-folder", on_bad_item="skip", **small)
    check(run_all())
    page = (paths.REPORT / "index.html").read_text()
    for words in ("kind-a/broken.jpg", "kind-b/copy.png", "kind-a/000.png", "the whole class", "has 1 items"):
        assert words in page
    assert "159 items of 10 classes" in page  # 160 less the one that is also in the other class


@pytest.mark.parametrize("write", ["lists", "columns", "csv"])
@pytest.mark.parametrize("network", ["flat", "ridge"])
def test_table(here, write, network):
    rng = np.random.default_rng(0)
    labels = np.repeat(CLASSES, 15)
    features = (rng.normal(size=(10, 12)).repeat(15, axis=0) * 4 + rng.normal(size=(150, 12))).astype(np.float32)
    wide = pd.DataFrame(features, columns=[f"x{n}" for n in range(12)]).assign(species=labels)
    writers: dict[str, Callable[[], Any]] = {
        "lists": lambda: pd.DataFrame({"class": labels, "features": list(features)}).to_parquet("t.parquet"),
        "columns": lambda: wide.to_parquet("t.parquet"),
        "csv": lambda: wide.to_csv("t.csv", index=False),
    }
    writers[write]()
    columns = {} if write == "lists" else {"class_column": "species", "features_column": None}
    source = {"download.input": "t.csv" if write == "csv" else "t.parquet", "download.table": columns}
    shrink("table", **source, **{"backbone.network": network, "backbone.flat": SMALL_FLAT})
    check(run_all())
