"""The Prefect UI on the project's own database, with all of prefect.yaml ready to be started and scheduled from it."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleUpdate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectAlreadyExists
from prefect.states import Cancelling, Crashed
from prefect.workers.process import ProcessWorker

from flows import processes, server
from outclass.errors import OutclassError
from stages import command, paths, settings

POOL = "outclass"
"""The work pool that prefect.yaml names."""
USUAL_PORT = 4200
CANCELLING = 30.0
"""Seconds that runs have to end when the UI is stopped."""


def port() -> int:
    """As asked for; else Prefect's usual one if it is free, so that a bookmark keeps working."""
    asked = settings.load().port
    if asked and not is_free(asked):
        raise OutclassError(
            f"OUTCLASS_PORT={asked}: the port is in use; stop what uses it, or choose another port, "
            f"or unset OUTCLASS_PORT to have a free one taken"
        )
    return asked or free_port(USUAL_PORT)


def free_port(usual: int) -> int:
    return usual if is_free(usual) else server.free_port()


def is_free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True


class _Report(SimpleHTTPRequestHandler):
    """The files of the report, without a line in the terminal for each."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def report_served(number: int) -> Iterator[str]:
    """Serve the folder of the report, and nothing else, to browsers on this machine."""
    handler = partial(_Report, directory=str(paths.REPORT.absolute()))
    with ThreadingHTTPServer(("127.0.0.1", number), handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{pages.server_port}"
        finally:
            pages.shutdown()


def create_pool(client: SyncPrefectClient) -> None:
    template = ProcessWorker.get_default_base_job_template()
    with suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=POOL, type=ProcessWorker.type, base_job_template=template))


def deploy(client: SyncPrefectClient) -> None:
    """Deploy prefect.yaml; schedules that were switched on or added in the UI stay."""
    before = {str(found.id): found.schedules for found in client.read_deployments()}
    lines: list[str] = []
    # PWD is what prefect.yaml asks for, and only a shell keeps it up to date.
    if processes.run(
        processes.tool("prefect", "--no-prompt", "deploy", "--all"), lines.append, {"PWD": str(Path.cwd())}
    ):
        raise OutclassError("prefect.yaml cannot be deployed:\n" + "\n".join(lines))
    for found in client.read_deployments():
        earlier = before.get(str(found.id), [])
        active = {schedule.slug: schedule.active for schedule in earlier}
        kept = [s.model_copy(update={"active": active.get(s.slug, s.active)}) for s in found.schedules]
        kept += [schedule for schedule in earlier if not schedule.slug]
        if kept != found.schedules:
            fields = {"schedule", "active", "parameters", "slug"}
            schedules = [DeploymentScheduleUpdate.model_validate(s.model_dump(include=fields)) for s in kept]
            client.update_deployment(found.id, DeploymentUpdate(schedules=schedules))


def active_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Flow runs that the worker has begun."""
    states = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    return client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states))),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL])),
    )


def forget_runs(client: SyncPrefectClient) -> None:
    """Runs of a UI that was killed are over, but nobody has said so: the next would wait for them."""
    for run in active_runs(client):
        client.set_flow_run_state(run.id, Crashed(message="`make ui` was killed during this run"), force=True)


def cancel_runs(client: SyncPrefectClient) -> None:
    """The worker itself would wait for its runs to finish."""
    for run in active_runs(client):
        client.set_flow_run_state(run.id, Cancelling(message="`make ui` was stopped"), force=True)
    deadline = time.monotonic() + CANCELLING
    while active_runs(client) and time.monotonic() < deadline:
        time.sleep(0.5)


@contextmanager
def working() -> Iterator["subprocess.Popen[str]"]:
    """A worker that runs what is started in the UI."""
    with (server.FOLDER / "worker.log").open("a") as log:
        worker = processes.start(processes.tool("prefect", "worker", "start", "--pool", POOL), None, log)
    try:
        yield worker
    finally:
        processes.stop(worker)


def serve_until_stopped(worker: "subprocess.Popen[str]") -> None:
    try:
        code = worker.wait()
    except KeyboardInterrupt:
        return
    raise OutclassError(f"the Prefect worker ended with code {code}; its log is {server.FOLDER / 'worker.log'}")


def run() -> str:
    """Serve until stopped with Ctrl-C."""
    if url := server.announced_address():
        raise OutclassError(f"the UI of this folder is served already, at {url.removesuffix('/api')}: open it there")
    with processes.stopped_on_signal(), server.started(port()) as url, get_client(sync_client=True) as client:
        create_pool(client)
        forget_runs(client)
        deploy(client)
        with report_served(free_port(USUAL_PORT + 1)) as report, server.announced(url, report), working() as worker:
            print(f"ui: {url.removesuffix('/api')} (Ctrl-C stops it)", flush=True)
            print(f"ui: the report, once there is one, at {report}/index.html", flush=True)
            serve_until_stopped(worker)
            cancel_runs(client)
    return "stopped"


if __name__ == "__main__":
    command.main("ui", run)
