"""Child processes that end with us, and their output as it comes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from flows import guard

_running: set["subprocess.Popen[str]"] = set()  # those that a thread waits for
_stopping = threading.Event()


class StoppedError(Exception):
    """The run is being stopped from outside: do not try again."""


def start(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    output: int | IO[str] = subprocess.PIPE,
    keep_open: Sequence[int] = (),
    folder: Path | None = None,
) -> "subprocess.Popen[str]":
    """Start a command under the guard, in a session of its own, its errors in with its output.

    ``keep_open`` are file descriptors that stay open until the command has ended (a lease, for one).
    ``folder`` is where it works, if not here.
    """
    refuse_if_stopping()
    return subprocess.Popen(
        [sys.executable, guard.__file__, *command],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
        start_new_session=True,
        pass_fds=keep_open,
        cwd=folder,
    )


def run(
    command: Sequence[str],
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
    folder: Path | None = None,
) -> int:
    """Run a command to its end, giving each line of its output away; answer its exit code."""
    child = start(command, environment, keep_open=keep_open, folder=folder)
    _running.add(child)
    try:
        refuse_if_stopping()  # a request to stop may have come before we were among those that run
        assert child.stdout is not None
        for line in child.stdout:
            on_line(line.rstrip())
        code = child.wait()
    finally:
        _running.discard(child)
        stop(child)
    refuse_if_stopping()
    return code


def stopping() -> bool:
    return _stopping.is_set()


def refuse_if_stopping() -> None:
    """Whoever waits for anything calls this now and then, so as not to wait for ever."""
    if stopping():
        raise StoppedError


def stop(child: "subprocess.Popen[str]") -> None:
    """End a command and all it started, and wait for it."""
    assert child.stdin is not None
    child.stdin.close()  # the guard sees to the rest
    child.wait()


def stop_all() -> None:
    """Have all that ``run`` waits for end, and let nothing else be started."""
    _stopping.set()
    for child in list(_running):
        if child.stdin is not None:
            child.stdin.close()


def wait_for_all() -> None:
    for child in list(_running):
        child.wait()


@contextmanager
def stopped_on_signal() -> Iterator[None]:
    """On Ctrl-C or SIGTERM, end all that ``run`` waits for: its threads must not hold us up.

    What was only started (the Prefect server) is left to whoever started it: the flow still has to tell it the end.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        stop_all()
        raise KeyboardInterrupt

    before = {sign: signal.signal(sign, interrupt) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def in_environment(values: Mapping[str, object]) -> Iterator[None]:
    """Set variables for this process and those that it starts meanwhile; None leaves one as it is."""
    chosen = {name: str(value) for name, value in values.items() if value is not None}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def tool(name: str, *arguments: str) -> list[str]:
    """A command-line tool of this very environment, whether it is activated or not."""
    return [str(Path(sys.executable).with_name(name)), *arguments]
