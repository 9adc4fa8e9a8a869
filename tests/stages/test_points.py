"""The points of a sweep: names, parameters, and everything that is wrong with them at once."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from outclass.errors import OutclassError
from stages import params, points
from stages.points import Sweep

TINY = Path(__file__).parents[2] / "presets/tiny.yaml"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(TINY, "params.yaml")
    Path("outclass/datasets").mkdir(parents=True)
    Path("outclass/datasets/glyphs.py").touch()


def plan(**asked):
    return points.plan(Sweep(name="test", **asked))


def test_every_combination_is_a_point_in_the_order_of_the_grid():
    found = plan(grid={"ensemble.theta": ["difference", "ratio"], "backbone.flat.hidden": [16, 24]}, seeds=[3])
    expected = [f"hidden={hidden},theta={theta},seed=3" for theta in ("difference", "ratio") for hidden in (16, 24)]
    assert [point.name for point in found] == expected
    last = found[-1].params
    assert (last.seed, last.ensemble.theta, last.backbone.flat.hidden) == (3, "ratio", 24)
    assert last.split == params.load().split


def test_names_do_not_depend_on_the_order_of_the_grid():
    grid = {"ensemble.theta": ["difference", "ratio"], "backbone.flat.hidden": [16, 24]}
    turned = {key: values[::-1] for key, values in reversed(grid.items())}
    assert {point.name: point.params for point in plan(grid=grid)} == {
        point.name: point.params for point in plan(grid=turned)
    }


def test_repetitions_and_folds_are_those_of_every_point_and_in_its_name():
    [one, other] = plan(grid={"ensemble.cost": [0.5, 1.0]}, repetitions=[0, 1], folds=[2])
    assert one.name == "cost=0.5,folds=2,repetitions=0+1"
    assert other.params.repetitions == [0, 1]
    assert other.params.folds == [2]


@pytest.mark.parametrize(
    "values",
    [
        {"backbone.input": "features/hog.parquet"},
        {"backbone.input": "../a..b.lock", "pooled.input": "x y~^:?*[\\@{z}."},
        {"split.set_sizes": [1, 2], "baselines.pca": None, "embed.mirrored": True},
        {"baselines.methods": {"knfst": {"kernel": ["rbf"]}}},
        {"download.leave_out": {f"class {number}": "why" for number in range(100)}},
        {"ensemble.theta": "отношение"},
    ],
)
def test_names_are_fit_for_git_and_for_folders(values):
    name = points.name(values)
    subprocess.run(["git", "check-ref-format", f"refs/exps/ab/cd/{name}"], check=True)
    assert re.fullmatch(r"[\w.+=,-]{1,200}", name, re.ASCII)
    assert name == points.name(dict(reversed(values.items())))


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("seed", "seed"),
        ("ensemble.theta", "theta"),
        ("pooled.input", "pooled.input"),
        ("backbone.ridge.penalty", "ridge.penalty"),
        ("embed.hog.side", "hog.side"),
    ],
)
def test_a_name_tells_a_parameter_from_all_others_that_there_are(key, label):
    """Whatever sweep it is part of: points of one commit share one place for their names."""
    assert points.name({key: 1}) == f"{label}=1"
    others = {points.name({other: 1}) for other in params.keys() - {key}}
    assert f"{label}=1" not in others
    assert len(others) == len(params.keys()) - 1


def test_long_names_still_differ():
    names = {points.name({"download.leave_out": {"x" * 200: str(number)}}) for number in range(5)}
    assert len(names) == 5


def test_all_that_is_wrong_is_named_with_the_points_that_have_it():
    with pytest.raises(OutclassError) as error:
        plan(grid={"ensemble.tetha": ["difference"], "backbone.flat.hidden": [16, 0], "seed.of": [1]})
    text = str(error.value)
    assert "2 of 2 points cannot be run, so none was started" in text
    assert "seed.of: unknown parameter; seed is a value, not a group" in text
    with pytest.raises(OutclassError) as error:
        plan(grid={"ensemble.tetha": ["difference"], "backbone.flat.hidden": [16, 0]})
    text = str(error.value)
    assert (
        "ensemble.tetha: unknown parameter; did you mean theta?\n    in hidden=16,tetha=difference; hidden=0,tet"
        in text
    )
    assert "hidden: Input should be greater than or equal to 1 (it is 0)\n    in hidden=0,tetha=difference" in text


def test_a_group_that_is_missing_must_be_given_as_a_whole():
    with pytest.raises(OutclassError, match=r"backbone\.nin\.blocks: missing"):
        plan(grid={"backbone.nin.width": [8]})


def test_data_that_are_not_there_are_named():
    with pytest.raises(OutclassError, match=r"\.\./elsewhere: not found; check download\.input"):
        plan(grid={"download.input": ["../elsewhere", "outclass/datasets/glyphs.py"]})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "nothing to vary"),
        ({"grid": {"ensemble.theta": ["ratio", "ratio"]}}, "several points would be called theta=ratio"),
        ({"grid": {"seed": [1]}, "seeds": [2]}, "seed: given twice"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(asked, message):
    with pytest.raises(OutclassError, match=message):
        plan(**asked)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gird: {}", "test.yaml: gird: unknown parameter; did you mean grid?"),
        ("grid: {seed: 1}", "test.yaml: grid.seed: Input should be a valid list (it is 1)"),
        ("grid: {seed: []}", "test.yaml: grid.seed: List should have at least 1 item"),
        ("points_at_a_time: 0", "test.yaml: points_at_a_time: Input should be greater than or equal to 1"),
        ("name: ../x", "test.yaml: name: String should match pattern"),
        ("grid: [", "test.yaml: not valid YAML"),
        ("7", "test.yaml: parameters: "),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_key(text, message):
    Path("test.yaml").write_text(text)
    with pytest.raises(OutclassError, match=re.escape(message)):
        points.load(Path("test.yaml"))


def test_a_sweep_is_called_as_its_file_is():
    Path("widths.yaml").write_text("grid: {backbone.flat.hidden: [16, 24]}\nseeds: null\n")
    assert points.load(Path("widths.yaml")).name == "widths"
    Path("widths.yaml").write_text("name: other\n")
    assert points.load(Path("widths.yaml")).name == "other"


def test_points_know_what_they_share():
    first, theta, hidden, cell = (
        points.plan(Sweep(name="test", grid={key: [value]}))[0]
        for key, value in {
            "ensemble.theta": "difference",
            "ensemble.cost": 2.0,
            "backbone.flat.hidden": 24,
            "embed.hog.cell": 6,
        }.items()
    )
    assert first.trainings == theta.trainings
    assert first.trainings != hidden.trainings
    assert first.data == hidden.data
    assert first.data != cell.data


def test_the_example_is_a_sweep(monkeypatch):
    monkeypatch.chdir(TINY.parents[1])
    for path in Path("sweeps").glob("*.yaml"):
        assert len(points.plan(points.load(path))) > 1
