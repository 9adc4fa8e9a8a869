"""Train one chunk of partitions: what runs in a slot.

    python -m flows.worker CHUNK      as JSON

Prints ``progress PERCENT`` now and then. An error that the user can mend is the last line, and the exit code is
``USER_ERROR``: trying again would not help.
"""

import sys
import time

from outclass.errors import OutclassError
from stages import command, partitions
from stages.chunks import Chunk

USER_ERROR = 3
REPORT_EVERY = 10.0
"""Seconds between two reports of progress."""


class Progress:
    """Prints how far a training is, not too often."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self.last = self.last or now
        if now - self.last > REPORT_EVERY:
            self.last = now
            print(f"progress {100 * done // total}", flush=True)


def main() -> int:
    chunk = Chunk.from_json(sys.argv[1])
    try:
        with command.single_threaded():
            partitions.train(chunk, Progress())
    except OutclassError as error:
        print(error, flush=True)
        return USER_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
