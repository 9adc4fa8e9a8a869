"""How and where work is run, from the environment: no part of params.yaml, because it is no part of the experiment.

Nothing here changes a result, but for the last bits that differ between kinds of device.
"""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from outclass.errors import OutclassError

HOME = Path(".outclass")
"""Everything of ours that is neither source nor a DVC output: finished chunks, logs, the Prefect database."""


class Settings(BaseSettings):
    """Read from variables with the prefix OUTCLASS_, e.g. ``OUTCLASS_SLOTS=4``."""

    model_config = SettingsConfigDict(env_prefix="OUTCLASS_", extra="ignore")

    cache: Path = Field(
        HOME / "chunks", description="finished chunks of partitions and shards of features; may be shared by workspaces"
    )
    downloads: Path = Field(Path("downloads"), description="archives of public data sets, downloaded or placed there")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where networks are trained")
    runner: Literal["local", "ray"] = Field("local", description="networks are trained here, or on a Ray cluster")
    ray_address: str = Field("auto", description="of the cluster: host:port, ray://host:port, or auto: this machine's")
    slots: int | None = Field(None, ge=1, description="trainings at a time; default: one a GPU, else one a core")
    slots_per_gpu: int = Field(1, ge=1, description="trainings that share a GPU, on this machine or a cluster's")
    items: int = Field(2, ge=1, description="DVC stages that the pipeline flow runs side by side")
    retries: int = Field(2, ge=0, description="further tries of a training that failed")
    port: int | None = Field(None, ge=1, le=65535, description="of the UI; default: 4200, or any that is free")
    point: str | None = Field(None, description="set by a sweep: which of its points the workspace is a copy for")


def load() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        problem = error.errors()[0]
        name = f"OUTCLASS_{'_'.join(map(str, problem['loc'])).upper()}"
        raise OutclassError(f"environment variable {name}={problem['input']}: {problem['msg']}") from error


@cache
def device() -> str:
    """``cuda`` or ``cpu``, as asked for and as there is."""
    asked = load().device
    if asked == "cpu" or not (asked == "cuda" or _may_have_gpu()):
        return "cpu"
    import torch  # here, because it takes longer to load than most of those who ask have to do

    if not torch.cuda.is_available():
        if asked == "cuda":
            raise OutclassError("OUTCLASS_DEVICE=cuda, but torch sees no GPU here: unset it, or check the driver")
        return "cpu"
    prepare("cuda")
    return "cuda"


def prepare(device: str) -> None:
    """Be ready to compute on a device that was chosen, maybe on another machine; on a GPU, the same bits each time."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise OutclassError(f"a training planned for {device} has come to a machine where torch sees no GPU")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS gives other bits each time
    torch.use_deterministic_algorithms(True)  # rather an error than numbers that cannot be had again


def _may_have_gpu() -> bool:
    """Whether there is a driver (NVIDIA's, or AMD's) that torch could find a GPU with."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True
