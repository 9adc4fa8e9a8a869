"""Files that are either whole or not there: written under a temporary name, then renamed."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outclass.errors import OutclassError

UNFINISHED = ".part"
"""Ending of the temporary names; git and DVC ignore it."""


@contextmanager
def finished(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file or folder; it takes the name ``path`` once the block ends well."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        _replace(unfinished, path)
    except OSError as error:
        raise OutclassError(
            f"{path}: cannot be written ({error.strerror or error}); "
            f"free space or make the folder writable, then run again"
        ) from error
    finally:
        _remove(unfinished)


@contextmanager
def finished_folder(path: Path) -> Iterator[Path]:
    with finished(path) as folder:
        folder.mkdir()
        yield folder


def write_text(path: Path, text: str) -> None:
    with finished(path) as unfinished:
        unfinished.write_text(text)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def _replace(unfinished: Path, path: Path) -> None:
    if path.is_dir():  # os.replace moves a folder only onto an empty one
        shutil.rmtree(path)
    unfinished.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # it may never have come to be
            path.unlink()
