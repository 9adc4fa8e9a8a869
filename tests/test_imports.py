"""What each command loads before it starts to work: seconds in every process of a run, and threads to be counted."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"matplotlib", "prefect", "scipy.linalg", "sklearn", "torch"}
METHODS = {"scipy.linalg", "sklearn"}
NEEDED: dict[str, set[str]] = {
    "stages.download": {"matplotlib"},  # the glyphs' fonts
    "stages.split": set(),
    "stages.backbone": set(),  # to plan is not to train
    "stages.partitions": set(),
    "stages.ensemble": METHODS,
    "stages.pooled": METHODS,
    "stages.baselines": METHODS,
    "stages.evaluate": {"matplotlib", "scipy.linalg"},
    "flows.worker": set(),
    "flows.backbone": {"prefect"},
    "flows.partitions": {"prefect"},
    "flows.pipeline": {"prefect"},
}


@pytest.mark.parametrize("command", NEEDED)
def test_a_command_loads_what_it_needs_and_no_more(command):
    """What is needed must be loaded at once: threads are limited, for the sake of the last bits, when work starts."""
    code = f"import sys, {command}; print(*({HEAVY!r} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert set(answer.stdout.split()) == NEEDED[command]
