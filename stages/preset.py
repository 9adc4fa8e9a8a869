"""Put a preset in place of params.yaml and say what that changes.

python -m stages.preset NAME          or: make preset NAME=...
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outclass.errors import OutclassError
from stages import command, files, params

FOLDER = Path("presets")
BEFORE = params.FILE.with_suffix(".before.yaml")
"""Keeps what params.yaml was, unless it was a preset itself."""


def run(name: str) -> str:
    """Replace params.yaml by presets/<name>.yaml."""
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        there = ", ".join(sorted(preset.stem for preset in FOLDER.glob("*.yaml")))
        raise OutclassError(f"{path}: not found; the presets are {there}")
    params.load(path)
    changes = list(differences(_current(), params.read_yaml(path)))
    print("\n".join(changes), flush=True)
    kept = _keep_edits()
    files.write_text(params.FILE, path.read_text())
    return f"params.yaml is now {path}; {len(changes)} values changed{kept}"


def differences(before: Any, after: Any) -> Iterator[str]:
    """One line for each value that is new, gone or another."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for key in dict.fromkeys([*old, *new]):
        if key not in new:
            yield f"- {key} (was {old[key]})"
        elif key not in old:
            yield f"+ {key}: {new[key]}"
        elif old[key] != new[key]:
            yield f"  {key}: {old[key]} -> {new[key]}"


def _leaves(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from _leaves(value, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, values


def _current() -> Any:
    """The parameters in place; a file that is missing or broken is no reason not to replace it."""
    try:
        return params.read_yaml(params.FILE)
    except OutclassError:
        return {}


def _keep_edits() -> str:
    """Nobody's own parameters are lost."""
    presets = [preset.read_bytes() for preset in FOLDER.glob("*.yaml")]
    if not params.FILE.exists() or params.FILE.read_bytes() in presets:
        return ""
    with files.finished(BEFORE) as unfinished:
        unfinished.write_bytes(params.FILE.read_bytes())
    return f"; what it was is kept as {BEFORE}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="preset", description=run.__doc__)
    parser.add_argument("name")
    sys.exit(command.report("preset", run, name=parser.parse_args().name))
