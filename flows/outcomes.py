"""What is told of trainings: lines in the terminal, progress and rows of a table in the Prefect UI, logs."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from stages import settings, tables
from stages.chunks import Chunk

Row = dict[str, str | float]
LOST = "its worker or node died, or the run ended before it"


class ProgressArtifact:
    """The bar of a training; it appears with the first word of it."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.id: UUID | None = None

    def __call__(self, percent: float) -> None:
        if self.id is None:
            self.id = cast(UUID, create_progress_artifact(percent, description=self.description))
        else:
            update_progress_artifact(self.id, percent)


def say(chunk: Chunk, words: str) -> None:
    print(f"{chunk.stage}@{chunk.repetition}-{chunk.fold}: {chunk} {words}", flush=True)


def kept(chunk: Chunk) -> Row:
    say(chunk, "kept from an earlier run")
    return _row(chunk, "kept", "", 0.0)


def trained(chunk: Chunk, where: str, seconds: float) -> Row:
    say(chunk, f"trained in {seconds:.1f} s in {where}")
    return _row(chunk, "trained", where, seconds)


def _row(chunk: Chunk, state: str, where: str, seconds: float) -> Row:
    row: Row = {"networks": chunk.networks, "state": state, "where": where, "seconds": round(seconds, 1)}
    if "networks" in chunk.tables:
        networks = tables.read_frame(chunk.table("networks"), tables.PARTITION_NETWORKS)
        row["accuracy"] = round(float(networks["accuracy"].mean()), 4)
    return row


def lost(task_runs: Iterable[UUID]) -> None:
    """Tell the server of tasks whose process is gone: nobody else does, and it would show them as running for ever."""
    with get_client(sync_client=True) as client:
        for task_run in task_runs:
            with suppress(ObjectNotFound):  # it had not begun
                state = client.read_task_run(task_run).state
                if state is None or not state.is_final():
                    client.set_task_run_state(task_run, Crashed(message=LOST), force=True)


def log_of(chunk: Chunk) -> Path:
    """Where the output of a chunk's training goes, for those who look for the cause of a failure."""
    path = settings.HOME / "logs" / f"{str(chunk).replace(' ', '-')}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
