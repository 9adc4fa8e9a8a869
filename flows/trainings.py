"""The trainings of a stage as a Prefect flow, by whichever runner is asked for."""

from contextvars import ContextVar
from typing import Any, Protocol

from prefect import flow
from prefect.artifacts import create_table_artifact

from flows import processes, server
from flows.local_runner import LocalRunner, train_in_slot
from flows.outcomes import Row
from outclass.errors import OutclassError
from stages import params, settings
from stages.chunks import Chunk, Work
from stages.trainings import WORK


class Runner(Protocol):
    """Where and how chunks are trained."""

    device: str  # cpu or cuda
    task_runner: Any  # Prefect's part of it

    def train(self, work: Work, chunks: list[Chunk]) -> list[Row]:
        """Inside a flow: have all chunks trained that are not finished."""


_runner: ContextVar[Runner] = ContextVar("runner")
"""Of the flow under way: not a parameter, because Prefect stores those."""


def run(stage: str, repetition: int, fold: int) -> str:
    """Train what is not finished of a fold's chunks, side by side, and put all of them together."""
    with processes.stopped_on_signal(), server.available() as url, opened_runner(url) as runner:
        _runner.set(runner)
        named = train_fold_flow.with_options(
            name=stage, flow_run_name=f"{stage} r{repetition} f{fold}", task_runner=runner.task_runner
        )
        return named(stage, repetition, fold)


def train_fold(stage: str, repetition: int, fold: int) -> str:
    work, runner = WORK[stage], _runner.get()
    chunks = work.plan(repetition, fold, runner.device)
    with processes.stopped_on_signal():  # here too: inside a flow, Prefect has put its own handler in place
        rows = runner.train(work, chunks)
    create_table_artifact(rows, key=f"{stage}-r{repetition}-f{fold}", description="What was trained")
    return work.gather(chunks)


train_fold_flow = flow(train_fold)
"""Under a name of its own: Ray sends the flow along with each task, and finds the function by its name."""


def run_without_prefect(stage: str, repetition: int, fold: int) -> str:
    """The same on this machine, one chunk after the other, where nobody could see a flow."""
    with processes.stopped_on_signal():
        chunks = WORK[stage].plan(repetition, fold, settings.device())
        for chunk in chunks:
            train_in_slot(chunk)
        return WORK[stage].gather(chunks)


def opened_runner(api: str) -> Any:
    """The runner of OUTCLASS_RUNNER, to be entered."""
    if runs_on_cluster():
        try:
            from flows.ray_runner import RayRunner  # here, because Ray need not be installed
        except ImportError as error:
            raise OutclassError(
                f"OUTCLASS_RUNNER=ray, but Ray cannot be loaded here ({error}): "
                f"`pip install -c constraints.txt -e '.[ray]'`, or set OUTCLASS_RUNNER=local"
            ) from error
        return RayRunner(api)
    return LocalRunner()


def runs_on_cluster() -> bool:
    """One's own tables of confidences are read, not trained: they need no cluster, and lie here."""
    return settings.load().runner == "ray" and params.load().backbone.network != "given"
