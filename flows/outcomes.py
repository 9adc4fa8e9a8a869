"""What is told of trainings: lines in the terminal, progress and rows of a table in the Prefect UI, logs."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound

from flows import processes
from stages import settings, tables
from stages.chunks import Chunk

Row = dict[str, str | float]
LOST = "its worker or node died, or the run ended before it"
RECORDED_WITHIN = 8.0
"""Seconds until a task that has begun is known to the server, which writes such news down every five."""
LOOK_AGAIN = 0.5


class ProgressArtifact:
    """The bar of a training; it appears with the first word of it. A server that is silent is no reason to end one."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.id: UUID | None = None

    def __call__(self, percent: float) -> None:
        with suppress(httpx.HTTPError):
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


def settle(ends: Mapping[UUID, State[Any]]) -> None:
    """Tell the server how tasks have ended whose own word of it may be lost with their node.

    Nobody else does, and it would show them as running for ever. A task is known there only some time after it began.
    A server that does not listen shall not hide why they have ended.
    """
    unsettled, deadline = dict(ends), time.monotonic() + RECORDED_WITHIN
    with suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        while unsettled:
            for task_run, end in list(unsettled.items()):
                with suppress(ObjectNotFound):
                    state = client.read_task_run(task_run).state
                    if state is None or not state.is_final():
                        client.set_task_run_state(task_run, end, force=True)
                    del unsettled[task_run]
            if time.monotonic() > deadline or processes.stopping():
                return  # what is still unknown has not begun
            time.sleep(LOOK_AGAIN)


def log_of(chunk: Chunk) -> Path:
    """Where the output of a chunk's training goes, for those who look for the cause of a failure."""
    path = settings.HOME / "logs" / f"{str(chunk).replace(' ', '-')}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
