"""Places to train at: a GPU (or a share of one) or a CPU core, each leased to one training at a time.

A lease is a lock on a file, machine-wide and per user, so that folds or whole pipelines that run side by side never
take the same device. The operating system gives it back when the training ends, however it ends.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from stages import settings

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
LOOK_AGAIN = 0.1
"""Seconds between two looks for a free slot."""


@dataclass(frozen=True)
class Slot:
    name: str
    environment: dict[str, str] = field(default_factory=dict)


def available() -> list[Slot]:
    """The slots of this machine, as the settings have it."""
    chosen = settings.load()
    if settings.device() == "cuda":
        return gpu_slots(visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()), chosen)
    return cpu_slots(len(os.sched_getaffinity(0)), chosen)


def visible_gpus(variable: str | None, count: int) -> list[str]:
    """Names of the GPUs that we may use: CUDA_VISIBLE_DEVICES itself may restrict and rename them."""
    return variable.split(",")[:count] if variable else [str(index) for index in range(count)]


def gpu_slots(gpus: Sequence[str], chosen: settings.Settings) -> list[Slot]:
    """One slot a GPU, or ``slots_per_gpu``; GPUs are taken in turn before any is shared."""
    slots = [
        Slot(
            f"gpu-{gpu.replace('/', '_')}-{share}",
            {"OUTCLASS_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": gpu, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
        )
        for share in range(chosen.slots_per_gpu)
        for gpu in gpus
    ]
    return slots[: chosen.slots]


def cpu_slots(cores: int, chosen: settings.Settings) -> list[Slot]:
    """One slot a core, one thread each, whatever their number: threads change the last bits of results."""
    environment = {"OUTCLASS_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", **ONE_THREAD}
    return [Slot(f"cpu-{index}", environment) for index in range(chosen.slots or cores)]


@contextmanager
def leased(slots: Sequence[Slot], folder: Path | None = None) -> Iterator[tuple[Slot, int]]:
    """Wait for a free slot and hold it; also yields the lock's file descriptor.

    A process that inherits the descriptor holds the slot too: if we are killed, a training that has not ended yet
    keeps its device.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"outclass-slots-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    slot, descriptor = _first_free(slots, folder)
    try:
        yield slot, descriptor
    finally:
        os.close(descriptor)


def _first_free(slots: Sequence[Slot], folder: Path) -> tuple[Slot, int]:
    while True:
        for slot in slots:
            descriptor = os.open(folder / f"{slot.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return slot, descriptor
            except BlockingIOError:
                os.close(descriptor)
        time.sleep(LOOK_AGAIN)
