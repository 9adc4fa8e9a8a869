"""Slots and leases: one training a device, whatever runs side by side."""

import os
import subprocess
import sys
import threading
import time

import pytest

from flows import leases
from flows.slots import Slot, available, cpu_slots, gpu_slots, leased, visible_gpus
from stages import settings


def test_a_core_is_a_slot_with_one_thread():
    slots = cpu_slots(3)
    assert [slot.name for slot in slots] == ["cpu-0", "cpu-1", "cpu-2"]
    assert all(slot.environment["OMP_NUM_THREADS"] == "1" for slot in slots)
    assert all(slot.environment["CUDA_VISIBLE_DEVICES"] == "" for slot in slots)


@pytest.mark.parametrize("asked", [1, 100])
def test_there_are_as_many_slots_as_asked_for(monkeypatch, asked):
    """Fewer than cores, for all that runs side by side; or more."""
    monkeypatch.setenv("OUTCLASS_SLOTS", str(asked))
    monkeypatch.setenv("OUTCLASS_DEVICE", "cpu")
    settings.device.cache_clear()
    assert [slot.name for slot in available()] == [f"cpu-{number}" for number in range(asked)]


def test_a_core_is_a_slot_unless_asked_otherwise(monkeypatch):
    monkeypatch.delenv("OUTCLASS_SLOTS", raising=False)
    monkeypatch.setenv("OUTCLASS_DEVICE", "cpu")
    settings.device.cache_clear()
    assert len(available()) == len(os.sched_getaffinity(0))


def test_each_gpu_is_a_slot_that_sees_only_itself():
    slots = gpu_slots(["0", "1"], 1)
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0", "1"]
    assert len({slot.name for slot in slots}) == 2


def test_gpus_are_taken_in_turn_before_one_is_shared():
    slots = gpu_slots(["2", "5"], 2)
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["2", "5", "2", "5"]
    assert len({slot.name for slot in slots}) == 4


@pytest.mark.parametrize(
    ("variable", "count", "names"),
    [(None, 2, ["0", "1"]), ("", 0, []), ("3, 1", 2, ["3", "1"]), ("GPU-8a2b", 1, ["GPU-8a2b"])],
)
def test_gpus_keep_the_names_that_we_were_given(variable, count, names):
    assert visible_gpus(variable, count) == names


def test_two_leases_never_share_a_slot(tmp_path):
    slots = [Slot("a"), Slot("b")]
    with leased(slots, tmp_path) as (first, _), leased(slots, tmp_path) as (second, _):
        assert {first.name, second.name} == {"a", "b"}


def test_a_lease_waits_until_a_slot_is_free(tmp_path):
    got = threading.Event()

    def wait_for_a_slot():
        with leased([Slot("a")], tmp_path):
            got.set()

    thread = threading.Thread(target=wait_for_a_slot)
    with leased([Slot("a")], tmp_path):
        thread.start()
        assert not got.wait(0.5)
    assert got.wait(30)
    thread.join()


def test_whoever_waits_long_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "LOOKS_IN_SILENCE", 2)
    told: list[str] = []

    def wait_for_a_slot():
        with leased([Slot("a")], tmp_path, lambda: told.append("waiting")):
            pass

    thread = threading.Thread(target=wait_for_a_slot)
    with leased([Slot("a")], tmp_path):
        thread.start()
        time.sleep(1)
    thread.join()
    assert told == ["waiting"]


def test_a_training_that_outlives_us_keeps_its_slot(tmp_path):
    with leased([Slot("a")], tmp_path) as (_, descriptor):
        holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor])
    taken = threading.Event()

    def take():
        with leased([Slot("a")], tmp_path):
            taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.wait(0.5)
    holder.communicate(b"\n")
    assert taken.wait(30)
    thread.join()


def test_a_lease_ends_with_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), leased([Slot("a")], tmp_path):
        _ = 1 / 0
    with leased([Slot("a")], tmp_path) as (slot, descriptor):
        assert slot.name == "a"
        os.fstat(descriptor)
