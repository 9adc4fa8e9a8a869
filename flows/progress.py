"""How far a training is, told not too often."""

import time
from collections.abc import Callable

REPORT_EVERY = 10.0
"""Seconds between two reports."""


class Progress:
    """Counts a training's steps, and tells the percentage now and then."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell = tell
        self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last > REPORT_EVERY:
            self.last = now
            self.tell(100 * done // total)
