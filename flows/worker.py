"""Train one chunk of partitions: what runs in a slot.

    python -m flows.worker CHUNK      as JSON

Prints ``progress PERCENT`` now and then; an error that the user can mend is the last line.
"""

import sys
import time

from outclass.errors import OutclassError
from stages import command, partitions
from stages.chunks import Chunk

REPORT_EVERY = 2.0
"""Seconds between two reports of progress."""


class Progress:
    """Prints how far a training is, not too often."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.last > REPORT_EVERY:
            self.last = time.monotonic()
            print(f"progress {100 * done // total}", flush=True)


def main() -> int:
    chunk = Chunk.from_json(sys.argv[1])
    try:
        with command.single_threaded():
            partitions.train(chunk, Progress())
    except OutclassError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
