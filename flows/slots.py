"""Places to train at: a GPU (or a share of one) or a CPU core, each leased to one training at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows import leases, processes
from stages import settings

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
WAITING = "waiting for a free slot"


@dataclass(frozen=True)
class Slot:
    name: str
    environment: dict[str, str] = field(default_factory=dict)


def available() -> list[Slot]:
    """The slots of this machine that we may use: with OUTCLASS_SLOTS, the first so many, whoever else uses them."""
    chosen = settings.load()
    if settings.device() == "cuda":
        import torch  # here, because it takes longer to load than all the rest

        gpus = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count())
        return gpu_slots(gpus, chosen.slots_per_gpu)[: chosen.slots]
    return cpu_slots(chosen.slots or len(os.sched_getaffinity(0)))


def visible_gpus(variable: str | None, count: int) -> list[str]:
    """Names of the GPUs that we may use: CUDA_VISIBLE_DEVICES itself may restrict and rename them."""
    return [name.strip() for name in variable.split(",")][:count] if variable else [str(i) for i in range(count)]


def gpu_slots(gpus: Sequence[str], slots_per_gpu: int) -> list[Slot]:
    """GPUs are taken in turn before any is shared."""
    return [
        Slot(
            f"gpu-{gpu.replace('/', '_')}-{share}",
            {"OUTCLASS_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": gpu},
        )
        for share in range(slots_per_gpu)
        for gpu in gpus
    ]


def cpu_slots(count: int) -> list[Slot]:
    """One thread each, whatever their number: threads change the last bits of results."""
    environment = {"OUTCLASS_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", **ONE_THREAD}
    return [Slot(f"cpu-{index}", environment) for index in range(count)]


def run(command: Sequence[str], on_line: Callable[[str], None], on_start: Callable[[Slot], None]) -> int:
    """Run a command in the first slot that is free, and answer its exit code."""
    with leased(available(), on_wait=lambda: on_line(WAITING)) as (slot, lease):
        on_start(slot)
        return processes.run(command, on_line, slot.environment, [lease])


@contextmanager
def leased(
    slots: Sequence[Slot], folder: Path | None = None, on_wait: Callable[[], None] = lambda: None
) -> Iterator[tuple[Slot, int]]:
    """Wait for a free slot and hold it; also yields the descriptor of the lease."""
    with leases.held([slot.name for slot in slots], folder, on_wait) as (position, descriptor):
        yield slots[position], descriptor
