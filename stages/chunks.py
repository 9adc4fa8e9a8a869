"""Chunks: the networks of a fold that are trained together. The unit of training, of hand-over to workers, of resuming.

A finished chunk is kept under a key made of everything that its training reads, so an interrupted stage goes on
where it stopped, and workspaces that share a cache share what they have in common.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

import outclass
from outclass.errors import OutclassError
from stages import files, settings, tables

OnStep = Callable[[int, int], None]
"""Is told the steps done and the steps in all."""
Tables = dict[str, Any]
"""Table name -> its columns."""
ROOT = Path(str(outclass.__file__)).parents[1]


@dataclass(frozen=True)
class Chunk:
    """One fold's backbone, or some of its partitions."""

    stage: str  # backbone or partitions
    repetition: int
    fold: int
    partitions: tuple[int, ...]  # none for a backbone
    tables: tuple[str, ...]  # names of the tables that its training makes
    device: str  # where it is trained: cpu or cuda, which differ in the last bits
    key: str

    @property
    def folder(self) -> Path:
        """Where its tables lie once it is finished."""
        return settings.load().cache / self.key

    @property
    def finished(self) -> bool:
        return all(self.table(name).exists() for name in self.tables)

    def table(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    @property
    def networks(self) -> str:
        return f"partitions {self.partitions[0]}-{self.partitions[-1]}" if self.partitions else self.stage

    def __str__(self) -> str:
        return f"r{self.repetition} f{self.fold} {self.networks}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Chunk":
        values = json.loads(text)
        return cls(**{**values, "partitions": tuple(values["partitions"]), "tables": tuple(values["tables"])})


@dataclass(frozen=True)
class Work:
    """A stage whose work is training: how it is cut into chunks, and what is done with each."""

    schemas: Mapping[str, pa.Schema]  # of the tables of a chunk
    plan: Callable[[int, int, str], list[Chunk]]  # repetition, fold, device
    load: Callable[[int, int], Any]  # repetition, fold -> all that the trainings of a fold read, as arrays
    compute: Callable[[Any, Chunk, OnStep], Tables]  # that -> a chunk's tables: on any machine, without a file
    gather: Callable[[list[Chunk]], str]  # finished chunks -> the stage's output


def run(work: Work, repetition: int, fold: int) -> str:
    """Train one chunk after the other in this very process, and put them together."""
    chunks = work.plan(repetition, fold, settings.device())
    for chunk in chunks:
        train(work, chunk)
    return work.gather(chunks)


def train(work: Work, chunk: Chunk, on_step: OnStep = lambda done, total: None) -> None:
    """Train a chunk unless it is finished already."""
    if not chunk.finished:
        keep(work, chunk, work.compute(load(work, [chunk]), chunk, on_step))


def load(work: Work, chunks: Sequence[Chunk]) -> Any:
    """All that the trainings of some chunks of a fold read.

    Who planned them made their keys: what has changed since then must not be kept under these.
    """
    chunk = chunks[0]
    material = work.load(chunk.repetition, chunk.fold)
    if not set(chunks) <= set(work.plan(chunk.repetition, chunk.fold, chunk.device)):
        raise OutclassError(
            f"{chunk}: params.yaml, its data or the code changed while the run was under way: start it again"
        )
    return material


def keep(work: Work, chunk: Chunk, made: Tables) -> None:
    """Write a chunk's tables; the folder appears only when it is whole."""
    if not chunk.finished:  # nobody else was faster: what is there lacks a table that was damaged
        shutil.rmtree(chunk.folder, ignore_errors=True)
    with files.finished_folder(chunk.folder, replace=False) as folder:
        for name, schema in work.schemas.items():
            tables.write(folder / f"{name}.parquet", schema, made[name])


def digest_of_inputs(inputs: Sequence[Path], code: Sequence[str], *values: Any) -> str:
    """Of files that a training reads, modules (as paths below the project) that it runs, and other values."""
    torch = Path(str(find_spec("torch").origin)).with_name("version.py")  # type: ignore[union-attr]
    hashes = [_file_digest(path) for path in [*inputs, *(ROOT / module for module in code), torch]]
    return digest(hashes, *values)


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise OutclassError(f"{path}: not found; run `dvc repro` to make it") from None


def digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]
