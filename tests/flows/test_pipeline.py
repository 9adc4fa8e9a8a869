"""The whole DAG as one flow, with a Prefect server of its own."""

import os
import re
import signal

import pytest

from flows import items

pytestmark = pytest.mark.slow


def test_from_scratch_it_gives_the_bytes_of_a_plain_dvc_repro_and_leaves_nothing_running(workspace, reference):
    output = workspace.python("flows.pipeline", OUTCLASS_SLOTS="2")
    assert "pipeline: 14 items to run" in output
    assert "evaluate: report/index.html" in output
    assert "Running stage" not in output  # DVC's own chatter stays in the logs
    for folder in ("data", "splits", "features", "runs", "report"):
        assert workspace.digests(folder) == reference.digests(folder)
    assert workspace.leftovers() == []
    assert (workspace.root / ".outclass/prefect/prefect.db").exists()

    assert "nothing to do" in workspace.python("flows.pipeline")


def test_what_must_run_is_told_in_order_with_its_ties(prepared, monkeypatch):
    monkeypatch.chdir(prepared.root)
    assert items.outdated() == {}
    prepared.set(**{"partitions.keep_confidences": 1})
    todo = items.outdated()
    stages = ("partitions", "ensemble", "pooled", "baselines")
    assert list(todo) == [f"{stage}@0-{fold}" for stage in stages for fold in (0, 1)] + ["evaluate"]
    assert todo["partitions@0-1"] == []
    assert todo["pooled@0-1"] == ["partitions@0-1"]
    assert set(todo["evaluate"]) == set(list(todo)[2:-1])


def test_a_failing_item_is_named_with_its_log_and_message(prepared, api):
    prepared.set(**{"pooled.shrinkage": 0.0})
    output = prepared.python("flows.pipeline", check=False, PREFECT_API_URL=api)
    # Both folds fail; either may be first.
    assert re.search(r"pipeline: error: (pooled@0-[01]) failed; its log is \.outclass/logs/\1\.log", output)
    assert "pooled: the features' covariance within classes is singular" in output
    assert "Traceback" not in output
    assert prepared.leftovers() == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_ends_the_server_and_all_work(prepared, wait_until, sign):
    prepared.set(**{"backbone.flat.steps": 20000})
    process = prepared.start("python", "-m", "flows.pipeline")
    wait_until(lambda: any("flows.backbone" in command for command in prepared.leftovers()), 120)
    os.kill(process.pid, sign)
    output, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in output
    assert prepared.leftovers() == []


def test_killed_in_the_middle_it_leaves_nothing_running_and_can_go_on(workspace, reference, wait_until, api):
    process = workspace.start("python", "-m", "flows.pipeline")
    wait_until(lambda: any((workspace.root / "runs/backbone").glob("r*")), 180)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not any("prefect" in command for command in workspace.leftovers()), 90)
    wait_until(lambda: not any("python" in command for command in workspace.leftovers()), 90)

    workspace.python("flows.pipeline", PREFECT_API_URL=api)
    assert workspace.digests("report") == reference.digests("report")


def test_a_server_that_dies_ends_the_run_with_a_message(prepared, wait_until):
    prepared.set(**{"backbone.flat.steps": 200000})
    process = prepared.start("python", "-m", "flows.pipeline")
    wait_until(lambda: any("flows.backbone" in command for command in prepared.leftovers()), 120)
    (server,) = prepared.pids("prefect server start", without="guard.py")
    os.kill(server, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no longer answers; what is finished is kept: run again to go on" in output
    assert "Traceback" not in output
    assert "Error" not in output
    wait_until(lambda: prepared.leftovers() == [], 90)
