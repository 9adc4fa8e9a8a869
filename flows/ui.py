"""The Prefect UI on the project's own database, with all of prefect.yaml ready to be started and scheduled from it."""

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
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import DeploymentSchedule, FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectAlreadyExists
from prefect.states import Cancelling, Crashed
from prefect.workers.process import ProcessWorker

from flows import lock, ports, processes, server
from outclass.errors import OutclassError
from stages import command, paths, settings

POOL = "outclass"
"""The work pool that prefect.yaml names."""
USUAL_PORT = 4200
REPORT_PORT = 4201
LOGGING = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}
"""Of the worker, whose log is a file."""
CANCELLING = 30.0
"""Seconds that runs have to end when the UI is stopped."""


def candidates() -> list[int]:
    """Ports for the server: the one asked for; else Prefect's usual one, so that a bookmark keeps working, or any."""
    asked = settings.load().port
    if not asked:
        return [*([USUAL_PORT] if ports.is_free(USUAL_PORT) else []), *ports.free(3)]
    if not ports.is_free(asked):
        raise OutclassError(
            f"OUTCLASS_PORT={asked}: the port is in use; stop what uses it, or choose another port, "
            f"or unset OUTCLASS_PORT to have a free one taken"
        )
    return [asked]


class _Report(SimpleHTTPRequestHandler):
    """The files of the report, without a line in the terminal for each."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def report_served() -> Iterator[str]:
    """Serve the folder of the report, and nothing else, to browsers on this machine."""
    handler = partial(_Report, directory=str(paths.REPORT.absolute()))
    try:
        pages = ThreadingHTTPServer(("127.0.0.1", REPORT_PORT), handler)
    except OSError:  # in use: any other will do
        pages = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with pages:
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
    """Deploy prefect.yaml; schedules that are there already stay as they were made in the UI."""
    before = {found.id: found.schedules for found in client.read_deployments()}
    lines: list[str] = []
    # PWD is what prefect.yaml asks for, and only a shell keeps it up to date.
    if processes.run(
        processes.tool("prefect", "--no-prompt", "deploy", "--all"), lines.append, {"PWD": str(Path.cwd())}
    ):
        raise OutclassError("prefect.yaml cannot be deployed:\n" + "\n".join(lines))
    for found in client.read_deployments():
        if earlier := before.get(found.id):
            restore(client, found, earlier)


def restore(client: SyncPrefectClient, deployment: DeploymentResponse, earlier: list[DeploymentSchedule]) -> None:
    """Deploying has put the schedules of prefect.yaml in place of all others: take the earlier ones back."""
    slugs = {schedule.slug for schedule in earlier}
    for schedule in deployment.schedules:
        if schedule.slug in slugs:
            client.delete_deployment_schedule(deployment.id, schedule.id)
    kept = [schedule.model_dump(include=set(DeploymentScheduleCreate.model_fields)) for schedule in earlier]
    client.create_deployment_schedules(deployment.id, [DeploymentScheduleCreate.model_validate(s) for s in kept])


def active_runs(client: SyncPrefectClient, of_worker: bool = True) -> list[FlowRun]:
    """Flow runs that have begun: those of the worker, or all."""
    states = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    return client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states))),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL])) if of_worker else None,
    )


def forget_runs(client: SyncPrefectClient) -> None:
    """Runs that were killed are over, but nobody has said so; of the worker's, the next would wait for their end."""
    for run in active_runs(client, of_worker=lock.is_held(server.IN_USE)):
        client.set_flow_run_state(run.id, Crashed(message="it was killed, or `make ui` during it"), force=True)


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
        worker = processes.start(processes.tool("prefect", "worker", "start", "--pool", POOL), LOGGING, log)
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
    with processes.stopped_on_signal(), server.started(*candidates()) as url, get_client(sync_client=True) as client:
        create_pool(client)
        forget_runs(client)
        deploy(client)
        with report_served() as report, server.announced(url, report), working() as worker:
            print(f"ui: {url.removesuffix('/api')} (Ctrl-C stops it)", flush=True)
            print(f"ui: the report, once there is one, at {report}/index.html", flush=True)
            serve_until_stopped(worker)
            cancel_runs(client)
    return "stopped"


if __name__ == "__main__":
    command.main("ui", run)
