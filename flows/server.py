"""A Prefect server for the time of a run, with its database under the project."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

from flows import processes
from outclass.errors import OutclassError
from stages.settings import HOME

FOLDER = HOME / "prefect"
PATIENCE = 120.0
"""Seconds that a server may take to answer; a new database alone takes half a minute on a slow disk."""
ADDRESS = FOLDER / "address"
"""Holds the address of the server that ``make ui`` has started, while it runs."""


@contextmanager
def available() -> Iterator[str]:
    """Use the server that is configured (PREFECT_API_URL or a Prefect profile), or that of ``make ui``, or our own."""
    configured = get_current_settings().api.url
    if configured:
        check(configured)
        yield configured
    elif url := _announced():
        with _using(url):
            yield url
    else:
        with started(free_port()) as url:
            yield url


@contextmanager
def announced(url: str) -> Iterator[None]:
    """Let others who work in this folder use the server."""
    ADDRESS.write_text(url)
    try:
        yield
    finally:
        ADDRESS.unlink(missing_ok=True)


def _announced() -> str | None:
    """The address that ``make ui`` left; if it was killed, nobody answers there."""
    url = ADDRESS.read_text() if ADDRESS.exists() else ""
    return url if url and _answers(url) else None


@contextmanager
def started(port: int) -> Iterator[str]:
    """A server of our own, for this process and those that it starts."""
    url = f"http://127.0.0.1:{port}/api"
    log = FOLDER / "server.log"
    print("starting a Prefect server ...", flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        server = processes.start(
            processes.tool("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)),
            {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{FOLDER.absolute()}/prefect.db"},
            output,
        )
    try:
        _wait(url, server, log)
        with _using(url):
            yield url
    finally:
        processes.stop(server)


def check(url: str) -> None:
    if not _answers(url):
        raise OutclassError(
            f"PREFECT_API_URL is {url}, but no Prefect server answers there: "
            f"start it, or unset PREFECT_API_URL to have one started for the run"
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _using(url: str) -> Iterator[None]:
    with temporary_settings({PREFECT_API_URL: url}), _in_environment("PREFECT_API_URL", url):
        try:
            yield
        finally:
            _deliver()


def _deliver() -> None:
    """What Prefect still has to send must arrive before the server is gone: at exit it would try for minutes."""
    for service in (APILogWorker, EventsWorker):
        service.drain_all(timeout=10)


def _wait(url: str, server: "subprocess.Popen[str]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _answers(url):
        if server.poll() is not None:
            raise OutclassError(f"the Prefect server ended with code {server.returncode}; its log is {log}")
        if time.monotonic() > deadline:
            raise OutclassError(f"the Prefect server did not answer within {PATIENCE:.0f} s; its log is {log}")
        time.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def _in_environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
