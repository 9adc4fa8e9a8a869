"""A sweep: every combination of a grid's values as a DVC experiment of its own, and all of them compared.

    python -m flows.sweep FILE      a YAML file, as in sweeps/; or: make sweep GRID=FILE

A point runs the whole pipeline in a copy of the workspace (flows/workspaces.py). Points that are finished are kept, so
a sweep that was stopped, or that has grown, goes on where it was.
"""

import argparse
import base64
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed
from pydantic import Field

from flows import artifacts, cancelling, lock, processes, server, workspaces
from flows.workspaces import Base, Copy
from outclass.errors import OutclassError
from stages import command, params, points, settings, sweep_results
from stages.points import Point, Sweep
from stages.results import Metrics

FOLDER = settings.HOME / "sweeps"

Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Place:
    """Where a sweep is at work."""

    base: Base
    folder: Path
    lock: int  # the descriptor: whatever we start holds the lock until it has ended


@task(task_run_name="{point}", cache_policy=NO_CACHE)
def run_point(point: Point, like: Point | None, place: Place) -> None:
    """Run one point to its end, its lines to the terminal and to the UI."""
    logger = get_run_logger()

    def on_line(line: str) -> None:
        _say(f"{point}: {line}")
        logger.info(line)

    folder, logs = (place.folder / kind / point.name for kind in ("copies", "logs"))
    workspaces.run(Copy(place.base, point, like, folder, logs), on_line, [place.lock])


@flow(flow_run_name="sweep {name}")
def sweep(
    name: str,
    grid: dict[str, list[Any]],
    seeds: Sequence[Number] = (),
    repetitions: Sequence[Number] = (),
    folds: Sequence[Number] = (),
    points_at_a_time: Annotated[int, Field(ge=1)] = 2,
) -> None:
    """Run every combination of the grid's values as a DVC experiment, and compare them in one table and one figure.

    Args:
        name: What the sweep is called; its table, figure and logs are kept in .outclass/sweeps/ under this name.
        grid: Parameters and the values that each takes, e.g. {"ensemble.theta": ["difference", "ratio"]}.
        seeds: Values of the parameter seed, each with every combination of the grid. If empty, as in params.yaml.
        repetitions: Repetitions that every point runs. If empty, as in params.yaml.
        folds: Folds that every point runs. If empty, as in params.yaml.
        points_at_a_time: Points that run side by side.
    """
    lists = {"seeds": seeds, "repetitions": repetitions, "folds": folds}
    filled = {field: list(values) for field, values in lists.items() if values}
    asked = params.check(Sweep, {"name": name, "grid": grid, "points_at_a_time": points_at_a_time, **filled}, "sweep")
    every = points.plan(asked)
    folder = FOLDER / asked.name
    with cancelling.cancellable(), held(asked) as descriptor:
        shutil.rmtree(folder / "copies", ignore_errors=True)  # of a sweep that was killed
        base = workspaces.snapshot()
        found = finished(base, every)
        todo = [point for point in every if point.name not in found]
        _say(f"{len(every)} points, {len(found)} of them finished by an earlier run")
        done = [point for point in every if point.name in found]
        failures = run_all(todo, done, asked.points_at_a_time, Place(base, folder, descriptor))
        found |= finished(base, todo)
        if found:
            sweep_results.write(folder, asked.name, every, found)
            publish(folder, asked.name, every, found)
    if failures:
        lines = [f"{point}: {error}" for point, error in failures.items()]
        raise OutclassError("\n".join([f"{len(failures)} of {len(every)} points failed", *lines]))


def held(asked: Sweep) -> Any:
    """Two sweeps of one name would take each other's copies away."""
    return lock.held(FOLDER / asked.name / "lock", f"another sweep named {asked.name} is at work")


def finished(base: Base, every: Iterable[Point]) -> dict[str, Metrics]:
    metrics = {point.name: workspaces.finished(base, point) for point in every}
    return {name: found for name, found in metrics.items() if found}


def run_all(todo: Sequence[Point], done: Sequence[Point], at_a_time: int, place: Place) -> dict[str, str]:
    """Run points side by side, in an order that computes nothing twice; what went wrong with which."""
    waiting, running, done = list(todo), dict[PrefectFuture[None], Point](), list(done)
    at_hand, failures = workspaces.features_at_hand(), dict[str, str]()
    while waiting or running:
        for point in waiting.copy():
            if len(running) < at_a_time and alone(point, running.values(), done, at_hand):
                waiting.remove(point)
                running[run_point.submit(point, nearest(point, done), place, return_state=False)] = point
        future = next(as_completed(list(running)))
        point = running.pop(future)
        if error := _error(future):
            failures[point.name] = error
        else:
            done.append(point)
        _say(f"{point}: {'failed' if error else 'finished'}, {len(waiting) + len(running)} points to go")
    return failures


def alone(point: Point, running: Iterable[Point], done: Iterable[Point], at_hand: str) -> bool:
    """Whether no point under way trains the same networks or makes the same features, unless they are there already."""
    finished = {at_hand, *(key for other in done for key in (other.trainings, other.data))}
    under_way = {key for other in running for key in (other.trainings, other.data)}
    return not {point.trainings, point.data} & (under_way - finished)


def nearest(point: Point, done: Sequence[Point]) -> Point | None:
    """A finished point with the same networks, or else with the same features."""
    alike = [other for other in done if other.data == point.data]
    return next((other for other in alike if other.trainings == point.trainings), alike[0] if alike else None)


def _error(future: "PrefectFuture[None]") -> str:
    """One point that fails does not stop the others; a request to stop does."""
    try:
        future.result()
    except processes.StoppedError:
        raise
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def publish(folder: Path, name: str, every: Sequence[Point], found: dict[str, Metrics]) -> None:
    """The figure and the table, in the UI: apart, because a wide table in a text runs over the page's other column."""
    picture = base64.b64encode((folder / sweep_results.FIGURE).read_bytes()).decode()
    key = artifacts.key(f"sweep {name}")
    create_markdown_artifact(
        f"{sweep_results.progress(every, found)}\n\n![AUC by point](data:image/png;base64,{picture})\n",
        key=key,
        description=f"Sweep {name}: AUC (%) by point",
    )
    rows = sweep_results.short(every, found)
    create_table_artifact(
        rows, key=f"{key}-table", description=f"Sweep {name}: AUC (%) of the main methods, mean ± standard deviation"
    )


def _say(words: str) -> None:
    print(f"sweep: {words}", flush=True)


def run(file: Path) -> str:
    """Run the sweep of a YAML file, with a Prefect server for the time of the run unless one is configured."""
    asked = points.load(file)
    every = points.plan(asked)
    with processes.stopped_on_signal():
        base = workspaces.snapshot()
        folder = FOLDER / asked.name
        if len(found := finished(base, every)) == len(every):
            with held(asked):
                sweep_results.write(folder, asked.name, every, found)
        else:
            with server.available() as url:
                _say(f"Prefect UI at {url.removesuffix('/api')}")
                sweep(**asked.model_dump(exclude_none=True))
    print((folder / sweep_results.MARKDOWN).read_text(), flush=True)
    return f"{len(every)} points; compare them with `dvc exp show`, or in {folder / sweep_results.FIGURE}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="sweep", description=run.__doc__)
    parser.add_argument("file", type=Path)
    sys.exit(command.report("sweep", run, file=parser.parse_args().file))
