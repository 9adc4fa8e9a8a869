"""Chunks of partitions: the unit of training, of hand-over to workers, and of resuming.

A finished chunk is kept under a key made of everything that its training reads, so an interrupted stage goes on
where it stopped, and workspaces that share a cache share what they have in common.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import outclass.confidence
import outclass.features.whitening
import outclass.networks
import outclass.networks.flat
import outclass.networks.nin
import outclass.networks.ridge
import outclass.seeds
import outclass.sets
from outclass.arrays import Strings
from outclass.errors import OutclassError
from stages import folds, given, networks, paths, settings, tables
from stages.params import Params
from stages.params import load as load_params

TRAINING_CODE = [
    *(outclass.networks, outclass.networks.flat, outclass.networks.nin, outclass.networks.ridge),
    *(outclass.features.whitening, outclass.confidence, outclass.sets, outclass.seeds, folds, given, networks),
]
"""With stages/partitions.py itself, which imports this module, the code that makes a chunk what it is."""


TABLES = {
    "sets": tables.PARTITION_SETS,
    "classes": tables.PARTITION_CLASSES,
    "networks": tables.PARTITION_NETWORKS,
    "confidences": tables.PARTITION_CONFIDENCES,  # without rows, unless partitions.keep_confidences asks for some
}


@dataclass(frozen=True)
class Chunk:
    """Partitions of one fold that are trained together."""

    repetition: int
    fold: int
    partitions: tuple[int, ...]
    key: str

    @property
    def folder(self) -> Path:
        """Where its tables lie once it is finished."""
        return settings.load().cache / self.key

    @property
    def finished(self) -> bool:
        return all(self.table(name).exists() for name in TABLES)

    def table(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def __str__(self) -> str:
        return f"r{self.repetition} f{self.fold} partitions {self.partitions[0]}-{self.partitions[-1]}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Chunk":
        values = json.loads(text)
        return cls(**{**values, "partitions": tuple(values["partitions"])})


def plan(repetition: int, fold: int) -> list[Chunk]:
    """The chunks of a fold. They follow from the parameters alone, not from who will train them."""
    params = load_params()
    known = folds.load_fold(repetition, fold).known
    presumed_novel = folds.load_presumed_novel(repetition, fold, known)
    common = _inputs_digest(params, repetition, fold, known)
    count, size = len(presumed_novel), params.partitions.chunk
    numbers = [tuple(range(first, min(first + size, count))) for first in range(0, count, size)]
    keep = params.partitions.keep_confidences
    return [
        Chunk(repetition, fold, ls, _digest(common, repetition, fold, ls, presumed_novel[list(ls)].tolist(), kept))
        for ls in numbers
        for kept in [sum(number < keep for number in ls)]
    ]


def _inputs_digest(params: Params, repetition: int, fold: int, known: Strings) -> str:
    """Everything that the training of any chunk of a fold reads."""
    inputs = [
        *networks.files_read(params.backbone, repetition, fold),
        paths.split(repetition, "items"),
        paths.split(repetition, "sets"),
    ]
    code = [Path(str(module.__file__)) for module in TRAINING_CODE] + [Path(__file__).with_name("partitions.py")]
    network = params.backbone.model_dump()
    hashes = [_file_digest(path) for path in inputs + code]
    return _digest(hashes, params.seed, network, list(known), torch.__version__, settings.device())


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise OutclassError(f"{path}: not found; run `dvc repro` to make it") from None


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]
