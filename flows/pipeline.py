"""The whole DAG as one Prefect flow: DVC decides what must run, Prefect when, items without ties side by side."""

from typing import Annotated, Final, Literal

from prefect import flow, get_run_logger, task
from prefect.futures import PrefectFuture, as_completed
from pydantic import Field

from flows import artifacts, cancelling, items, lock, processes, server
from stages import command, params, paths, settings

AS_CONFIGURED: Final = "as configured"
"""In the UI's form, values that are not None make fields that are easy to read."""


@task(task_run_name="{name}")
def reproduce(name: str, workspace: int) -> None:
    """Run one item, its own lines to the terminal and to the UI; if it fails, also the last ones of its log."""
    logger = get_run_logger()

    def on_line(line: str) -> None:
        print(line, flush=True)
        logger.info(line)

    try:
        items.reproduce(name, on_line, [workspace])
    except items.ItemFailedError as error:
        logger.error("the last lines of %s:\n%s", items.log_of(name).absolute(), "\n".join(error.lines))
        raise


@task(task_run_name="dvc repro")
def prove() -> None:
    """A plain ``dvc repro`` must find nothing left to do."""
    items.prove()


def run_name() -> str:
    chosen, point = params.load(), settings.load().point
    of_sweep = f"{point}: " if point else ""
    return f"{of_sweep}{chosen.download.source}, repetitions {chosen.repetitions}, folds {chosen.folds}"


@flow(flow_run_name=run_name)
def pipeline(
    items_at_a_time: Annotated[int, Field(ge=0)] = 0,
    runner: Literal["as configured", "local", "ray"] = AS_CONFIGURED,
    slots: Annotated[int, Field(ge=0)] = 0,
    slots_per_gpu: Annotated[int, Field(ge=0)] = 0,
    device: Literal["as configured", "auto", "cpu", "cuda"] = AS_CONFIGURED,
    retries: Annotated[int, Field(ge=-1)] = -1,
) -> None:
    """Bring the workspace up to date with params.yaml and the code.

    The parameters say how work is run, and change no result; what is computed stands in params.yaml. Left alone, they
    are as the worker's environment says (OUTCLASS_ITEMS, OUTCLASS_RUNNER, ...).

    Args:
        items_at_a_time: Stages of the pipeline that run side by side. 0: as configured.
        runner: Where trainings run: on this machine, or on a Ray cluster.
        slots: Trainings at a time. 0: as configured, or else one a GPU or a core.
        slots_per_gpu: Trainings that share a GPU. 0: as configured.
        device: What networks are trained on.
        retries: Further tries of a training that died. -1: as configured.
    """
    chosen = {
        "OUTCLASS_ITEMS": items_at_a_time or None,
        "OUTCLASS_RUNNER": None if runner == AS_CONFIGURED else runner,
        "OUTCLASS_SLOTS": slots or None,
        "OUTCLASS_SLOTS_PER_GPU": slots_per_gpu or None,
        "OUTCLASS_DEVICE": None if device == AS_CONFIGURED else device,
        "OUTCLASS_RETRIES": None if retries < 0 else retries,
    }
    with cancelling.cancellable(), processes.in_environment(chosen), lock.held() as workspace:
        todo = items.outdated()
        print(f"pipeline: {len(todo)} items to run", flush=True)
        run_all(todo, settings.load().items, workspace)
        prove()
        artifacts.publish(settings.load().point)


def run_all(todo: dict[str, list[str]], at_a_time: int, workspace: int) -> None:
    """Run each item as soon as those that it waits for are done; after a failure, start no other."""
    waiting, running = dict(todo), dict[PrefectFuture[None], str]()
    done: dict[str, PrefectFuture[None]] = {}
    while waiting or running:
        ready = [name for name, needs in waiting.items() if all(other in done for other in needs)]
        for name in ready[: at_a_time - len(running)]:
            before = [done[other] for other in waiting.pop(name)]  # done already: it only draws the ties in the UI
            running[reproduce.submit(name, workspace, wait_for=before, return_state=False)] = name
        first = next(as_completed(list(running)))
        first.result()
        done[running.pop(first)] = first


def run() -> str:
    """Run the whole DAG, with a Prefect server for the time of the run unless one is configured."""
    params.load()
    with processes.stopped_on_signal():
        with lock.held():
            todo = items.outdated()
        if not todo:
            return f"nothing to do; open {paths.REPORT / 'index.html'}"
        with server.available() as url:
            print(f"pipeline: Prefect UI at {url.removesuffix('/api')}", flush=True)
            pipeline()
    return f"the workspace is up to date; open {paths.REPORT / 'index.html'}"


if __name__ == "__main__":
    command.main("pipeline", run)
