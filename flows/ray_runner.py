"""Trainings on a Ray cluster: arrays go there once per node, arrays come back, files stay here."""

import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from uuid import UUID

import ray
from prefect import task
from prefect.client.schemas.objects import State
from prefect.states import Completed, Crashed, Failed
from prefect_ray import RayTaskRunner
from prefect_ray.context import remote_options
from ray.exceptions import RayError

from flows import cluster, processes
from flows.claims import claimed
from flows.outcomes import LOST, ProgressArtifact, Row, kept, log_of, settle, trained
from flows.progress import Progress
from outclass.errors import OutclassError
from stages import chunks as chunk_files
from stages import command, settings
from stages.chunks import Chunk, Tables, Work
from stages.trainings import WORK

Ends = dict[UUID, State[Any]]
"""How the task runs of trainings have ended, as far as is known."""
LOOK_AGAIN = 5.0
"""Seconds between two looks whether the cluster is still there."""
PATIENCE = 20.0
"""Seconds for which it may be silent or without a fit node; after a minute, Ray itself would end us without a word."""


class Shared:
    """An object in the cluster's store. Prefect looks into whatever is handed to a task; it shall not look in here."""

    def __init__(self, value: Any) -> None:
        self.reference = ray.put(value)

    def get(self) -> Any:
        return ray.get(self.reference)


@dataclass(frozen=True)
class Trained:
    """What a node sends back."""

    tables: Tables
    node: str
    seconds: float


class RayRunner:
    """As many trainings at a time as the cluster has room for."""

    def __init__(self, api: str) -> None:
        self.api = api

    def __enter__(self) -> "RayRunner":
        asked = settings.load()
        with ExitStack() as stack:
            self.endpoint = stack.enter_context(cluster.connected())
            nodes = cluster.inspect(self.api)
            self.device = cluster.choose_device(asked.device, nodes)
            self.num_gpus = 1 / asked.slots_per_gpu if asked.device != "cpu" and any(n.gpus for n in nodes) else 0.0
            if error := cluster.no_room(self.num_gpus):
                raise OutclassError(f"{error}: see --num-cpus and --num-gpus in docs/cluster.md")
            self.task_runner = RayTaskRunner(asked.ray_address)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stack.close()

    def train(self, work: Work, chunks: list[Chunk]) -> list[Row]:
        """Inside a flow: have all chunks trained that are not finished."""
        with ExitStack() as claims:
            for chunk in chunks:
                claims.enter_context(claimed(chunk))
            rows = {chunk: kept(chunk) for chunk in chunks if chunk.finished}
            todo = [chunk for chunk in chunks if chunk not in rows]
            if todo:
                rows |= self._train(work, todo)
        return [rows[chunk] for chunk in chunks]

    def _train(self, work: Work, todo: list[Chunk]) -> dict[Chunk, Row]:
        futures = self._submit(work, todo)
        ends: Ends = {future.task_run_id: Crashed(message=LOST) for future in futures.values()}
        try:
            return self._collect(work, futures, ends)
        except BaseException:
            settle(ends)
            raise

    def _submit(self, work: Work, todo: list[Chunk]) -> dict[Chunk, Any]:
        material = Shared(chunk_files.load(work, todo))
        options = {"num_cpus": 1, "num_gpus": self.num_gpus, "max_retries": settings.load().retries}
        with remote_options(**options, scheduling_strategy="SPREAD"):
            return {chunk: train_on_node.submit(chunk, material) for chunk in todo}

    def _collect(self, work: Work, futures: dict[Chunk, Any], ends: Ends) -> dict[Chunk, Row]:
        """Keep each chunk as soon as it is there: what has come is not lost with the cluster."""
        pending = {future.wrapped_future: chunk for chunk, future in futures.items()}
        rows: dict[Chunk, Row] = {}
        well = time.monotonic()
        while pending:
            ready, _ = ray.wait(list(pending), timeout=LOOK_AGAIN)
            processes.refuse_if_stopping()
            well = self._refuse_loss(well)
            for reference in ready:
                chunk = pending.pop(reference)
                outcome = _result(chunk, futures[chunk], ends)
                chunk_files.keep(work, chunk, outcome.tables)
                rows[chunk] = trained(chunk, f"node {outcome.node}", outcome.seconds)
        return rows

    def _refuse_loss(self, well: float) -> float:
        """Since when all is well; a cluster that has been lost for too long is refused."""
        if error := cluster.unreachable(self.endpoint):
            lost = f"the Ray cluster at {self.endpoint} no longer answers ({error})"
        elif not (lost := cluster.no_room(self.num_gpus)):
            return time.monotonic()
        if time.monotonic() - well > PATIENCE:
            raise OutclassError(f"{lost}; what is finished is kept: start what is missing again, then run again")
        return well


@task(task_run_name="{chunk}")
def train_on_node(chunk: Chunk, material: Shared) -> Trained:
    """On a node: train a chunk."""
    started = time.monotonic()
    node = f"{ray.util.get_node_ip_address()}-{ray.get_runtime_context().get_node_id()[:6]}"
    progress = ProgressArtifact(f"{chunk} on node {node}")
    progress(0.0)
    with command.single_threaded():
        made = WORK[chunk.stage].compute(material.get(), chunk, Progress(progress))
    progress(100.0)
    return Trained(made, node, time.monotonic() - started)


def _result(chunk: Chunk, future: Any, ends: Ends) -> Trained:
    """The outcome of a training, and whether it was one."""
    try:
        outcome: Trained = future.result()
    except Exception as error:
        cause = _explain(chunk, error)
        ends[future.task_run_id] = Failed(message=cause)
        raise OutclassError(cause) from error
    ends[future.task_run_id] = Completed()
    return outcome


def _explain(chunk: Chunk, error: Exception) -> str:
    """What went wrong is told with its chunk, the rest of it goes to the log."""
    if isinstance(error, OutclassError):
        return f"{chunk}: {error}"
    if isinstance(error, RayError):
        tries = settings.load().retries + 1
        cause = f"its worker or node died in each of {tries} tries ({type(error).__name__})"
        return _with_log(chunk, cause, str(error))
    details = "".join(traceback.format_exception(error))
    return _with_log(chunk, f"failed: {type(error).__name__}: {error}", details)


def _with_log(chunk: Chunk, cause: str, details: str) -> str:
    log = log_of(chunk)
    log.write_text(details)
    return f"{chunk} {cause}; its log is {log}"
