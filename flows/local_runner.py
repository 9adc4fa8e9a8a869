"""Trainings on this machine: each a subprocess in a slot of its own."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from prefect import task
from prefect.task_runners import ThreadPoolTaskRunner

from flows import processes, slots
from flows.claims import claimed
from flows.outcomes import ProgressArtifact, Row, kept, log_of, say, trained
from flows.worker import USER_ERROR
from outclass.errors import OutclassError
from stages import settings
from stages.chunks import Chunk, Work

OnPercent = Callable[[float], None]


class LocalRunner:
    """As many trainings at a time as there are slots."""

    def __init__(self) -> None:
        self.device = settings.device()
        self.task_runner: Any = ThreadPoolTaskRunner(max_workers=len(slots.available()))

    def __enter__(self) -> "LocalRunner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def train(self, work: Work, chunks: list[Chunk]) -> list[Row]:
        """Inside a flow: have all chunks trained that are not finished."""
        futures = [train_chunk.submit(chunk) for chunk in chunks]
        return [future.result() for future in futures]


@task(task_run_name="{chunk}")
def train_chunk(chunk: Chunk) -> Row:
    """Train a chunk in the first slot that is free; a finished one is left as it is."""
    return train_in_slot(chunk, ProgressArtifact(str(chunk)))


def train_in_slot(chunk: Chunk, on_percent: OnPercent = lambda percent: None) -> Row:
    """Train a chunk unless it is finished; a training that dies without a word is followed by another."""
    with claimed(chunk):
        if chunk.finished:
            return kept(chunk)
        for tries_left in reversed(range(settings.load().retries + 1)):
            attempt = Attempt(chunk, on_percent)
            code = attempt.run()
            if code == USER_ERROR:
                raise OutclassError(f"{chunk}: {attempt.last_words[-1]}")
            if code == 0:
                on_percent(100.0)
                return trained(chunk, attempt.slot, time.monotonic() - attempt.started)
            died = f"ended with code {code} in slot {attempt.slot}"
            if tries_left:
                say(chunk, f"{died}; trying again")
    raise OutclassError("\n".join([f"{chunk} {died}; its log is {attempt.log}", *attempt.last_words]))


class Attempt:
    """A training under way, as seen from outside."""

    def __init__(self, chunk: Chunk, on_percent: OnPercent) -> None:
        self.chunk, self.on_percent = chunk, on_percent
        self.slot, self.started = "", time.monotonic()
        self.log: Path = log_of(chunk)
        self.last_words: deque[str] = deque(maxlen=20)

    def run(self) -> int:
        with self.log.open("w") as self.output:
            return slots.run(processes.python("flows.worker", self.chunk.to_json()), self.on_line, self.on_start)

    def on_start(self, slot: slots.Slot) -> None:
        self.slot, self.started = slot.name, time.monotonic()
        self.on_percent(0.0)

    def on_line(self, line: str) -> None:
        if line.startswith("progress "):
            percent = float(line.removeprefix("progress "))
            self.on_percent(percent)
            say(self.chunk, f"{percent:.0f} %")
        elif line == slots.WAITING:
            say(self.chunk, line)
        else:
            print(line, file=self.output, flush=True)
            self.last_words.append(line)
