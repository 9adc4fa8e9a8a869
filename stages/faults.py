"""Faults of the data: kept in a table, and listed in messages."""

from pathlib import Path

from outclass.errors import Fault
from stages import tables

SHOWN = 20
"""A message lists so many one by one."""


def write(path: Path, found: list[Fault]) -> None:
    columns = zip(*found, strict=True) if found else ([], [], [])
    named = zip(tables.SKIPPED.names, columns, strict=True)
    tables.write(path, tables.SKIPPED, {name: list(column) for name, column in named})


def read(path: Path) -> list[Fault]:
    return [Fault(*row) for row in tables.read_frame(path, tables.SKIPPED).itertuples(index=False)]


def lines(found: list[Fault]) -> list[str]:
    """All of them as lines of a message, or the first of very many."""
    more = [f"  ... and {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []
    return [f"  {_who(fault)}: {fault.reason}" for fault in found[:SHOWN]] + more


def _who(fault: Fault) -> str:
    if not fault.name:
        return f"class {fault.label}"
    return f"{fault.name} (class {fault.label})" if fault.label else fault.name
