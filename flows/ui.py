"""The Prefect UI on the project's own database, with the pipeline ready to be started and scheduled from it."""

import socket
from contextlib import suppress

from flows import processes, server
from flows.pipeline import pipeline
from stages import command

USUAL_PORT = 4200


def port() -> int:
    """Prefect's usual port if it is free, so that a bookmark keeps working."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return server.free_port()
    return USUAL_PORT


def run() -> str:
    """Serve until stopped with Ctrl-C."""
    with processes.stopped_on_signal(), server.started(port()) as url, server.announced(url):
        print(f"ui: {url.removesuffix('/api')} (Ctrl-C stops it)", flush=True)
        with suppress(KeyboardInterrupt):
            pipeline.serve(name="outclass", print_starting_message=False)
    return "stopped"


if __name__ == "__main__":
    command.main("ui", run)
