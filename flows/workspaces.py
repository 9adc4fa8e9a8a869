"""Copies of the workspace, one for each point of a sweep, and the DVC experiments that are made in them.

A copy is a git repository that borrows all objects of this one, with the files as they are now (uncommitted changes
included). It shares DVC's cache, linked and not copied, and the finished chunks: what any point has computed, no other
computes again. The result is a commit under ``refs/exps``, which is what DVC calls an experiment: it is brought back
here, and the copy is removed.
"""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from dvc.dependency import loads_from
from dvc.repo import Repo
from dvc.utils.serialize import modify_yaml

from flows import items, processes
from outclass.errors import OutclassError
from stages import params, paths, settings
from stages.points import OF_DATA, Point, set_values, with_values
from stages.results import Metrics

CODE = ("dvc.yaml", "params.yaml", ".dvc/config", "outclass", "stages", "flows")
"""What a point cannot be run without, and what makes its results (beside the data)."""
LINKS = "reflink,hardlink,symlink,copy"
"""How files come from DVC's cache into a copy. No stage writes into a file: it puts another in its place."""

_bringing_back = threading.Lock()


@dataclass(frozen=True)
class Base:
    """What all points of a sweep start from: the last commit, and the files as they are now."""

    root: Path
    commit: str
    tree: str
    dvc_cache: Path

    def reference(self, point: Point) -> str:
        """The git ref under which DVC looks for an experiment."""
        return f"refs/exps/{self.commit[:2]}/{self.commit[2:]}/{point.name}"


