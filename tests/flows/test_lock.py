"""One run in a workspace at a time, and who holds DVC's locks."""

import os
import signal
import time

import pytest
import yaml
from dvc.lock import LockError

from flows import items, lock
from outclass.errors import OutclassError

pytestmark = pytest.mark.slow

HOLDER = """
import sys, time
from flows import lock, processes
with lock.held() as descriptor:
    if sys.argv[1:]:
        processes.start(["sleep", "600"], keep_open=[descriptor])
    print("held", flush=True)
    time.sleep(600)
"""
DVC_HOLDER = """
import time
from dvc.lock import Lock
with Lock(".dvc/tmp/lock"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hold(prepared):
    """Start a process that holds a lock of the workspace."""
    started = []

    def start(code: str, *arguments: str) -> int:
        process = prepared.start("python", "-c", code, *arguments)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_run_is_refused_and_told_who_holds_the_workspace(prepared, hold):
    pid = hold(HOLDER)
    output = prepared.python("flows.pipeline", check=False)
    assert f"pipeline: error: another run of the pipeline works in this folder (process {pid}, since 2" in output
    assert f"`kill {pid}`" in output
    os.kill(pid, signal.SIGKILL)
    assert "nothing to do" in prepared.python("flows.pipeline")  # the lock ended with its holder


def test_what_a_killed_run_has_left_to_end_is_waited_for(prepared, hold):
    os.kill(hold(HOLDER, "with a child"), signal.SIGKILL)
    assert "nothing to do" in prepared.python("flows.pipeline")
    assert prepared.leftovers() == []


@pytest.fixture
def impatient(prepared, monkeypatch):
    monkeypatch.chdir(prepared.root)
    monkeypatch.setattr(items, "LOCK_PATIENCE", 1.0)
    return prepared


def test_a_stale_lock_of_dvc_is_to_be_deleted(impatient):
    """A killed DVC's number in its file may by now be that of another process, such as this one."""
    target = impatient.root / "runs/backbone/r0-f0"
    stale = f'{{"write": {{"{target}": {{"pid": {os.getpid()}, "cmd": "dvc repro"}}}}}}'
    items.RWLOCK_FILE.write_text(stale)
    impatient.set(**{"backbone.flat.steps": 31})
    with pytest.raises(OutclassError) as refused:
        items.reproduce("backbone@0-0", print)
    assert "DVC's lock .dvc/tmp/rwlock has been held for 1 s. It is left from a run that was killed" in str(
        refused.value
    )
    assert f"process {os.getpid()} is " in str(refused.value)
    assert "delete .dvc/tmp/rwlock, then run again" in str(refused.value)

    items.RWLOCK_FILE.unlink()
    items.reproduce("backbone@0-0", print)


def test_half_a_lock_that_a_killed_dvc_has_written_is_mended(impatient):
    half = '{"write": {"/some/where": {"pid": 12'
    impatient.set(**{"backbone.flat.steps": 31})
    for attempt in (lambda: items.reproduce("backbone@0-0", print), items.outdated):
        items.RWLOCK_FILE.write_text(half)
        attempt()
    items.RWLOCK_FILE.write_text(half)
    assert "the workspace is up to date" in impatient.python("flows.pipeline")
    impatient.run("dvc", "repro")


def test_a_whole_lock_is_left_alone(impatient):
    whole = '{"write": {"/some/where": {"pid": 12, "cmd": "dvc repro"}}}'
    items.RWLOCK_FILE.write_text(whole)
    items.remove_if_damaged()
    assert items.RWLOCK_FILE.read_text() == whole
    items.RWLOCK_FILE.unlink()
    items.remove_if_damaged()
    assert not items.RWLOCK_FILE.exists()


def test_half_a_dvc_lock_is_named_with_its_remedy(impatient):
    lock_file = impatient.root / "dvc.lock"
    whole = lock_file.read_text()
    lock_file.write_text(whole[: whole.index("md5:")] + "md5: [")
    output = impatient.python("flows.pipeline", check=False)
    assert "pipeline: error: DVC cannot work here: unable to read: 'dvc.lock'" in output
    assert "`git checkout dvc.lock`, or delete it, then run again" in output
    assert "Traceback" not in output
    lock_file.unlink()
    assert "the workspace is up to date" in impatient.python("flows.pipeline")
    assert yaml.safe_load(lock_file.read_text()) == yaml.safe_load(whole)  # items end in any order


def test_a_dvc_yaml_that_cannot_be_read_is_named(impatient):
    (impatient.root / "dvc.yaml").write_text("stages: [")
    output = impatient.python("flows.pipeline", check=False)
    assert "pipeline: error: DVC cannot work here: unable to read: 'dvc.yaml'" in output
    assert "git checkout" not in output
    assert "Traceback" not in output


def test_a_living_dvc_is_named(impatient, wait_until):
    impatient.set(**{"backbone.flat.steps": 200000})
    process = impatient.start("dvc", "repro", "--single-item", "backbone@0-0")
    wait_until(lambda: any("flows.backbone" in command for command in impatient.leftovers()), 120)
    try:
        with pytest.raises(
            OutclassError, match=rf"Process {process.pid} \(.*dvc repro.*wait for it or stop it \(`kill "
        ):
            items.reproduce("backbone@0-0", print)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
    wait_until(lambda: not any("flows.backbone" in command for command in impatient.leftovers()), 90)


def test_the_holder_of_the_whole_workspace_is_named(impatient, hold):
    pid = hold(DVC_HOLDER)
    with pytest.raises(OutclassError, match=rf"DVC's lock .dvc/tmp/lock has been held for 1 s. Process {pid} \("):
        items.outdated()
    with pytest.raises(OutclassError, match=rf"wait for it or stop it \(`kill {pid}`\), then run again"):
        items.prove()


class LockedAtTheEnd:
    """An item that works for a while, and then finds DVC's lock held, so many times."""

    def __init__(self, refusals: int, seconds: float) -> None:
        self.refusals, self.seconds = refusals, seconds

    def __call__(self) -> str:
        time.sleep(self.seconds)
        self.refusals -= 1
        if self.refusals >= 0:
            raise LockError("Unable to acquire lock")
        return "done"


def test_an_item_is_not_refused_for_the_time_that_it_worked(monkeypatch):
    monkeypatch.setattr(items, "LOCK_PATIENCE", 0.2)
    monkeypatch.setattr(items, "A_REFUSAL", 0.3)
    assert items.patiently(LockedAtTheEnd(refusals=2, seconds=0.4)) == "done"
    with pytest.raises(OutclassError, match="has been held for 0 s"):
        items.patiently(LockedAtTheEnd(refusals=2, seconds=0.0))


def test_the_lock_is_free_after_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lock.held():
        pass
    with lock.held():
        assert lock.FILE.read_text().startswith(f"{os.getpid()} ")
