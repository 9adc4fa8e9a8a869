"""Run a stage from the command line: fixed threads, one line that says what came out, errors without a trace."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from threadpoolctl import threadpool_limits

from outclass.errors import OutclassError


def main(name: str, stage: Callable[..., str], *arguments: str) -> None:
    """Call ``stage`` with whole-number arguments from the command line and print its answer."""
    parser = argparse.ArgumentParser(prog=name, description=stage.__doc__)
    for argument in arguments:
        parser.add_argument(f"--{argument}", type=_index, required=True)
    values = vars(parser.parse_args())
    place = "-".join(str(value) for value in values.values())
    sys.exit(report(f"{name}@{place}" if place else name, stage, **values))


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
        print(
            f"{item}: error: {error.filename or 'input/output'}: {error.strerror or error}", file=sys.stderr, flush=True
        )
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
