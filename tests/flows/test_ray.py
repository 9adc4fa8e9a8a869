"""Trainings on a real Ray cluster of two nodes: spread, the same bytes as here, and alive when a node is not."""

import os
import re
import signal
import sys
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from flows import cluster, ports
from flows import trainings as trainings_flow
from flows.cluster import Node, choose_device
from outclass.errors import OutclassError
from tests.flows.ray_cluster import two_nodes

FOLD = ("--repetition", "0", "--fold", "0")
LONG = {"backbone.flat.steps": 6000, "partitions.chunk": 1}
"""Four trainings, long enough to be seen side by side and to be killed in the middle."""

WHERE_THE_CODE_IS = """
import os

import ray
from flows import cluster

@ray.remote
def files():
    import flows, outclass, stages

    return flows.__file__, outclass.__file__, stages.__file__

with cluster.connected():
    for package in ("flows", "outclass", "stages"):  # on this machine, nodes would find these first
        os.rename(package, f"no-{package}")
    print(ray.get(files.remote()))
"""

A_NODE_THAT_FAILS = """
import ray
from flows import cluster
from outclass.errors import OutclassError

@ray.remote
def fail():
    raise ImportError("No module named 'httpx'")

with cluster.connected():
    node = cluster._living()[0]
    try:
        cluster._answer(node, fail.remote())
    except OutclassError as error:
        print(error)
    print("of a node that is gone:", cluster._answer({**node, "NodeID": "gone"}, fail.remote()))
"""


@pytest.fixture(scope="module")
def ray_cluster():
    with two_nodes() as started:
        yield started


def trainings(api: str, newest_run_of: str = "partitions") -> list[dict]:
    """The task runs of the newest flow run of a name."""
    runs = httpx.post(
        f"{api}/flow_runs/filter",
        json={"flows": {"name": {"any_": [newest_run_of]}}, "sort": "START_TIME_DESC", "limit": 1},
    ).json()
    return httpx.post(f"{api}/task_runs/filter", json={"flow_runs": {"id": {"any_": [runs[0]["id"]]}}}).json()


def most_at_a_time(runs: list[dict]) -> int:
    spans = [(datetime.fromisoformat(run["start_time"]), datetime.fromisoformat(run["end_time"])) for run in runs]
    return max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)


def nodes_in(output: str) -> set[str]:
    return {line.split(" in node ")[1].split()[0] for line in output.splitlines() if " in node " in line}


@pytest.mark.slow
class TestCluster:
    def test_gives_the_bytes_of_this_machine_from_both_nodes(self, prepared, reference, api, ray_cluster):
        settings = {**ray_cluster.settings, "PREFECT_API_URL": api, "OUTCLASS_CACHE": "other-cache"}
        assert "trained in" in prepared.python("flows.backbone", *FOLD, **settings)
        output = prepared.python("flows.partitions", *FOLD, **settings)
        assert output.count("trained in") == 2
        assert len(nodes_in(output)) == 2  # a GPU each, and one training a GPU
        for stage in ("backbone", "partitions"):
            assert prepared.digests(f"runs/{stage}") == reference.digests(f"runs/{stage}")
        again = prepared.python("flows.partitions", *FOLD, **settings)
        assert again.count("kept from an earlier run") == 2
        assert prepared.leftovers() == []

    def test_nodes_run_the_code_that_was_sent_to_them(self, prepared, ray_cluster):
        output = prepared.run("python", "-c", WHERE_THE_CODE_IS, **ray_cluster.settings)
        for package in ("outclass", "stages", "flows"):
            assert re.search(rf"runtime_resources/py_modules_files/\w+/{package}/__init__.py", output)

    def test_a_node_that_cannot_run_the_code_is_named(self, prepared, ray_cluster):
        output = prepared.run("python", "-c", A_NODE_THAT_FAILS, **ray_cluster.settings)
        assert re.search(r"Ray node \S+ cannot run our code \(ImportError: No module named 'httpx'\): install", output)
        assert "of a node that is gone: None" in output

    @pytest.mark.parametrize(("slots_per_gpu", "allowed"), [(1, {1, 2}), (2, {3, 4})])
    def test_shares_of_gpus_are_honoured(self, prepared, api, ray_cluster, slots_per_gpu, allowed):
        prepared.set(**LONG)
        shared = {"OUTCLASS_SLOTS_PER_GPU": str(slots_per_gpu), "PREFECT_API_URL": api}
        output = prepared.python("flows.partitions", *FOLD, **ray_cluster.settings, **shared)
        assert len(nodes_in(output)) == 2
        runs = trainings(api)
        assert {run["name"] for run in runs} == {f"r0 f0 partitions {number}-{number}" for number in range(4)}
        assert most_at_a_time(runs) in allowed

    def test_an_error_that_the_user_can_mend_names_the_partitions(self, prepared, api, ray_cluster):
        prepared.set(**{"backbone.flat.learning_rate": 1e30})
        output = prepared.python("flows.partitions", *FOLD, check=False, PREFECT_API_URL=api, **ray_cluster.settings)
        assert "partitions@0-0: error: r0 f0 partitions " in output
        assert "training diverged" in output
        assert "Traceback" not in output
        ends = [run["state"] for run in trainings(api)]
        assert any(end["type"] == "FAILED" and "training diverged" in end["message"] for end in ends)
        assert {end["type"] for end in ends} <= {"FAILED", "CRASHED"}

    def test_a_wrong_token_is_named(self, prepared, api, ray_cluster):
        settings = {**ray_cluster.settings, "RAY_AUTH_TOKEN": "0" * 32, "PREFECT_API_URL": api}
        output = prepared.python("flows.partitions", *FOLD, check=False, **settings)
        assert f"OUTCLASS_RAY_ADDRESS={ray_cluster.address}: it answers, but lets nobody in" in output
        assert "RAY_AUTH_TOKEN" in output
        assert "Traceback" not in output

    def test_a_cluster_that_is_not_there_is_named(self, prepared, api):
        address = f"127.0.0.1:{ports.free()[0]}"
        settings = {"OUTCLASS_RUNNER": "ray", "OUTCLASS_RAY_ADDRESS": address, "PREFECT_API_URL": api}
        output = prepared.python("flows.partitions", *FOLD, check=False, **settings)
        assert f"OUTCLASS_RAY_ADDRESS={address}: nothing answers there" in output
        assert "Traceback" not in output


