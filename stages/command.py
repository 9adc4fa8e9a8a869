"""Run a stage from the command line: fixed threads, one line that says what came out, errors without a trace."""

import argparse
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

from outclass.errors import OutclassError
from stages import PARENT

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOOK_AGAIN = 0.5
"""Seconds between two looks whether DVC is still there."""


def main(name: str, stage: Callable[..., str], *arguments: str) -> None:
    """Call ``stage`` with whole-number arguments from the command line and print its answer."""
    parser = argparse.ArgumentParser(prog=name, description=stage.__doc__)
    for argument in arguments:
        parser.add_argument(f"--{argument}", type=_index, required=True)
    values = vars(parser.parse_args())
    place = "-".join(str(value) for value in values.values())

    def stoppable(**values: int) -> str:
        end_like_an_interrupt()
        end_with_dvc()
        return stage(**values)

    code = report(f"{name}@{place}" if place else name, stoppable, **values)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to be taken away
    sys.exit(code)


def end_like_an_interrupt() -> None:
    """A request to end takes the way of Ctrl-C, past every ``finally`` that takes an unfinished file away."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def end_with_dvc() -> None:
    """A stage that went on after its DVC was killed would be in the way of the next ``dvc repro``.

    DVC is our parent: the usual shells, told to run one command, hand their own process over to it.
    """

    def watch() -> None:
        while os.getppid() == PARENT:
            time.sleep(LOOK_AGAIN)
        os.kill(os.getpid(), signal.SIGTERM)

    if "DVC_STAGE" in os.environ:
        threading.Thread(target=watch, daemon=True).start()


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not 0, 1, 2, ...")
    return int(text)


def report(item: str, stage: Callable[..., str], **arguments: Any) -> int:
    """Run, print, and give the exit code."""
    started = time.monotonic()
    try:
        with single_threaded():
            answer = stage(**arguments)
    except OutclassError as error:
        print(f"{item}: error: {error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        remedy = "; free space, then run again" if error.errno in FULL else ""
        words = f"{error.filename or 'input/output'}: {error.strerror or error}{remedy}"
        print(f"{item}: error: {words}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print(f"{item}: stopped", file=sys.stderr, flush=True)
        return 130
    print(f"{item}: {answer} ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


def single_threaded() -> threadpool_limits:
    """One thread for every library: their number changes the last bits of results, so it is fixed."""
    if "torch" in sys.modules:  # only some stages use it, and loading it takes longer than most of the others run
        sys.modules["torch"].set_num_threads(1)
    return threadpool_limits(limits=1)
