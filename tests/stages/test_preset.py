import shutil
from pathlib import Path

import pytest
import yaml

from outclass.errors import OutclassError
from stages import params, preset

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"glyphs", "cifar100", "caltech256", "image-folder", "table", "tiny"}


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "presets", tmp_path / "presets")
    shutil.copy(ROOT / "presets/glyphs.yaml", tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)


def test_there_is_one_for_every_kind_of_data():
    assert {path.stem for path in Path("presets").glob("*.yaml")} == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_takes_the_place_of_the_parameters(name):
    preset.run(name)
    assert Path("params.yaml").read_text() == Path(f"presets/{name}.yaml").read_text()
    assert not preset.BEFORE.exists()


def test_says_what_changes(capsys):
    answer = preset.run("cifar100")
    lines = capsys.readouterr().out.splitlines()
    assert "  split.partitions: 20 -> 27" in lines
    assert "+ backbone.nin.width: 192" in lines
    assert "- download.glyphs.side (was 32)" in lines
    assert not any(line.strip("+- ").startswith("ensemble.") for line in lines)
    assert answer == f"params.yaml is now presets/cifar100.yaml; {len(lines)} values changed"


def test_that_is_in_place_already_changes_nothing(capsys):
    assert preset.run("glyphs").endswith("; 0 values changed")
    assert capsys.readouterr().out.strip() == ""


def test_keeps_parameters_of_ones_own():
    own = Path("params.yaml").read_text().replace("seed: 0", "seed: 7")
    Path("params.yaml").write_text(own)
    assert "kept as params.before.yaml" in preset.run("tiny")
    assert preset.BEFORE.read_text() == own


@pytest.mark.parametrize("content", [b"\xff broken", b"a: [1"])
def test_replaces_parameters_that_cannot_be_read(content):
    Path("params.yaml").write_bytes(content)
    preset.run("tiny")
    assert params.load().split.partitions == 4
    assert preset.BEFORE.read_bytes() == content


def test_makes_parameters_where_there_are_none():
    Path("params.yaml").unlink()
    preset.run("tiny")
    assert params.load().split.partitions == 4


def test_that_does_not_exist_is_refused_with_those_that_do():
    before = Path("params.yaml").read_text()
    with pytest.raises(OutclassError, match=r"presets/imagenet\.yaml: not found; the presets are caltech256, cifar100"):
        preset.run("imagenet")
    assert Path("params.yaml").read_text() == before


def test_that_is_broken_is_refused():
    values = yaml.safe_load(Path("presets/tiny.yaml").read_text())
    Path("presets/tiny.yaml").write_text(yaml.safe_dump({**values, "seed": -1}))
    with pytest.raises(OutclassError, match=r"presets/tiny\.yaml: seed"):
        preset.run("tiny")
