"""One run of a kind at a time in a workspace.

The lock is the operating system's, on a file that says who holds it: it ends with its holder, however that ends. A
plain ``dvc repro`` takes no part in it: DVC's own locks keep it from doing harm.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil

from flows import guard, processes
from outclass.errors import OutclassError
from stages.settings import HOME

FILE = HOME / "pipeline.lock"


@contextmanager
def held(file: Path = FILE, what: str = "another run of the pipeline works in this folder") -> Iterator[int]:
    """Hold the lock; yields its file descriptor, for processes that are to hold it until they have ended."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(descriptor, file, what)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {datetime.now():%Y-%m-%d %H:%M:%S}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(file: Path) -> bool:
    """Whether anybody holds a lock, alone or with others."""
    if not file.exists():
        return False
    descriptor = os.open(file, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def shared(file: Path) -> Iterator[None]:
    """Hold a lock together with others, for those who ask whether anybody is at work."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, file: Path, what: str) -> None:
    """Wait only for what a killed run has left to end: its guards see to that."""
    deadline = time.monotonic() + 2 * guard.GRACE
    while True:
        processes.refuse_if_stopping()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pid, _, since = os.pread(descriptor, 100, 0).decode().strip().partition(" ")
            if pid.isdecimal() and (psutil.pid_exists(int(pid)) or time.monotonic() > deadline):
                raise OutclassError(_refusal(file, what, pid, since)) from None
        time.sleep(0.2)


def _refusal(file: Path, what: str, pid: str, since: str) -> str:
    return (
        f"{what} (process {pid}, since {since}; {file} says so): "
        f"wait for it, or stop it (Ctrl-C, `kill {pid}`, or cancel it in the Prefect UI), then run again"
    )
