"""Train one chunk: what runs in a slot.

    python -m flows.worker CHUNK      as JSON

Prints ``progress PERCENT`` now and then. An error that the user can mend is the last line, and the exit code is
``USER_ERROR``: trying again would not help.
"""

import sys

from flows.progress import Progress
from outclass.errors import OutclassError
from stages import chunks, command
from stages.trainings import WORK

USER_ERROR = 3


def say(percent: int) -> None:
    print(f"progress {percent}", flush=True)


def main() -> int:
    chunk = chunks.Chunk.from_json(sys.argv[1])
    try:
        with command.single_threaded():
            chunks.train(WORK[chunk.stage], chunk, Progress(say))
    except OutclassError as error:
        print(error, flush=True)
        return USER_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
