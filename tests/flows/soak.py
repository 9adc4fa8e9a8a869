"""One try of the soak: a run, a kill at a random moment, and what must be true after it."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LONGER = {"split.partitions": 6, "backbone.flat.steps": 1500}
"""Trainings long enough to be killed, and more of them than run at a time."""
COMMANDS = {"pipeline": ("python", "-m", "flows.pipeline"), "dvc": ("dvc", "repro")}
"""The two ways to run the project, each with a Prefect server of its own."""
VICTIMS = {
    "pipeline": r"-m flows\.pipeline",
    "dvc": r"bin/dvc repro",
    "stage": r"-m flows\.(backbone|partitions)",
    "worker": r"-m flows\.worker",
    "server": r"bin/prefect server start|-m uvicorn .*prefect\.server",
}
"""What is killed -> how its command line goes on after the interpreter."""
CASES = [(command, victim) for command in COMMANDS for victim in VICTIMS if (command, victim) != ("dvc", "pipeline")]
PATIENCE = 600.0
"""Seconds after which a run hangs, however busy the machine is."""
LOOK_AGAIN = 0.02
CACHE = ".outclass/chunks"
COUNTED = """

# Every training, wherever it runs, passes here.
_uncounted = train


def train(settings, inputs, labels, taught, generators, *others, **named):
    import hashlib, os, time

    seeds = [generator.bit_generator.state for generator in generators]
    name = hashlib.sha256(repr([taught.tolist(), seeds]).encode()).hexdigest()[:8]

    def note(event):
        with open("tmp/trainings", "a") as ledger:
            ledger.write(f"{event} {name} {time.time()}\\n")

    note("begun")
    heads = _uncounted(settings, inputs, labels, taught, generators, *others, **named)
    note("ended")
    return heads
"""
"""Goes to the end of a workspace's own outclass/networks/__init__.py: a count that relies on nothing printed."""


def make_ready(workspace: Any) -> None:
    """All but the trainings and what needs them is done, and trainings are counted."""
    workspace.set(**LONGER)
    with (workspace.root / "outclass/networks/__init__.py").open("a") as module:
        module.write(COUNTED)
    workspace.run("dvc", "repro", "split@0")
    shutil.rmtree(workspace.root / CACHE, ignore_errors=True)  # chunks of features: from now on, all are of trainings


@dataclass(frozen=True)
class Plan:
    """What a seed stands for."""

    command: str
    victim: str
    training: int  # the kill comes after so many trainings have begun,
    delay: float  # and this share of the mean time between two of them

    @classmethod
    def of(cls, seed: int, trainings: int) -> "Plan":
        """Any len(CASES) seeds in a row, from a multiple of it, have all cases, shuffled."""
        turn, place = divmod(seed, len(CASES))
        command, victim = random.Random(turn).sample(CASES, len(CASES))[place]
        rng = random.Random(seed)
        return cls(command, victim, rng.randint(1, trainings), rng.random())


class Ledger:
    """The trainings of a workspace, as they were noted."""

    def __init__(self, workspace: Any) -> None:
        path = workspace.root / "tmp/trainings"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        self.begun = Counter(name for event, name, _ in lines if event == "begun")
        times = [float(moment) for _, _, moment in lines]
        self.seconds = max(times) - min(times) if times else 0.0


@dataclass(frozen=True)
class Moment:
    """What there is when the kill comes."""

    running: str
    begun: int
    finished: dict[str, tuple[int, int]]  # chunks: name -> what would change if it were made anew

    @classmethod
    def now(cls, workspace: Any) -> "Moment":
        counts = {name: len(alive(workspace, pattern)) for name, pattern in VICTIMS.items()}
        running = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return cls(running or "nothing", Ledger(workspace).begun.total(), chunks(workspace))


def chunks(workspace: Any) -> dict[str, tuple[int, int]]:
    folders = [path for path in (workspace.root / CACHE).glob("*") if path.suffix != ".part"]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folders}


def alive(workspace: Any, pattern: str | None = None) -> dict[int, str]:
    """Processes of a workspace, wherever they work now: number -> command line."""
    mark = f"TMPDIR={workspace.root}/tmp".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_text().replace("\0", " ").strip()
                if line and (pattern is None or re.match(rf"\S*python\S* \S*({pattern})", line)):
                    found[int(entry.name)] = line
        except OSError:  # it has just ended
            continue
    return found


def kill(workspace: Any, process: "subprocess.Popen[str]", plan: Plan, pause: float) -> bool:
    """Wait for the moment, and for the victim if it is not there yet; False if the run is over before."""
    pattern = VICTIMS[plan.victim]
    _wait(lambda: process.poll() is not None or Ledger(workspace).begun.total() >= plan.training)
    while process.poll() is None:
        time.sleep(plan.delay * pause)
        for victim in list(alive(workspace, pattern))[:1]:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                return True
        _wait(lambda: process.poll() is not None or bool(alive(workspace, pattern)))
    return False


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(LOOK_AGAIN)


def end(workspace: Any, process: "subprocess.Popen[str]") -> str:
    """Wait for the end of a run and of all that it started; what it printed."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
        _wait(lambda: not alive(workspace))
    except (AssertionError, subprocess.TimeoutExpired) as error:
        raise AssertionError(f"left running: {alive(workspace)}") from error
    return output


def half_written(workspace: Any) -> list[str]:
    """What stands where something finished belongs, and is not."""
    found = []
    for path in sorted(workspace.root.rglob("*")):
        name = path.relative_to(workspace.root).as_posix()
        if re.match(rf"({re.escape(CACHE)}|runs/[^/]+)/[^/]+(?<!\.part)/.*\.part$", name):
            found.append(name)
        if path.suffix == ".parquet" and ".part/" not in name:
            try:
                pq.read_table(path, page_checksum_verification=True)
            except (OSError, pa.ArrowException) as error:
                found.append(f"{name}: {error}")
    return found


def copy(workspace: Any, root: Path) -> Any:
    shutil.copytree(workspace.root, root, symlinks=True)
    return type(workspace)(root)


def summary(seed: int, plan: Plan, hit: bool, kill: Moment, total: int, goes_on: bool, again: int) -> str:
    done = "went on by itself" if goes_on else "resumed"
    what = f"{plan.victim} of `{' '.join(COMMANDS[plan.command])}` killed" if hit else "over before the kill"
    return (
        f"seed {seed}: {what} {plan.delay:.2f} after training {plan.training}; running: {kill.running}; "
        f"finished {len(kill.finished)} of {total}, in progress {kill.begun - len(kill.finished)}; "
        f"{done}, trained again {again}"
    )
