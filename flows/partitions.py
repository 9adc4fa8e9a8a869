"""Fan the training of a fold's partitions out to worker slots: the command of the DVC stage ``partitions``."""

import time
from collections import deque
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


def worth_another_try(task: "Task[..., Row]", run: TaskRun, state: "State[Row]") -> bool:
    error = state.result(raise_on_failure=False)
    if not isinstance(error, WorkerDiedError):
        return False
    print(f"partitions: {str(error).splitlines()[0]}; trying again", flush=True)
    return True


@task(task_run_name="{chunk}", retry_delay_seconds=1, retry_condition_fn=worth_another_try)
def train_chunk(chunk: Chunk) -> Row:
    """Train a chunk in a subprocess, in the first slot that is free; a finished chunk is left as it is."""
    started, slot_name = time.monotonic(), ""
    kept = chunk.finished
    if not kept:
        with slots.leased(slots.available()) as (slot, lease):
            slot_name, started = slot.name, time.monotonic()
            _train_in(slot, lease, chunk)
    seconds = round(time.monotonic() - started, 1)
    print(f"{_item(chunk)}: {chunk} " + ("kept from an earlier run" if kept else f"trained in {seconds} s"), flush=True)
    return _row(chunk, slot_name, seconds, kept)


def _train_in(slot: slots.Slot, lease: int, chunk: Chunk) -> None:
    progress = cast(UUID, create_progress_artifact(0.0, description=f"{chunk} in {slot.name}"))
    last_words: deque[str] = deque(maxlen=20)

    def on_line(line: str) -> None:
        if line.startswith("progress "):
            _show_progress(progress, chunk, float(line.removeprefix("progress ")))
        else:
            last_words.append(line)

    code = processes.run(processes.python("flows.worker", chunk.to_json()), on_line, slot.environment, [lease])
    if code == USER_ERROR:
        raise OutclassError(f"{chunk}: {last_words[-1]}")
    if code:
        raise WorkerDiedError("\n".join([f"{chunk} ended with code {code} in slot {slot.name}", *last_words]))
    update_progress_artifact(progress, 100.0)


def _show_progress(artifact: UUID, chunk: Chunk, percent: float) -> None:
    update_progress_artifact(artifact, percent)
    print(f"{_item(chunk)}: {chunk} {percent:.0f} %", flush=True)


def _row(chunk: Chunk, slot: str, seconds: float, kept: bool) -> Row:
    networks = tables.read_frame(chunk.folder / "networks.parquet", tables.PARTITION_NETWORKS)
    return {
        "partitions": f"{chunk.partitions[0]}-{chunk.partitions[-1]}",
        "state": "kept" if kept else "trained",
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
    runner: Any = ThreadPoolTaskRunner(max_workers=len(slots.available()))
    with processes.stopped_on_signal(), server.available():
        return partitions.with_options(task_runner=runner)(repetition, fold)


def _item(chunk: Chunk) -> str:
    return f"partitions@{chunk.repetition}-{chunk.fold}"


if __name__ == "__main__":
    command.main("partitions", run, "repetition", "fold")
