"""Fan the training of a fold's partitions out to worker slots: the command of the DVC stage ``partitions``."""

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

from prefect import flow, task
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.tasks import Task

from flows import processes, server, slots
from flows.worker import USER_ERROR
from outclass.errors import OutclassError
from stages import command, settings, tables
from stages.chunks import Chunk, plan
from stages.partitions import gather

Row = dict[str, str | float]


class WorkerDiedError(OutclassError):
    """A training ended without saying why (killed, out of memory): another try may do better."""

    def __init__(self, chunk: Chunk, code: int, slot: str, last_words: Iterable[str]) -> None:
        super().__init__("\n".join([f"{chunk} ended with code {code} in slot {slot}", *last_words]))
        self.chunk = chunk


def worth_another_try(task: "Task[..., Row]", run: TaskRun, state: "State[Row]") -> bool:
    error = state.result(raise_on_failure=False)
    if not isinstance(error, WorkerDiedError):
        return False
    _say(error.chunk, f"{str(error).splitlines()[0]}; trying again")
    return True


@task(task_run_name="{chunk}", retry_delay_seconds=1, retry_condition_fn=worth_another_try)
def train_chunk(chunk: Chunk) -> Row:
    """Train a chunk in a subprocess, in the first slot that is free; a finished chunk is left as it is."""
    if chunk.finished:
        _say(chunk, f"{chunk} kept from an earlier run")
        return _row(chunk, "kept", "", 0.0)
    training = Training(chunk)
    code = slots.run(processes.python("flows.worker", chunk.to_json()), training.on_line, training.on_start)
    return training.end(code)


class Training:
    """A training under way, as seen from outside."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.last_words: deque[str] = deque(maxlen=20)

    def on_start(self, slot: slots.Slot) -> None:
        self.slot, self.started = slot.name, time.monotonic()
        self.progress = cast(UUID, create_progress_artifact(0.0, description=f"{self.chunk} in {slot.name}"))

    def on_line(self, line: str) -> None:
        if line.startswith("progress "):
            percent = float(line.removeprefix("progress "))
            update_progress_artifact(self.progress, percent)
            _say(self.chunk, f"{self.chunk} {percent:.0f} %")
        elif line == slots.WAITING:
            _say(self.chunk, f"{self.chunk} {line}")
        else:
            self.last_words.append(line)

    def end(self, code: int) -> Row:
        if code == USER_ERROR:
            raise OutclassError(f"{self.chunk}: {self.last_words[-1]}")
        if code:
            raise WorkerDiedError(self.chunk, code, self.slot, self.last_words)
        update_progress_artifact(self.progress, 100.0)
        seconds = round(time.monotonic() - self.started, 1)
        _say(self.chunk, f"{self.chunk} trained in {seconds} s")
        return _row(self.chunk, "trained", self.slot, seconds)


def _say(chunk: Chunk, words: str) -> None:
    print(f"partitions@{chunk.repetition}-{chunk.fold}: {words}", flush=True)


def _row(chunk: Chunk, state: str, slot: str, seconds: float) -> Row:
    networks = tables.read_frame(chunk.table("networks"), tables.PARTITION_NETWORKS)
    return {
        "partitions": f"{chunk.partitions[0]}-{chunk.partitions[-1]}",
        "state": state,
        "slot": slot,
        "seconds": seconds,
        "accuracy": round(float(networks["accuracy"].mean()), 4),
    }


@flow(flow_run_name="partitions r{repetition} f{fold}", log_prints=False)
def partitions(repetition: int, fold: int) -> str:
    """Train what is not finished of a fold's chunks, side by side, and put all of them together."""
    chunks = plan(repetition, fold)
    trainer = train_chunk.with_options(retries=settings.load().retries)
    rows = [future.result() for future in [trainer.submit(chunk) for chunk in chunks]]
    create_table_artifact(rows, key=f"partitions-r{repetition}-f{fold}", description="What was trained")
    return gather(chunks)


def run(repetition: int, fold: int) -> str:
    """Write runs/partitions/r<repetition>-f<fold>/, training chunks side by side."""
    runner: Any = ThreadPoolTaskRunner(max_workers=slots.at_a_time())
    with processes.stopped_on_signal(), server.available():
        return partitions.with_options(task_runner=runner)(repetition, fold)


if __name__ == "__main__":
    command.main("partitions", run, "repetition", "fold")
