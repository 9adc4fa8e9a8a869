"""DVC's items as the pipeline sees them: which must run, running one, and who is in the way."""

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import networkx
import psutil
from dvc.exceptions import DvcException
from dvc.lock import LockError, make_lock
from dvc.repo import Repo
from dvc.rwlock import RWLockFileCorruptedError

from flows import processes
from outclass.errors import OutclassError
from stages import settings

T = TypeVar("T")

LOGS = settings.HOME / "logs"
LOCKED = ("Unable to acquire lock", "is busy", "JSON structure is corrupted")
"""DVC's words for a lock held by another item, or damaged: trying again mends it."""
LOCK_PATIENCE = 120.0
"""Seconds for which a lock may be held before we give up."""
A_REFUSAL = 20.0
"""Seconds within which DVC, which itself waits for three, says that a lock is held."""
LOCK_FILE = Path(".dvc/tmp/lock")
"""Holds the number of the process that holds DVC's lock on the whole workspace; the lock ends with that process."""
RWLOCK_FILE = Path(".dvc/tmp/rwlock")
"""Lists who reads or writes which files. DVC crosses out numbers of processes that are gone, but after a restart of the
machine a number may belong to another process."""
RWLOCK_GUARD = ".dvc/tmp/rwlock.lock"
"""Held by a DVC while it reads or writes that list."""
LAST_WORDS = 15
"""Lines of an item's log that are shown when it fails."""


class ItemFailedError(OutclassError):
    """An item's command failed."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        super().__init__(f"{name} failed; its log is {log_of(name)}\n" + "\n".join(lines))
        self.lines = lines


def outdated() -> dict[str, list[str]]:
    """The items to run -> those each waits for, in an order that honours these ties, and else is that of dvc.yaml."""
    graph, changed = patiently(_status)
    after = networkx.reverse(graph)  # in DVC's graph an item points to what it depends on
    wanted = changed.union(*(networkx.descendants(after, name) for name in changed))
    place = {name: number for number, name in enumerate(graph)}
    order = [name for level in networkx.topological_generations(after) for name in sorted(level, key=place.__getitem__)]
    return {name: [other for other in graph.successors(name) if other in wanted] for name in order if name in wanted}


def _status() -> tuple[networkx.DiGraph, set[str]]:
    with Repo(".") as repo:
        graph = networkx.relabel_nodes(repo.index.graph, lambda stage: stage.addressing)
        return graph, set(repo.status())


def log_of(name: str) -> Path:
    return LOGS / f"{name}.log"


def reproduce(name: str, on_line: Callable[[str], None], keep_open: Sequence[int] = ()) -> None:
    """Run one item and nothing else, through DVC, so that its lock file knows of it.

    Everything goes to the item's log, the stage's own lines to ``on_line`` as well.
    """
    LOGS.mkdir(parents=True, exist_ok=True)

    def attempt() -> None:
        last_words: deque[str] = deque(maxlen=LAST_WORDS)
        with log_of(name).open("w") as log:

            def on_each(line: str) -> None:
                print(line, file=log, flush=True)
                last_words.append(line)
                if line.startswith(f"{name}:"):
                    on_line(line)

            code = processes.run(processes.tool("dvc", "repro", "--single-item", name), on_each, keep_open=keep_open)
        if code:
            refuse_if_locked(last_words)
            raise ItemFailedError(name, list(last_words))

    patiently(attempt)


def prove() -> None:
    """A plain ``dvc repro`` must find nothing left to do."""

    def attempt() -> None:
        lines: list[str] = []
        code = processes.run(processes.tool("dvc", "repro"), lines.append)
        if code:
            refuse_if_locked(lines)
        if code or any(line.startswith("Running stage") for line in lines):
            raise OutclassError("`dvc repro` found more to do after all items had run:\n" + "\n".join(lines))

    patiently(attempt)


def refuse_if_locked(lines: Iterable[str]) -> None:
    """Of a DVC command that failed, tell whether it was for a lock."""
    text = "\n".join(lines)
    if any(word in text for word in LOCKED):
        raise LockError(text)


def patiently(attempt: Callable[[], T]) -> T:
    """Try again while DVC's locks are held by others.

    An item takes them twice, before its work and after it: one that has worked is not refused for the time of that.
    """
    since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return attempt()
        except (LockError, RWLockFileCorruptedError) as error:
            remove_if_damaged()
            now = time.monotonic()
            if since is None or now - began > A_REFUSAL:
                since = now
            if now - since > LOCK_PATIENCE:
                raise OutclassError(in_the_way(str(error))) from error
        except DvcException as error:
            raise OutclassError(unreadable(error)) from error
        time.sleep(0.5)


def remove_if_damaged() -> None:
    """A DVC that is killed as it writes its list of readers and writers leaves half of it: no other gets past that."""
    with suppress(LockError, FileNotFoundError), make_lock(RWLOCK_GUARD):
        try:
            json.loads(RWLOCK_FILE.read_text())
        except ValueError:
            RWLOCK_FILE.unlink()


def unreadable(error: DvcException) -> str:
    """What is wrong with DVC's own files; one of them is DVC's to write."""
    words = f"DVC cannot work here: {error}"
    if "dvc.lock" not in words:
        return words
    return (
        f"{words}. A DVC that was killed may have written half of it: `git checkout dvc.lock`, "
        f"or delete it, then run again; what is finished is kept"
    )


def in_the_way(complaint: str) -> str:
    """Who has held a lock of DVC for so long, from DVC's own words, and what to do about it."""
    listed = [int(pid) for pid in re.findall(r"\(PID (\d+)\)", complaint)]
    file = RWLOCK_FILE if listed else LOCK_FILE
    pids = listed or [int(pid) for pid in re.findall(r"\d+", file.read_text() if file.exists() else "")]
    holders = {pid: command for pid in pids if (command := _command(pid))}
    living = [f"process {pid} ({command})" for pid, command in holders.items() if "dvc" in command or not listed]
    if living:
        what = f"{', '.join(living)} works in this folder: wait for it or stop it (`kill {' '.join(map(str, pids))}`)"
    elif listed:
        others = "; ".join(f"process {pid} is {holders.get(pid, 'gone')}" for pid in pids)
        what = f"it is left from a run that was killed, no DVC is at work ({others}): delete {file}"
    else:
        what = f"who holds {file} cannot be told: stop every DVC that works in this folder"
    return f"DVC's lock {file} has been held for {LOCK_PATIENCE:.0f} s. {what[0].upper() + what[1:]}, then run again"


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline()) or "unnamed"
    except psutil.Error:
        return ""
