"""What DVC, Prefect and process starts add to the computing: seconds a run, seconds an item, share of a long run.

    python -m benchmarks.orchestration          the tiny preset, where computing is next to nothing: layer by layer
    python -m benchmarks.orchestration --long   nine minutes of training, beside a plain script on two processes

Every run has a workspace of its own. Each layer is added to those above it, and run with one fold and with three: the
difference tells the seconds of an item of a fold (the mean of five), the rest is of the run as a whole, with the four
items that every run has. It wants an idle machine.
"""

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import yaml

from flows import ports, server
from tests.flows.conftest import PROJECT, Workspace, make_workspace

PER_RUN = ("download", "embed", "split", "evaluate")
PER_FOLD = ("backbone", "partitions", "ensemble", "pooled", "baselines")
FEW, MANY = [0], [0, 1, 2]
"""Folds that the layers are run with."""
STEPS = 10_000
"""Of the networks in the long runs: with so many, the default preset takes nine minutes of one core to train."""
PATIENCE = 3600.0
ONE_BY_ONE = {"OUTCLASS_SLOTS": "1", "OUTCLASS_ITEMS": "1"}
WITHOUT_PREFECT = """python -c 'from flows.trainings import run_without_prefect as run; run("{stage}", {fold})' #"""

Layer = Callable[[Workspace, str], object]


def plain_script(workspace: Workspace, processes: int) -> str:
    script = str(PROJECT / "benchmarks/plain_script.py")
    return workspace.run("python", script, str(processes), PYTHONPATH=".", timeout=PATIENCE)


# --- layer by layer, where there is little to compute ------------------------------------------------------


def one_process(workspace: Workspace, api: str) -> None:
    plain_script(workspace, 1)


def a_process_an_item(workspace: Workspace, api: str) -> None:
    folds = yaml.safe_load((workspace.root / "params.yaml").read_text())["folds"]
    for stage in ("download", "embed"):
        workspace.python(f"stages.{stage}")
    workspace.python("stages.split", "--repetition", "0")
    for fold in folds:
        for stage in PER_FOLD:
            workspace.python(f"stages.{stage}", "--repetition", "0", "--fold", str(fold))
    workspace.python("stages.evaluate")


def dvc(workspace: Workspace, api: str) -> None:
    change_commands(workspace, lambda stage: f"python -m stages.{stage}")
    workspace.run("dvc", "repro")


def workers(workspace: Workspace, api: str) -> None:
    fold = "${item.repetition}, ${item.fold}"
    change_commands(workspace, lambda stage: WITHOUT_PREFECT.format(stage=stage, fold=fold))
    workspace.run("dvc", "repro", **ONE_BY_ONE)


def change_commands(workspace: Workspace, command: Callable[[str], str]) -> None:
    """Let dvc.yaml start its trainings in another way."""
    path = workspace.root / "dvc.yaml"
    found = re.compile(r"python -m flows\.(backbone|partitions)")
    path.write_text(found.sub(lambda match: command(match[1]), path.read_text()))


def prefect(workspace: Workspace, api: str) -> None:
    workspace.run("dvc", "repro", PREFECT_API_URL=api, **ONE_BY_ONE)


def pipeline(workspace: Workspace, api: str) -> None:
    workspace.python("flows.pipeline", PREFECT_API_URL=api, **ONE_BY_ONE)


def two_items(workspace: Workspace, api: str) -> None:
    workspace.python("flows.pipeline", PREFECT_API_URL=api, OUTCLASS_ITEMS="2")


LAYERS: dict[str, Layer] = {
    "one process does it all": one_process,
    "+ a process for each item": a_process_an_item,
    "+ DVC": dvc,
    "+ a process for each training": workers,
    "+ Prefect flows of trainings": prefect,
    "+ the pipeline flow, an item at a time": pipeline,
    "  two items at a time": two_items,
}


def compare_layers(tries: int) -> None:
    few, many = (len(PER_RUN) + len(folds) * len(PER_FOLD) for folds in (FEW, MANY))
    print(f"{f'tiny preset, median of {tries}, seconds':42}{'a run':>8}{'an item':>9}{f'{many} items':>10}{'added':>8}")
    before = 0.0
    with api_server() as (api, start):
        for name, layer in LAYERS.items():
            short, long = (statistics.median(once(layer, api, folds) for _ in range(tries)) for folds in (FEW, MANY))
            item = (long - short) / (many - few)
            whole = short - len(PER_FOLD) * item
            print(f"{name:42}{whole:8.1f}{item:9.2f}{long:10.1f}{long - before:+8.1f}", flush=True)
            before = long
        plain, flow = nothing_to_do(api)
        with timed() as again, server.started(*ports.free(3)):
            pass
    print(f"\nstart and end of a Prefect server: {start:.1f} s on a new database, {again():.1f} s on one that is there")
    print(f"nothing to do: `dvc repro` {plain:.1f} s, `make repro` {flow:.1f} s")


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Yields a function that tells the seconds, once they are over."""
    started = time.perf_counter()
    ended: list[float] = []
    yield lambda: ended[0] - started
    ended.append(time.perf_counter())


@contextmanager
def api_server() -> Iterator[tuple[str, float]]:
    """A Prefect server for all, in a folder of its own; also yields the seconds that it took to start."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        started = time.perf_counter()
        with server.started(*ports.free(3)) as url:
            yield url, time.perf_counter() - started


@contextmanager
def fresh(preset: str, **values: object) -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder) / "project", preset)
        workspace.set(**values)
        yield workspace


def once(layer: Layer, api: str, folds: list[int]) -> float:
    with fresh("tiny", folds=folds) as workspace, timed() as seconds:
        layer(workspace, api)
    return seconds()


def nothing_to_do(api: str) -> tuple[float, float]:
    with fresh("tiny", folds=MANY) as workspace:
        prefect(workspace, api)
        with timed() as plain:
            workspace.run("dvc", "repro")
        with timed() as flow:
            workspace.python("flows.pipeline")
    return plain(), flow()


# --- a long run --------------------------------------------------------------------------------------------


LONG: dict[str, Callable[[Workspace], str]] = {
    "a plain script, two processes": lambda workspace: plain_script(workspace, 2),
    "`dvc repro`": lambda workspace: workspace.run("dvc", "repro", timeout=PATIENCE),
    "`make repro`": lambda workspace: workspace.python("flows.pipeline", timeout=PATIENCE),
}


def compare_long_runs() -> None:
    print(f"{'default preset, longer trainings, seconds':42}{'wall':>8}{'training':>10}{'overhead':>10}")
    least = 0.0
    for name, run in LONG.items():
        with fresh("glyphs", **{"backbone.flat.steps": STEPS}) as workspace, timed() as seconds:
            output = run(workspace)
        least = least or seconds()
        trained = sum(map(float, re.findall(r"trained in ([0-9.]+) s", output)))
        print(f"{name:42}{seconds():8.0f}{trained or float('nan'):10.0f}{1 - least / seconds():10.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--tries", type=int, default=3, help="of each layer; the median counts")
    asked = parser.parse_args()
    compare_long_runs() if asked.long else compare_layers(asked.tries)


if __name__ == "__main__":
    main()
