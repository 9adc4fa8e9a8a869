"""The fan-out: same values whoever trains, and nothing trained twice whatever is killed."""

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow
FOLD = ("--repetition", "0", "--fold", "0")
LONG = {"backbone.flat.steps": 4000}
"""Trainings long enough to be killed in the middle."""


def worker_ids(workspace) -> list[int]:
    """Process numbers of the trainings under way in a workspace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            ours = b"flows.worker" in words and not any(w.endswith(b"guard.py") for w in words)
            if ours and (entry / "cwd").readlink() == workspace.root:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_two_slots_give_the_same_bytes_as_one(prepared, reference, api):
    output = prepared.python(
        "flows.partitions", *FOLD, PREFECT_API_URL=api, OUTCLASS_SLOTS="2", OUTCLASS_CACHE="other-cache"
    )
    assert output.count("trained in") == 2
    assert prepared.digests("runs/partitions") == reference.digests("runs/partitions")
    assert _rows(api, "partitions-r0-f0") == [("partitions 0-1", "trained"), ("partitions 2-3", "trained")]


def _rows(api: str, key: str) -> list[tuple[str, str]]:
    """Networks and state of each chunk in the newest table artifact of a key."""
    found = httpx.post(f"{api}/artifacts/latest/filter", json={"artifacts": {"key": {"any_": [key]}}}).json()
    return [(row["networks"], row["state"]) for row in json.loads(found[0]["data"])]


def test_the_stage_without_prefect_gives_the_same_bytes(prepared, reference):
    prepared.python("stages.partitions", *FOLD, OUTCLASS_CACHE="other-cache")
    assert prepared.digests("runs/partitions") == reference.digests("runs/partitions")


def test_killed_in_the_middle_it_goes_on_where_it_stopped(prepared, api, wait_until):
    prepared.set(**LONG)
    cache = prepared.root / ".outclass/chunks"
    before = set(cache.iterdir())
    fresh = {"PREFECT_API_URL": api, "OUTCLASS_SLOTS": "1"}
    process = prepared.start("python", "-m", "flows.partitions", *FOLD, **fresh)
    wait_until(lambda: {p for p in set(cache.iterdir()) - before if p.suffix != ".part"}, 180)
    finished = {path.name: path.stat().st_mtime_ns for path in set(cache.iterdir()) - before if path.suffix != ".part"}
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not worker_ids(prepared), 60)  # nobody trains on without us

    output = prepared.python("flows.partitions", *FOLD, **fresh)
    assert output.count("kept from an earlier run") == len(finished) == 1
    assert output.count("trained in") == 1
    assert all((cache / name).stat().st_mtime_ns == time for name, time in finished.items())
    resumed = prepared.digests("runs/partitions/r0-f0")
    prepared.python("stages.partitions", *FOLD, OUTCLASS_CACHE="other-cache")
    assert prepared.digests("runs/partitions/r0-f0") == resumed


def test_a_killed_worker_is_tried_again(prepared, api, wait_until):
    prepared.set(**LONG)
    process = prepared.start("python", "-m", "flows.partitions", *FOLD, PREFECT_API_URL=api, OUTCLASS_SLOTS="1")
    wait_until(lambda: worker_ids(prepared), 120)
    os.kill(worker_ids(prepared)[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "ended with code 137 in slot cpu-0; trying again" in output


def test_without_retries_the_failure_names_the_partitions(prepared, api, wait_until):
    prepared.set(**LONG)
    settings = {"PREFECT_API_URL": api, "OUTCLASS_SLOTS": "1", "OUTCLASS_RETRIES": "0"}
    process = prepared.start("python", "-m", "flows.partitions", *FOLD, **settings)
    wait_until(lambda: worker_ids(prepared), 120)
    os.kill(worker_ids(prepared)[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "partitions@0-0: error: r0 f0 partitions 0-1 ended with code 137" in output
    assert "Traceback" not in output


def test_an_error_that_the_user_can_mend_is_not_tried_again(prepared, api):
    (prepared.root / "no-folder").write_text("a file where a folder is needed")
    output = prepared.python(
        "flows.partitions", *FOLD, check=False, PREFECT_API_URL=api, OUTCLASS_CACHE="no-folder/chunks"
    )
    assert "no-folder/chunks" in output
    assert "cannot be written" in output
    assert "trying again" not in output
    assert "Traceback" not in output


def test_a_prefect_server_that_does_not_answer_is_named(prepared):
    output = prepared.python("flows.partitions", *FOLD, check=False, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert "PREFECT_API_URL is http://127.0.0.1:9/api, but no Prefect server answers there" in output
    assert "Traceback" not in output