@pytest.mark.slow
def test_a_run_survives_its_node_and_ends_with_its_cluster(prepared, api, wait_until):
    prepared.set(**LONG)
    with two_nodes() as started:
        settings = {**started.settings, "PREFECT_API_URL": api}
        process = prepared.start("python", "-m", "flows.partitions", *FOLD, **settings)
        head, other = started.nodes
        wait_until(lambda: _trains_at(other), 120)
        other.kill()
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
        survived = prepared.digests("runs/partitions/r0-f0")

        settings["OUTCLASS_CACHE"] = "other-cache"
        process = prepared.start("python", "-m", "flows.partitions", *FOLD, **settings)
        finished = prepared.root / "other-cache"
        wait_until(lambda: finished.exists() and any(p.suffix != ".part" for p in finished.iterdir()), 240)
        head.kill()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "no longer answers" in output
        states = {run["state_type"] for run in trainings(api)}
        assert "COMPLETED" in states <= {"COMPLETED", "CRASHED"}  # none seems to run still
        assert "Traceback" not in output
        assert prepared.leftovers() == []

    kept = len([path for path in finished.iterdir() if path.suffix != ".part"])
    output = prepared.python("flows.partitions", *FOLD, PREFECT_API_URL=api, OUTCLASS_CACHE="other-cache")
    assert output.count("kept from an earlier run") == kept >= 1
    assert prepared.digests("runs/partitions/r0-f0") == survived


@pytest.mark.slow
def test_a_run_ends_when_no_node_is_left_that_could_train(prepared, api, wait_until):
    """Ray would wait for ever for a node with a GPU."""
    prepared.set(**LONG)
    with two_nodes(gpus_of_head=0) as started:
        settings = {**started.settings, "PREFECT_API_URL": api}
        process = prepared.start("python", "-m", "flows.partitions", *FOLD, **settings)
        wait_until(lambda: _trains_at(started.nodes[1]), 120)
        started.nodes[1].kill()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "no living node of the Ray cluster has the one CPU and 1 of a GPU that a training asks for" in output
        assert "what is finished is kept: start what is missing again, then run again" in output
        assert "Traceback" not in output
        assert {run["state_type"] for run in trainings(api)} <= {"COMPLETED", "CRASHED"}
        # Without the GPUs, it is a cluster of CPUs: a run that starts now is one of those.
        assert "trained in" in prepared.python("flows.partitions", *FOLD, **settings)


def _trains_at(node) -> bool:
    """Whether a node is at a training: Ray names a process after what it does."""
    names = []
    for pid in node.processes():
        try:
            names.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return any(name.startswith("ray::train_on_node") for name in names)


