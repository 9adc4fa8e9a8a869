"""A whole run of the tiny preset, made once; tests work in copies of it, never in the project's own folder."""

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stages import (
    backbone,
    baselines,
    command,
    download,
    embed,
    ensemble,
    evaluate,
    partitions,
    paths,
    pooled,
    settings,
    split,
    tables,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDS = (0, 1)


@pytest.fixture(scope="session", autouse=True)
def _same_bits_everywhere() -> Iterator[None]:
    """One thread, the CPU and no settings from outside: as the stages' commands run."""
    with pytest.MonkeyPatch.context() as patch, command.single_threaded():
        for name in settings.Settings.model_fields:
            patch.delenv(f"OUTCLASS_{name.upper()}", raising=False)
        patch.setenv("OUTCLASS_DEVICE", "cpu")
        settings.device.cache_clear()
        yield
    settings.device.cache_clear()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every stage of the tiny preset, in order. Read only: take ``project`` to change something."""
    folder = tmp_path_factory.mktemp("whole-run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shutil.copy(ROOT / "presets/tiny.yaml", "params.yaml")
        download.run()
        embed.run()
        split.run(0)
        for fold in FOLDS:
            backbone.run(0, fold)
            partitions.run(0, fold)
            ensemble.run(0, fold)
            pooled.run(0, fold)
            baselines.run(0, fold)
        evaluate.run()
    return folder


@pytest.fixture
def project(whole_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the whole run, as the current folder."""
    folder = tmp_path / "project"
    shutil.copytree(whole_run, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def _tiny_values() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "presets/tiny.yaml").read_text())


@pytest.fixture
def tiny(_tiny_values: dict[str, Any]) -> dict[str, Any]:
    """The values of the tiny preset, free to be changed."""
    return copy.deepcopy(_tiny_values)


@pytest.fixture
def configure(project: Path, tiny: dict[str, Any]) -> Callable[[str, Any], None]:
    """Set a parameter of the project: ``configure("split.items.test", 3)``."""

    def set_parameter(key: str, value: Any) -> None:
        *groups, name = key.split(".")
        group = tiny
        for part in groups:
            group = group[part]
        assert name in group
        group[name] = value
        Path("params.yaml").write_text(yaml.safe_dump(tiny))

    return set_parameter


@pytest.fixture
def corrupt(project: Path) -> Callable[[Any], None]:
    """Replace the features of some items by noise."""

    def randomise(items: Any) -> None:
        frame, features = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
        hit = frame["item"].isin(items).to_numpy()
        assert hit.any()
        features = features.copy()
        features[hit] = np.random.default_rng(7).normal(size=features[hit].shape)
        tables.write(paths.features("hog"), tables.FEATURES, {**frame, "features": features})

    return randomise


@pytest.fixture
def run_fold() -> Callable[[int], None]:
    """Everything that is trained and scored in a fold."""

    def run(fold: int) -> None:
        for stage in (backbone, partitions, ensemble, pooled, baselines):
            stage.run(0, fold)

    return run
