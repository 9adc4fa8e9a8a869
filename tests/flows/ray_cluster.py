"""A real Ray cluster of two nodes on this machine, with declared GPUs, that ends with the tests."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows import ports
from flows.cluster import unreachable
from tests.flows.conftest import BIN

MARK = "OUTCLASS_TEST_NODE"
"""A variable that all processes of a node inherit: they are found by it."""


@dataclass
class Node:
    """One `ray start`, and all that it has started."""

    process: "subprocess.Popen[bytes]"
    mark: str

    def processes(self) -> list[int]:
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def kill(self) -> None:
        """As a machine that loses its power."""
        deadline = time.monotonic() + 30
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if self.process.pid in left:
                self.process.wait(10)
            time.sleep(0.1)
        assert not self.processes()


@dataclass
class Cluster:
    address: str
    token: str
    folder: Path
    nodes: list[Node] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """What a run needs to use it."""
        return {
            **{"OUTCLASS_RUNNER": "ray", "OUTCLASS_RAY_ADDRESS": self.address},
            **{"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token},
        }

    def start(self, *arguments: str, agent_port: int, gpus: int) -> Node:
        mark = secrets.token_hex(8)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OUTCLASS_", "RAY_"))}
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, MARK: mark}
        command = [
            *(str(BIN / "ray"), "start", "--block", "--disable-usage-stats", *arguments),
            *("--num-cpus=2", f"--num-gpus={gpus}", "--object-store-memory=80000000"),
            f"--dashboard-agent-listen-port={agent_port}",
        ]
        with (self.folder / f"{mark}.log").open("wb") as log:
            started = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        node = Node(started, mark)
        self.nodes.append(node)
        return node

    def log(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))


@contextmanager
def two_nodes(second_address: str | None = None, gpus_of_head: int = 1) -> Iterator[Cluster]:
    """A head with two CPUs and one declared GPU, and a second node alike (on another address, if one is given)."""
    folder = Path(tempfile.mkdtemp(prefix="oc-ray-", dir="/tmp"))  # Ray's sockets need a short path
    port, client_port, agent_port, other_agent_port = ports.free(4)
    cluster = Cluster(f"127.0.0.1:{port}", secrets.token_hex(16), folder)
    try:
        head = [
            *("--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={client_port}"),
            *(f"--temp-dir={folder / 'ray'}", "--include-dashboard=false"),
        ]
        cluster.start(*head, agent_port=agent_port, gpus=gpus_of_head)
        _wait_for(lambda: not unreachable(cluster.address, 1.0), cluster)
        other = [f"--node-ip-address={second_address}"] if second_address else []
        cluster.start(f"--address={cluster.address}", *other, agent_port=other_agent_port, gpus=1)
        _wait_for(lambda: cluster.log().count("Ray runtime started") == 2, cluster)
        yield cluster
    finally:
        for node in reversed(cluster.nodes):
            node.process.terminate()
            node.process.wait(30)
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(condition, cluster: Cluster) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, cluster.log()
        assert all(node.process.poll() is None for node in cluster.nodes), cluster.log()
        time.sleep(0.2)
