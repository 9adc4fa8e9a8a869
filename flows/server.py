"""A Prefect server for the time of a run, with its database under the project."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

from flows import lock, ports, processes
from outclass.errors import OutclassError
from stages.settings import HOME

FOLDER = HOME / "prefect"
PATIENCE = 120.0
"""Seconds that a server may take to answer; a new database alone takes half a minute on a slow disk."""
ADDRESS = FOLDER / "address"
"""Holds the address of the server that ``make ui`` has started, while it runs."""
REPORT_ADDRESS = FOLDER / "report-address"
"""Holds the address at which ``make ui`` serves the report."""
ANNOUNCED = FOLDER / "ui.lock"
"""Held by ``make ui``: as long as it is, the addresses are right."""
IN_USE = FOLDER / "runs.lock"
"""Held by every run of this folder, by all of them together."""
SILENCE = 60.0
"""Seconds for which a server may be silent (restarted, very busy) before it is taken for gone."""
LOOK_AGAIN = 2.0
"""Seconds between two looks whether the server is still there."""


class PortTakenError(OutclassError):
    """Another program was faster at a port."""


@contextmanager
def available() -> Iterator[str]:
    """Use the server that is configured (PREFECT_API_URL or a Prefect profile), or that of ``make ui``, or our own.

    If it goes away in the middle, the process ends with a message.
    """
    configured = get_current_settings().api.url
    with lock.shared(IN_USE):
        if configured:
            check(configured)
            with _watched(configured, _silent(configured)):
                yield configured
        elif url := announced_address():
            with _using(url), _watched(url, _silent(url)):
                yield url
        else:
            with started(*ports.free(3)) as url:
                yield url


def is_running() -> bool:
    """Whether there is a server already that ``available`` would use."""
    return bool(get_current_settings().api.url or announced_address())


@contextmanager
def announced(url: str, report: str) -> Iterator[None]:
    """Let others who work in this folder use the server, and know where the report is served."""
    with lock.held(ANNOUNCED, "the UI of this folder is served already"):
        ADDRESS.write_text(url)
        REPORT_ADDRESS.write_text(report)
        try:
            yield
        finally:
            ADDRESS.unlink(missing_ok=True)
            REPORT_ADDRESS.unlink(missing_ok=True)


def announced_address() -> str | None:
    """The address that ``make ui`` left; if it was killed, somebody else may be at that address by now."""
    url = ADDRESS.read_text() if ADDRESS.exists() and lock.is_held(ANNOUNCED) else ""
    return url if url and _answers(url) else None


def report_address() -> str | None:
    return REPORT_ADDRESS.read_text() if announced_address() and REPORT_ADDRESS.exists() else None


@contextmanager
def started(*candidates: int) -> Iterator[str]:
    """A server of our own, for this process and those that it starts, at the first of some ports that it can have."""
    print("starting a Prefect server ...", flush=True)
    server, url = _start_at_one_of(candidates)
    try:
        with _using(url), _watched(url, lambda: server.poll() is not None):
            yield url
    finally:
        processes.stop(server)


def _start_at_one_of(candidates: Sequence[int]) -> tuple["subprocess.Popen[str]", str]:
    """Seconds pass until it listens: a port that was free may be no longer."""
    *first, last = candidates
    for port in first:
        with suppress(PortTakenError):
            return _start(port)
    return _start(last)


def _start(port: int) -> tuple["subprocess.Popen[str]", str]:
    """A server that answers, and its address."""
    url = f"http://127.0.0.1:{port}/api"
    log = FOLDER / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as output:
        server = processes.start(
            processes.tool("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)),
            {
                "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{FOLDER.absolute()}/prefect.db",
                "PREFECT_SERVER_UI_API_URL": url,  # else its pages ask for their data at Prefect's usual port
                "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
                "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",  # its log is a file
            },
            output,
        )
    try:
        _wait(url, server, log, port)
    except BaseException:
        processes.stop(server)
        raise
    return server, url


def check(url: str) -> None:
    if not _answers(url):
        raise OutclassError(
            f"PREFECT_API_URL is {url}, but no Prefect server answers there: "
            f"start it, or unset PREFECT_API_URL to have one started for the run"
        )
    with get_client(sync_client=True) as client:
        try:
            client.api_version()
        except PrefectHTTPStatusError as error:  # its health is no secret, all else may be
            if error.response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise OutclassError(
                    f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING "
                    f"(or PREFECT_API_KEY) to what its owner says"
                ) from None
            raise


@contextmanager
def _watched(url: str, gone: Callable[[], bool]) -> Iterator[None]:
    """End this process if the server is gone.

    Not by an exception: Prefect's engine, and its threads that send logs and events, would each try for a minute to
    tell the server about it, and then show a trace.
    """
    left = threading.Event()
    logging.raiseExceptions = False  # logs that cannot reach it need not say so in the terminal

    def watch() -> None:
        while not left.wait(LOOK_AGAIN):
            if gone() and not left.is_set():
                _end_without(url)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        left.set()


def _silent(url: str) -> Callable[[], bool]:
    """Whether a server that we have not started has not answered for too long."""
    heard = time.monotonic()

    def silent() -> bool:
        nonlocal heard
        if _answers(url):
            heard = time.monotonic()
        return time.monotonic() - heard > SILENCE

    return silent


def _end_without(url: str) -> None:
    processes.stop_all()
    processes.wait_for_all()
    print(
        f"error: the Prefect server at {url} no longer answers; what is finished is kept: run again to go on",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


@contextmanager
def _using(url: str) -> Iterator[None]:
    with temporary_settings({PREFECT_API_URL: url}), processes.in_environment({"PREFECT_API_URL": url}):
        try:
            yield
        finally:
            _deliver()


def _deliver() -> None:
    """What Prefect still has to send must arrive before the server is gone: at exit it would try for minutes."""
    for service in (APILogWorker, EventsWorker):
        service.drain_all(timeout=10)


def _wait(url: str, server: "subprocess.Popen[str]", log: Path, port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (_answers(url) and _listens(server.pid, port)):  # somebody else may have been faster at that port
        if server.poll() is not None:
            if not ports.is_free(port):
                raise PortTakenError(f"port {port} was taken while the Prefect server started; its log is {log}")
            raise OutclassError(f"the Prefect server ended with code {server.returncode}; its log is {log}")
        if time.monotonic() > deadline:
            raise OutclassError(f"the Prefect server did not answer within {PATIENCE:.0f} s; its log is {log}")
        time.sleep(0.2)


def _listens(pid: int, port: int) -> bool:
    """Whether a process, or one that it has started, listens at a port."""
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        at = {c.laddr.port for one in family for c in one.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    except psutil.Error:
        return False
    return port in at


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False
