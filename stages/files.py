"""Files that are either whole or not there: written under a temporary name, then renamed."""

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from outclass.errors import OutclassError

UNFINISHED = ".part"
"""Ending of the temporary names; git and DVC ignore it."""
TOKEN_BYTES = 4
"""Of chance in a temporary name."""
FORSAKEN_AFTER = 24 * 3600.0
"""Seconds after which nobody is still writing an unfinished file."""


@contextmanager
def finished(path: Path, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary path for a file or folder; it takes the name ``path`` once the block ends well.

    Without ``replace``, whoever was first stays: for results that are the same whoever makes them.
    """
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(TOKEN_BYTES)}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_forsaken(path.parent)
        yield unfinished
        _replace(unfinished, path) if replace else _keep_first(unfinished, path)
    except OSError as error:
        raise OutclassError(
            f"{path}: cannot be written ({error.strerror or error}); "
            f"free space or make the folder writable, then run again"
        ) from error
    finally:
        _remove(unfinished)


@contextmanager
def finished_folder(path: Path, replace: bool = True) -> Iterator[Path]:
    with finished(path, replace) as folder:
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


def _keep_first(unfinished: Path, path: Path) -> None:
    try:
        unfinished.rename(path)  # onto a folder that is not empty, this fails
    except OSError:
        if not path.is_dir():
            raise


def _remove_forsaken(folder: Path) -> None:
    """Take away what processes that were killed a day ago or longer left beside the file that is written now."""
    for left in folder.glob(f"*.{'[0-9a-f]' * 2 * TOKEN_BYTES}{UNFINISHED}"):
        with suppress(OSError):  # somebody else may be at it
            if _last_change(left) < time.time() - FORSAKEN_AFTER:
                _remove(left)


def _last_change(path: Path) -> float:
    return max(each.stat().st_mtime for each in [path, *path.rglob("*")])


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # it may never have come to be
            path.unlink()
