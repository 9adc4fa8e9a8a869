"""Runs that are killed at random moments: the same tables in the end, and nothing that was finished is done again.

make soak                                                          20 tries
SOAK_SEED=7 SOAK_TRIES=1 python -m pytest tests/flows/test_soak.py -v     the try of that seed once more
"""

import os
import random

import pytest

from tests.flows import soak

pytestmark = pytest.mark.slow
SLOTS = 2
TRIES = int(os.environ.get("SOAK_TRIES", "3"))


@pytest.fixture(scope="session")
def first_seed(testrun_uid: str) -> int:
    """Test processes that run side by side agree on it."""
    return int(os.environ.get("SOAK_SEED") or random.Random(testrun_uid).randrange(10**6))


@pytest.mark.parametrize("number", range(TRIES))
def test_a_kill_costs_at_most_the_trainings_in_progress(
    number, first_seed, ready_to_train, undisturbed, tmp_path, record_property
):
    seed = first_seed + number
    whole = soak.Ledger(undisturbed)
    total = whole.begun.total()
    plan = soak.Plan.of(seed, total)
    print(f"SOAK_SEED={seed}: {plan}")
    workspace = soak.copy(ready_to_train, tmp_path / "project")

    process = workspace.start(*soak.COMMANDS[plan.command], OUTCLASS_SLOTS=str(SLOTS))
    hit = soak.kill(workspace, process, plan, whole.seconds / total)
    kill = soak.Moment.now(workspace)
    output = soak.end(workspace, process)
    end = soak.Moment.now(workspace)  # it takes a run some seconds to see that its server is gone
    assert "Traceback" not in output, output
    assert soak.half_written(workspace) == []
    goes_on = process.returncode == 0
    if not goes_on:
        assert hit, output
        process = workspace.start(*soak.COMMANDS[plan.command], OUTCLASS_SLOTS=str(SLOTS))
        output = soak.end(workspace, process)
        assert process.returncode == 0, output

    begun = soak.Ledger(workspace).begun
    again = begun.total() - total
    record_property("soak", soak.summary(seed, plan, hit, kill, total, goes_on, again))
    for folder in ("splits", "runs", "report"):
        assert workspace.digests(folder) == undisturbed.digests(folder)
    assert begun.keys() == whole.begun.keys()
    assert again <= end.begun - len(end.finished) <= SLOTS  # at most what was in progress, of which that many can be
    assert soak.chunks(workspace).items() >= end.finished.items() >= kill.finished.items()
