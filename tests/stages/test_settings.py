from pathlib import Path

import pytest
import torch

from outclass.errors import OutclassError
from stages import settings


@pytest.fixture
def fresh_device():
    """The device is looked up once in a process: forget it before and after."""
    settings.device.cache_clear()
    yield settings.device
    settings.device.cache_clear()


def test_finished_chunks_lie_in_the_project_unless_told_otherwise(monkeypatch):
    assert settings.load().cache == Path(".outclass/chunks")
    monkeypatch.setenv("OUTCLASS_CACHE", "elsewhere")
    assert settings.load().cache == Path("elsewhere")


def test_settings_come_from_the_environment_at_the_time_of_asking(monkeypatch):
    assert settings.load().slots is None
    monkeypatch.setenv("OUTCLASS_SLOTS", "3")
    monkeypatch.setenv("OUTCLASS_RETRIES", "0")
    assert (settings.load().slots, settings.load().retries) == (3, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTCLASS_SLOTS", "0"),
        ("OUTCLASS_SLOTS", "many"),
        ("OUTCLASS_SLOTS_PER_GPU", "0"),
        ("OUTCLASS_RETRIES", "-1"),
        ("OUTCLASS_DEVICE", "tpu"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(OutclassError, match=f"environment variable {name}={value}: "):
        settings.load()


def test_variables_of_other_names_are_ignored(monkeypatch):
    monkeypatch.setenv("OUTCLASS_COLOUR", "red")
    monkeypatch.setenv("SLOTS", "7")
    assert settings.load().slots is None


def test_the_cpu_is_taken_when_asked_for(monkeypatch, fresh_device):
    monkeypatch.setenv("OUTCLASS_DEVICE", "cpu")
    assert fresh_device() == "cpu"


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch, fresh_device):
    monkeypatch.delenv("OUTCLASS_DEVICE", raising=False)
    assert fresh_device() == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_training_follows_the_device_that_it_was_planned_for(monkeypatch):
    monkeypatch.setenv("OUTCLASS_DEVICE", "cuda")  # of the machine, not of the plan
    settings.prepare("cpu")
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(OutclassError, match="planned for cuda has come to a machine where torch sees no GPU"):
        settings.prepare("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(monkeypatch, fresh_device):
    monkeypatch.setenv("OUTCLASS_DEVICE", "cuda")
    with pytest.raises(OutclassError, match="OUTCLASS_DEVICE=cuda, but torch sees no GPU"):
        fresh_device()
