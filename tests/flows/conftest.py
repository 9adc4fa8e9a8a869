"""Workspaces for real runs: a copy of the project on the tiny preset, and one Prefect server for the session."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import flows  # noqa: F401  (switches the tools' call-outs off, for the commands below too)
from flows import ports, server
from tests.flows import soak

PROJECT = Path(__file__).parents[2]
SOURCES = ("outclass", "stages", "flows", "dvc.yaml", "prefect.yaml", ".dvcignore", ".gitignore", "Makefile")
BIN = Path(sys.executable).parent


@dataclass
class Workspace:
    """A project folder of its own, with its own cache of chunks and its own slots."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OUTCLASS_", "PREFECT_API"))}
        return {**clean, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(self.root / "tmp")}

    def set(self, **values: object) -> None:
        """Change parameters, e.g. ``set(**{"split.partitions": 6})``."""
        path = self.root / "params.yaml"
        params = yaml.safe_load(path.read_text())
        for key, value in values.items():
            *groups, name = key.split(".")
            group = params
            for step in groups:
                group = group[step]
            group[name] = value
        path.write_text(yaml.safe_dump(params))

    def start(self, *command: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=self.root,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, check: bool = True, timeout: float = 240, **environment: str) -> str:
        process = self.start(*command, **environment)
        output, _ = process.communicate(timeout=timeout)
        assert not check or process.returncode == 0, output
        assert check or process.returncode != 0, output
        return output

    def python(self, module: str, *arguments: str, check: bool = True, timeout: float = 240, **environment: str) -> str:
        return self.run("python", "-m", module, *arguments, check=check, timeout=timeout, **environment)

    def digests(self, folder: str) -> dict[str, str]:
        """Fingerprint of each file below a folder."""
        files = sorted(path for path in (self.root / folder).rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def leftovers(self) -> list[str]:
        """Command lines of processes that still work in this folder or below, and unfinished files."""
        commands = [command for cwd, command, _ in _processes() if cwd == str(self.root)]
        return commands + [str(path) for path in self.root.rglob("*.part")]

    def pids(self, words: str, without: str) -> list[int]:
        """Processes that work in this folder, by words of their command lines."""
        found = [(command, pid) for cwd, command, pid in _processes() if cwd == str(self.root)]
        return [pid for command, pid in found if words in command and without not in command]


def _processes() -> Iterator[tuple[str, str, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text().replace("\0", " ")
                yield str((entry / "cwd").readlink()), command, int(entry.name)
            except OSError:
                continue


def make_workspace(root: Path, preset: str = "tiny") -> Workspace:
    root.mkdir(parents=True)
    for name in SOURCES:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    (root / ".dvc").mkdir()
    shutil.copy(PROJECT / ".dvc/config", root / ".dvc/config")
    shutil.copy(PROJECT / f"presets/{preset}.yaml", root / "params.yaml")
    (root / "tmp").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return Workspace(root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "project")


@pytest.fixture(scope="session", autouse=True)
def ports_of_our_own(worker_id: str) -> Iterator[None]:
    """Tests that run side by side choose among different ports, which no pipeline that they start chooses either."""
    place = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ports, "RANGE", range(5000 + 500 * place, 5500 + 500 * place))
        yield


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Prefect server."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("prefect"))
    try:
        with server.started(*ports.free(3)) as url:
            os.chdir(before)
            yield url
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, api: str) -> Workspace:
    """The tiny preset after a plain ``dvc repro`` with one slot. Look, do not touch."""
    return made_once(
        tmp_path_factory,
        "reference",
        lambda root: make_workspace(root).run("dvc", "repro", PREFECT_API_URL=api, OUTCLASS_SLOTS="1"),
    )


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Workspace:
    """A workspace that test processes which run side by side share: the first to come makes it."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    shared = factory.getbasetemp() if alone else factory.getbasetemp().parent
    root, ready = shared / name / "project", shared / f"{name}-is-ready"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            make(root)
            ready.touch()
    return Workspace(root)


@pytest.fixture(scope="session")
def ready_to_train(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The tiny preset with longer trainings, and everything before them done. Look, do not touch."""
    return made_once(tmp_path_factory, "ready-to-train", lambda root: soak.make_ready(make_workspace(root)))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, ready_to_train: Workspace, api: str) -> Workspace:
    """The same after a run that nobody killed. Look, do not touch."""
    return made_once(
        tmp_path_factory,
        "undisturbed",
        lambda root: soak.copy(ready_to_train, root).python("flows.pipeline", PREFECT_API_URL=api, OUTCLASS_SLOTS="2"),
    )


@pytest.fixture
def prepared(reference: Workspace, tmp_path: Path) -> Workspace:
    """A copy of the reference, up to date, to change at will."""
    shutil.copytree(reference.root, tmp_path / "project", symlinks=True)
    return Workspace(tmp_path / "project")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """With -v, a try of the soak says what it was."""
    words = dict(report.user_properties).get("soak")
    return ("passed", ".", f"PASSED {words}") if words and report.when == "call" and report.passed else None


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object], float], None]:
    def wait(condition: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    return wait