@pytest.mark.slow
def test_a_prefect_api_that_other_machines_cannot_reach_is_refused(prepared, api):
    with two_nodes(second_address="127.0.0.2") as started:
        output = prepared.python("flows.partitions", *FOLD, check=False, PREFECT_API_URL=api, **started.settings)
    assert f"the Prefect API is at {api}, which is another place on each of the cluster's machines" in output
    assert "set PREFECT_API_URL to its address" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_stopping_leaves_the_cluster_idle(prepared, api, ray_cluster, wait_until):
    prepared.set(**LONG)
    process = prepared.start("python", "-m", "flows.partitions", *FOLD, PREFECT_API_URL=api, **ray_cluster.settings)
    wait_until(lambda: all(map(_trains_at, ray_cluster.nodes)), 120)
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in output
    wait_until(lambda: not any(map(_trains_at, ray_cluster.nodes)), 60)


def test_a_missing_ray_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flows.ray_runner", None)  # what an import then says is what it says without Ray
    monkeypatch.setattr(trainings_flow, "runs_on_cluster", lambda: True)
    with pytest.raises(OutclassError, match=r"OUTCLASS_RUNNER=ray, but Ray cannot be loaded here .*pip install"):
        trainings_flow.opened_runner("http://127.0.0.1:4200/api")


# What is made of the nodes' answers


def node(address: str = "10.0.0.1", gpus: float = 1.0, sees_gpu: bool = True, **versions: str) -> Node:
    return Node(address, gpus, sees_gpu, {**cluster._versions(), **versions}, "")


@pytest.mark.parametrize(
    ("asked", "nodes", "device"),
    [
        ("auto", [node(gpus=0, sees_gpu=False)], "cpu"),
        ("auto", [node(), node(gpus=0, sees_gpu=False)], "cuda"),
        ("auto", [node(sees_gpu=False)], "cpu"),
        ("cpu", [node()], "cpu"),
        ("cuda", [node(gpus=4)], "cuda"),
    ],
)
def test_one_kind_of_device_for_a_run(asked, nodes, device):
    assert choose_device(asked, nodes) == device


@pytest.mark.parametrize(
    ("asked", "nodes", "message"),
    [
        ("cuda", [node(gpus=0, sees_gpu=False)], "no node of the Ray cluster declares a GPU"),
        ("cuda", [node(sees_gpu=False)], r"Ray nodes 10\.0\.0\.1 declare GPUs, but torch sees none"),
        ("auto", [node(), node("10.0.0.2", sees_gpu=False)], r"Ray nodes 10\.0\.0\.2 declare GPUs"),
    ],
)
def test_nodes_without_the_gpus_that_they_declare_are_refused(asked, nodes, message):
    with pytest.raises(OutclassError, match=message):
        choose_device(asked, nodes)


def test_every_node_with_other_versions_is_named():
    nodes = [node(), node("10.0.0.2", torch="1.0"), node("10.0.0.3", pandas="none")]
    with pytest.raises(OutclassError) as caught:
        cluster._refuse_unfit(nodes, "http://10.0.0.9:4200/api")
    assert "node 10.0.0.2 has torch 1.0" in str(caught.value)
    assert "node 10.0.0.3 has pandas none" in str(caught.value)
    assert "10.0.0.1" not in str(caught.value)


def test_a_node_that_cannot_reach_the_api_is_named():
    deaf = Node("10.0.0.2", 0, False, cluster._versions(), "Connection refused")
    with pytest.raises(OutclassError, match=r"node 10\.0\.0\.2 cannot reach the Prefect API at http://10"):
        cluster._refuse_unfit([node(), deaf], "http://10.0.0.9:4200/api")


def test_a_node_tells_what_it_has_and_whether_it_reaches_the_api():
    here = cluster.describe("10.0.0.1", 0.0, f"http://127.0.0.1:{ports.free()[0]}/api")
    assert here.versions["torch"].startswith("2.")
    assert here.api_error
    assert not here.sees_gpu


@pytest.mark.parametrize(("addresses", "refused"), [({"10.0.0.1"}, False), ({"10.0.0.1", "10.0.0.2"}, True)])
@pytest.mark.parametrize("api", ["http://127.0.0.1:4200/api", "http://localhost:4200/api", "http://[::1]:4200/api"])
def test_loopback_is_refused_on_several_machines_only(api, addresses, refused):
    if refused:
        with pytest.raises(OutclassError, match="PREFECT_API_URL"):
            cluster._refuse_loopback(api, addresses)
    else:
        cluster._refuse_loopback(api, addresses)
