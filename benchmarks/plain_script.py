"""The whole pipeline as one would write it without DVC and Prefect: the stages' functions, in a pool of processes.

    python benchmarks/plain_script.py PROCESSES      in a folder with a params.yaml

It keeps nothing of an earlier run, and knows of no change: what benchmarks/orchestration.py compares with.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from typing import Any

from stages import command, params
from stages.chunks import Chunk
from stages.chunks import train as train_chunk
from stages.trainings import WORK

Place = tuple[str, int, int]
"""Stage, repetition, fold."""


def train(chunk: Chunk) -> None:
    with command.single_threaded():
        train_chunk(WORK[chunk.stage], chunk)


def gather(place: Place) -> None:
    stage, *fold = place
    WORK[stage].gather(WORK[stage].plan(*fold, "cpu"))


def run(place: tuple[Any, ...]) -> None:
    stage, *arguments = place
    with command.single_threaded():
        import_module(f"stages.{stage}").run(*arguments)


@contextmanager
def pool(processes: int) -> Iterator[Callable[[Callable[[Any], None], list[Any]], None]]:
    """Calls a function with each of some values; if one process is enough, it is this one."""
    if processes == 1:
        yield lambda function, values: [function(value) for value in values] and None
    else:
        with ProcessPoolExecutor(processes, get_context("forkserver")) as workers:
            yield lambda function, values: list(workers.map(function, values)) and None


def main(processes: int) -> None:
    chosen = params.load()
    folds = list(product(chosen.repetitions, chosen.folds))
    for place in [("download",), ("embed",), *(("split", repetition) for repetition in chosen.repetitions)]:
        run(place)
    with pool(processes) as each:
        each(train, [chunk for fold in folds for stage in WORK for chunk in WORK[stage].plan(*fold, "cpu")])
        each(gather, [(stage, *fold) for stage in WORK for fold in folds])
        each(run, [(stage, *fold) for stage in ("ensemble", "pooled", "baselines") for fold in folds])
    run(("evaluate",))


if __name__ == "__main__":
    main(int(sys.argv[1]))
