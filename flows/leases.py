"""Names that one process of this machine holds at a time: devices to train at, chunks being trained.

A lease is a lock on a file in the user's temporary folder, so that folds or whole pipelines that run side by side on
a machine never take the same thing (as long as they share that folder). The operating system gives it back when its
holder ends, however it ends.
"""

import fcntl
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows import processes

LOOK_AGAIN = 0.1
"""Seconds between two looks for a free name."""
LOOKS_IN_SILENCE = 50
"""So many looks, and somebody should be told."""


@contextmanager
def held(
    names: Sequence[str], folder: Path | None = None, on_wait: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, int]]:
    """Wait for one of the names and hold it; yields its position and the lock's file descriptor.

    ``on_wait`` is called once if none is free for a while.

    A process that inherits the descriptor holds the name too: if we are killed, a training that has not ended yet
    keeps its device.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"outclass-leases-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    position, descriptor = _first_free([folder / f"{name}.lock" for name in names], on_wait)
    try:
        yield position, descriptor
    finally:
        os.close(descriptor)


def _first_free(paths: Sequence[Path], on_wait: Callable[[], None]) -> tuple[int, int]:
    for look in itertools.count():
        processes.refuse_if_stopping()
        if look == LOOKS_IN_SILENCE:
            on_wait()
        for position, path in enumerate(paths):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return position, descriptor
            except BlockingIOError:
                os.close(descriptor)
        time.sleep(LOOK_AGAIN)
    raise AssertionError("the count of looks has no end")
