"""dvc.yaml says what each stage reads, runs and writes: less hides changes, more re-runs what they do not concern."""

import ast
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from hashlib import md5
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from outclass.errors import OutclassError
from stages import command, params, settings

ROOT = Path(__file__).resolve().parents[1]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
NO_MATHS = {"outclass/errors.py", "outclass/arrays.py"}
PLUMBING = {
    f"stages/{name}.py" for name in ("__init__", "chunks", "command", "files", "params", "paths", "settings", "tables")
}


# What code a stage runs


def module_file(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def has_code(path: Path) -> bool:
    """Whether there is more in it than a docstring."""
    body = ast.parse(path.read_text()).body
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body)


def modules_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def closure(start: Path) -> frozenset[str]:
    """Our own files that a stage module imports, directly or not. stages/params.py takes but type names."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(ROOT).as_posix()
        if name in found:
            continue
        found.add(name)
        if name == "stages/params.py":
            continue
        for module in modules_imported(path):
            parts = module.split(".")
            if parts[0] in ("outclass", "stages"):
                files = (module_file(".".join(parts[: n + 1])) for n in range(len(parts)))
                waiting += [file for file in files if file]
    return frozenset(name for name in found if has_code(ROOT / name)) - NO_MATHS


def code_deps(stage: str) -> set[str]:
    found = set()
    for dep in STAGES[stage]["deps"]:
        path = ROOT / dep
        if dep.startswith(("outclass/", "stages/")) and path.suffix in ("", ".py"):
            files = path.rglob("*.py") if path.is_dir() else [path]
            found |= {file.relative_to(ROOT).as_posix() for file in files if has_code(file)}
    return found


@pytest.mark.parametrize("stage", STAGES)
def test_the_code_that_is_listed_is_the_code_that_is_run(stage):
    assert code_deps(stage) == closure(ROOT / f"stages/{stage}.py") - PLUMBING


@pytest.mark.parametrize("stage", STAGES)
def test_everything_listed_that_is_committed_exists(stage):
    for dep in STAGES[stage]["deps"]:
        if dep.startswith(("outclass", "stages", "flows")):
            assert (ROOT / dep).exists()


# What files a stage reads and writes: each is run in a folder that holds just what it lists


@dataclass
class Run:
    """One stage run for repetition 0 and fold 0."""

    written: set[str]
    params: set[str]


def expand(path: str) -> str:
    names = {"item.repetition": "0", "item.fold": "0", "download.input": "outclass/datasets/glyphs.py"}
    names |= {f"{stage}.input": "features/hog.parquet" for stage in ("backbone", "pooled", "baselines")}
    for name, value in names.items():
        path = path.replace(f"${{{name}}}", value)
    return path


def data_deps(stage: str) -> list[str]:
    return [dep for dep in map(expand, STAGES[stage]["deps"]) if not dep.startswith(("outclass/", "stages/"))]


def outputs(stage: str) -> list[str]:
    listed = [out for kind in ("outs", "metrics", "plots") for out in STAGES[stage].get(kind, [])]
    return [expand(out if isinstance(out, str) else next(iter(out))) for out in listed]


def call(stage: str) -> None:
    import_module(f"stages.{stage}").run(*(0 for _ in STAGES[stage].get("matrix", ())))


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def spy_on_params(patch: pytest.MonkeyPatch) -> set[str]:
    """The parameter groups that are read from now on; grows as they are."""
    seen: set[str] = set()
    fields, get, parse = set(params.Params.model_fields), params.Params.__getattribute__, params.parse

    def spy(self, name):
        if name in fields:
            seen.add(name)
        return get(self, name)

    def parse_unseen(values, origin):
        before = set(seen)
        try:
            return parse(values, origin)
        finally:  # what the checks look at is not what the stage reads
            seen.intersection_update(before)

    patch.setattr(params.Params, "__getattribute__", spy, raising=False)
    patch.setattr(params, "parse", parse_unseen)
    return seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """Where the outputs of the stages are gathered; one thread, the CPU, no settings from outside."""
    with pytest.MonkeyPatch.context() as patch, command.single_threaded():
        for name in settings.Settings.model_fields:
            patch.delenv(f"OUTCLASS_{name.upper()}", raising=False)
        patch.setenv("OUTCLASS_DEVICE", "cpu")
        settings.device.cache_clear()
        yield tmp_path_factory.mktemp("gathered")
    settings.device.cache_clear()


def given_to(stage: str, folder: Path, target: Path) -> None:
    """Make a folder that holds what the stage lists and the parameters, of one fold alone."""
    target.mkdir()
    values = yaml.safe_load((ROOT / "presets/tiny.yaml").read_text())
    (target / "params.yaml").write_text(yaml.safe_dump({**values, "folds": [0]}))
    for dep in data_deps(stage):
        copy(folder / dep, target / dep)


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> dict[str, Run]:
    """Every stage, in the order of dvc.yaml."""
    runs = {}
    for stage in STAGES:
        given = tmp_path_factory.mktemp(stage) / "given"
        given_to(stage, folder, given)
        with pytest.MonkeyPatch.context() as patch:
            seen = spy_on_params(patch)
            patch.chdir(given)
            before = {path for path in given.rglob("*") if path.is_file()}
            call(stage)
            written = {path for path in given.rglob("*") if path.is_file()} - before
        names = {path.relative_to(given).as_posix() for path in written}
        runs[stage] = Run({name for name in names if not name.startswith(".outclass/")}, seen)
        for name in runs[stage].written:
            copy(given / name, folder / name)
    return runs


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_needs_no_file_that_it_does_not_list_and_writes_what_it_lists(finished, stage):
    outs = outputs(stage)
    assert finished[stage].written
    for name in finished[stage].written:
        assert any(name == out or name.startswith(f"{out}/") for out in outs), f"{name} is not listed"
    for out in outs:
        assert any(name == out or name.startswith(f"{out}/") for name in finished[stage].written), f"{out} is missing"


@pytest.mark.parametrize(("stage", "dep"), [(stage, dep) for stage in STAGES for dep in data_deps(stage)])
def test_a_stage_needs_every_file_that_it_lists(finished, folder, tmp_path, monkeypatch, stage, dep):
    given = tmp_path / "given"
    given_to(stage, folder, given)
    lost = given / dep
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    monkeypatch.chdir(given)
    with pytest.raises((OutclassError, FileNotFoundError), match=dep):
        call(stage)


# What parameters a stage reads


def test_the_report_follows_every_parameter_as_it_shows_them_all():
    assert set(STAGES["evaluate"]["params"]) == set(params.Params.model_fields)


@pytest.mark.parametrize("stage", sorted(STAGES.keys() - {"evaluate"}))
def test_the_parameters_that_are_listed_are_those_that_are_read(finished, stage):
    assert finished[stage].params == {name.split(".")[0] for name in STAGES[stage]["params"]}


def test_every_parameter_group_is_listed_by_some_stage():
    listed = {name for stage in STAGES.values() for name in stage["params"] if "." not in name}
    assert listed == set(params.Params.model_fields)


def test_runs_are_those_of_the_parameters():
    for name, stage in STAGES.items():
        expected = {"repetition": "${repetitions}", "fold": "${folds}"}
        if "matrix" in stage:
            assert stage["matrix"] == {key: expected[key] for key in stage["matrix"]}
            assert all(f"--{key} ${{item.{key}}}" in stage["cmd"] for key in stage["matrix"])
        assert stage["cmd"].split(" --")[0] in (f"python -m stages.{name}", f"python -m flows.{name}")


# What was run last


def test_the_committed_run_is_of_the_committed_code_and_parameters():
    lock = yaml.safe_load((ROOT / "dvc.lock").read_text())["stages"]
    chosen = yaml.safe_load((ROOT / "params.yaml").read_text())
    assert lock
    for stage, entry in lock.items():
        for dep in entry["deps"]:
            path = ROOT / dep["path"]
            if path.suffix in (".py", ".html"):
                assert md5(path.read_bytes()).hexdigest() == dep["md5"], f"{dep['path']} changed after {stage} ran"
        for key, value in entry.get("params", {}).get("params.yaml", {}).items():
            stored = reduce(lambda group, name: group[name], key.split("."), chosen)
            assert stored == value, f"{key} changed after {stage} ran"
