"""The whole DAG as one Prefect flow: DVC decides what must run, Prefect when, items without ties side by side."""

import time
from collections import deque
from pathlib import Path

import networkx
from dvc.repo import Repo
from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.futures import PrefectFuture, as_completed

from flows import processes, server
from outclass.errors import OutclassError
from stages import command, params, paths, settings

LOGS = settings.HOME / "logs"
LOCKED = ("Unable to acquire lock", "is busy")
"""DVC's words for a lock held by another item: trying again mends it."""
LOCK_PATIENCE = 120.0
"""Seconds for which a lock may be held before we give up."""


def outdated() -> dict[str, list[str]]:
    """The items to run, in an order that honours their ties: name -> names of the items that it waits for."""
    with Repo(".") as repo:
        graph = networkx.relabel_nodes(repo.index.graph, lambda stage: stage.addressing)
        changed = set(repo.status())
    after = networkx.reverse(graph)  # in DVC's graph an item points to what it depends on
    wanted = changed.union(*(networkx.descendants(after, name) for name in changed))
    order = [name for level in networkx.topological_generations(after) for name in sorted(level)]
    return {name: [other for other in graph.successors(name) if other in wanted] for name in order if name in wanted}


@task(task_run_name="{name}")
def reproduce(name: str) -> None:
    """Run one item and nothing else, through DVC, so that its lock file knows of it."""
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        code, last_words = _dvc_repro(name)
        if code == 0:
            return
        if not any(word in line for line in last_words for word in LOCKED) or time.monotonic() > deadline:
            raise OutclassError("\n".join(last_words))
        time.sleep(0.5)


def _dvc_repro(name: str) -> tuple[int, list[str]]:
    """Everything goes to the item's log, the stage's own lines to the terminal as well."""
    LOGS.mkdir(parents=True, exist_ok=True)
    last_words: deque[str] = deque(maxlen=15)
    with (LOGS / f"{name}.log").open("w") as log:

        def on_line(line: str) -> None:
            print(line, file=log, flush=True)
            last_words.append(line)
            if line.startswith(f"{name}:"):
                print(line, flush=True)

        code = processes.run(processes.tool("dvc", "repro", "--single-item", name), on_line)
    return code, list(last_words)


@task
def prove() -> None:
    """A plain ``dvc repro`` must find nothing left to do."""
    lines: list[str] = []
    code = processes.run(processes.tool("dvc", "repro"), lines.append)
    if code or any(line.startswith("Running stage") for line in lines):
        raise OutclassError("`dvc repro` found more to do after all items had run:\n" + "\n".join(lines))


def run_name() -> str:
    chosen = params.load()
    return f"{chosen.download.source}, repetitions {chosen.repetitions}, folds {chosen.folds}"


@flow(flow_run_name=run_name)
def pipeline() -> None:
    """Bring the workspace up to date with params.yaml and the code."""
    items = outdated()
    print(f"pipeline: {len(items)} items to run", flush=True)
    run_all(items, settings.load().items)
    prove()
    _publish(paths.REPORT / "tables.md")


def run_all(items: dict[str, list[str]], at_a_time: int) -> None:
    """Run each item as soon as those that it waits for are done; after a failure, start no other."""
    waiting, running = dict(items), dict[PrefectFuture[None], str]()
    done: dict[str, PrefectFuture[None]] = {}
    while waiting or running:
        ready = [name for name, needs in waiting.items() if all(other in done for other in needs)]
        for name in ready[: at_a_time - len(running)]:
            before = [done[other] for other in waiting.pop(name)]  # done already: it only draws the ties in the UI
            running[reproduce.submit(name, wait_for=before, return_state=False)] = name
        first = next(as_completed(list(running)))
        name = running.pop(first)
        _finish(name, first)
        done[name] = first


def _finish(name: str, future: "PrefectFuture[None]") -> None:
    try:
        future.result()
    except processes.StoppedError:
        raise
    except Exception as error:
        raise OutclassError(f"{name} failed; its log is {LOGS / f'{name}.log'}\n{error}") from error


def _publish(results: Path) -> None:
    create_markdown_artifact(results.read_text(), key="results", description="The paper's tables, and ours")


def run() -> str:
    """Run the whole DAG, with a Prefect server for the time of the run unless one is configured."""
    params.load()
    if not outdated():
        return f"nothing to do; open {paths.REPORT / 'index.html'}"
    with processes.stopped_on_signal(), server.available() as url:
        print(f"pipeline: Prefect UI at {url.removesuffix('/api')}", flush=True)
        pipeline()
    return f"the workspace is up to date; open {paths.REPORT / 'index.html'}"


if __name__ == "__main__":
    command.main("pipeline", run)