def snapshot() -> Base:
    """The workspace as it is now, as a git tree; nothing is committed, the index stays as it is."""
    commit = _head()
    if unknown := git("ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines():
        raise OutclassError(
            f"git does not know of {', '.join(unknown)}, so the points of a sweep would run without: "
            f"`git add` what they need, and let .gitignore name the rest"
        )
    with TemporaryDirectory(prefix="outclass-sweep-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        shutil.copy(git("rev-parse", "--git-path", "index"), index["GIT_INDEX_FILE"])
        git("add", "--update", environment=index)
        tree = git("write-tree", environment=index)
    with Repo(".") as repo:
        return Base(Path.cwd(), commit, tree, Path(repo.cache.local_cache_dir))


def _head() -> str:
    """The last commit, or what is missing for there to be one."""
    why = "a sweep keeps its points as DVC experiments, which are git commits"
    try:
        top = Path(git("rev-parse", "--show-toplevel"))
    except OutclassError as error:
        raise OutclassError(f"this folder is no git repository that can be used, but {why}: {error}") from error
    if top.resolve() != Path.cwd().resolve():
        raise OutclassError(f"{top} is the git repository's root folder, but {why}: run a sweep from there")
    try:
        return git("rev-parse", "--verify", "HEAD^{commit}")
    except OutclassError:
        raise OutclassError(f"there is no git commit yet, but {why}: `git add` the project and commit") from None


def git(*arguments: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """What git answers."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise OutclassError("git is not installed, or not on the PATH") from None
    if done.returncode:
        raise OutclassError(f"git {arguments[0]}: {done.stderr.strip() or f'code {done.returncode}'}")
    return done.stdout.strip()


def features_at_hand() -> str:
    """Which features (``Point.data``) this workspace has, up to date, for all points to share."""

    def outdated() -> bool:
        with Repo(".") as repo:
            return bool(repo.status(["download", "embed"]))

    return "" if items.patiently(outdated) else params.load().model_dump_json(include=OF_DATA)


# --- finished experiments --------------------------------------------------------------------------------


def finished(base: Base, point: Point) -> Metrics | None:
    """The metrics of a point's experiment, if there is one of this very code, parameters and data."""
    reference = base.reference(point)
    if not git("for-each-ref", reference):
        return None
    changed = git("diff", "--name-only", "--no-renames", base.tree, reference, "--", *CODE).splitlines()
    if set(changed) - {str(params.FILE)}:
        return None
    kept, lock = (yaml.safe_load(git("show", f"{reference}:{name}")) for name in (params.FILE, "dvc.lock"))
    if kept != with_values(yaml.safe_load(git("show", f"{base.tree}:{params.FILE}")), point.values):
        return None
    if any(_digest_then(lock, path) != _digest_now(path) for path in point.own_data):
        return None
    return dict(json.loads(git("show", f"{reference}:{paths.REPORT / 'metrics.json'}")))


def _digest_then(lock: Any, path: str) -> str | None:
    """DVC's digest of what an experiment has read."""
    deps = [dep for stage in lock["stages"].values() for dep in stage.get("deps", ())]
    return next((dep["md5"] for dep in deps if dep["path"] == path), None)


def _digest_now(path: str) -> str | None:
    """DVC's digest of a file or folder; it remembers those of files that have not changed."""
    with Repo(".") as repo:
        [dependency] = loads_from(repo.stage.load_one(name="download"), [path])
        dependency.save()
        return str(dependency.hash_info.value)


# --- copies ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """A workspace of its own for one point."""

    base: Base
    point: Point
    like: Point | None  # a finished one that has much in common with it
    folder: Path  # gone when the point has ended
    logs: Path  # stays

    @property
    def root(self) -> Path:
        """So deep in the folder that a path which leads out of the project does not lead out of the folder."""
        climbs = [Path(os.path.normpath(path)).parts.count("..") for path in self._relative]
        return self.folder.joinpath(*["workspace"] * max([1, *climbs]))

    @property
    def _relative(self) -> list[str]:
        return [path for path in self.point.own_data if not Path(path).is_absolute()]

    @property
    def environment(self) -> dict[str, str]:
        """What is finished is shared, wherever it lies."""
        chosen = settings.load()
        shared = {"OUTCLASS_CACHE": chosen.cache, "OUTCLASS_DOWNLOADS": chosen.downloads}
        return {name: str(path.absolute()) for name, path in shared.items()} | {"OUTCLASS_POINT": self.point.name}

    def make(self) -> None:
        """The files of the base, with the point's parameters."""
        self.remove()
        self.root.mkdir(parents=True)
        self._check_out()
        with modify_yaml(self.root / params.FILE) as parameters:
            set_values(parameters, self.point.values)
        if self.like:  # its outputs come all at once by `dvc checkout`, not item by item from DVC's run cache
            lock = git("show", f"{self.base.reference(self.like)}:dvc.lock")
            (self.root / "dvc.lock").write_text(f"{lock}\n")
        self._configure_dvc()
        self.logs.mkdir(parents=True, exist_ok=True)
        home = self.root / settings.HOME
        home.mkdir(exist_ok=True)
        (home / "logs").symlink_to(self.logs.absolute())

    def _check_out(self) -> None:
        """As ``git clone --shared`` would, which does not share with a repository that is shallow itself."""
        git("init", "--quiet", "--template=", folder=self.root)
        objects, shallow = (self.base.root / git("rev-parse", "--git-path", name) for name in ("objects", "shallow"))
        alternates = self.root / ".git/objects/info/alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_text(f"{objects.resolve()}\n")
        if shallow.exists():
            shutil.copy(shallow, self.root / ".git/shallow")
        git("update-ref", "--no-deref", "HEAD", self.base.commit, folder=self.root)
        git("read-tree", "--reset", "-u", self.base.tree, folder=self.root)

    def _configure_dvc(self) -> None:
        """Share the cache; keep DVC's notes about the copy inside it, so that they go with it."""
        local = self.base.root / ".dvc/config.local"
        if local.exists():
            shutil.copy(local, self.root / ".dvc/config.local")
        with Repo(self.root) as repo, repo.config.edit("local") as config:
            config["cache"].update({"dir": str(self.base.dvc_cache), "type": LINKS})
            config["core"]["site_cache_dir"] = str((self.root / ".dvc/tmp/site").absolute())

    def link_own_data(self) -> None:
        """What neither git nor DVC has brought is linked to where the workspace has it."""
        for path in self._relative:
            here = Path(os.path.normpath(self.root / path))
            if not here.exists():
                here.parent.mkdir(parents=True, exist_ok=True)
                here.symlink_to((self.base.root / path).resolve())

    def bring_back(self) -> None:
        """Let the workspace have the experiment."""
        reference = self.base.reference(self.point)
        with _bringing_back:
            git(
                *("fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--no-tags"),
                *(str(self.root.absolute()), f"+{reference}:{reference}"),
                folder=self.base.root,
            )

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def run(copy: Copy, on_line: Callable[[str], None], keep_open: Sequence[int] = ()) -> None:
    """Run a point's pipeline in a copy, keep it as an experiment, and bring that back."""
    try:
        copy.make()
        steps = Steps(copy, on_line, keep_open)
        steps.run("dvc checkout", processes.tool("dvc", "checkout", "--allow-missing"), essential=False)
        copy.link_own_data()
        steps.run("pipeline", processes.python("flows.pipeline"))
        # All is up to date now: this only makes it an experiment.
        steps.run("dvc exp run", processes.tool("dvc", "exp", "run", "--name", copy.point.name))
        copy.bring_back()
    finally:
        copy.remove()


class Steps:
    """Commands that run in a copy, with one log."""

    def __init__(self, copy: Copy, on_line: Callable[[str], None], keep_open: Sequence[int]) -> None:
        self.copy, self.on_line, self.keep_open = copy, on_line, keep_open
        self.log = copy.logs / "point.log"
        self.log.write_text("")

    def run(self, name: str, command: Sequence[str], essential: bool = True) -> None:
        lines: list[str] = []
        with self.log.open("a") as log:

            def on_each(line: str) -> None:
                print(line, file=log, flush=True)
                lines.append(line)
                if name == "pipeline" and "Prefect UI" not in line:  # that has been said
                    self.on_line(line)

            code = processes.run(command, on_each, self.copy.environment, self.keep_open, self.copy.root)
        if code and essential:
            raise OutclassError(f"{name} ended with code {code}; its log is {self.log}\n{self._cause(lines)}")

    def _cause(self, lines: Sequence[str]) -> str:
        """From the first error on; logs are named as they are found from here."""
        first = next((i for i, line in enumerate(lines) if "error: " in line.lower()), max(0, len(lines) - 15))
        return "\n".join(lines[first:]).replace(f"{settings.HOME}/logs", str(self.copy.logs))
