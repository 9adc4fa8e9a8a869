"""What is wrong with a data set, gathered in one pass over it, and said at once before hours of work."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from outclass.arrays import Bools, Floats, Ints
from outclass.datasets import copies, labels
from outclass.errors import Fault
from stages import faults

Columns = dict[str, Any]
"""Columns of a part of the table of items: name, class, split, and image or features."""


class Part(NamedTuple):
    columns: Columns
    faults: list[Fault]


class Findings:
    """Takes parts one by one; holds a few bytes an item, and never its image or features."""

    def __init__(self, leave_out: Mapping[str, str]) -> None:
        self.leave_out = {labels.clean(name) for name in leave_out}
        self.faults: list[Fault] = []
        self.spellings: set[str] = set()  # of the classes that are not left out
        self.met: set[str] = set()  # all classes
        self.lowest: Floats = np.full(1, np.inf)  # of each feature; stays like this for images
        self.highest: Floats = np.full(1, -np.inf)
        self._digests = bytearray()
        self._codes: list[Ints] = []
        self._code_of: dict[str, int] = {}

    def take(self, part: Part) -> Columns:
        """Note what is wrong; return what may stay, with clean class names."""
        for fault in part.faults:
            self._note(fault)
        clean = {spelling: labels.clean(spelling) for spelling in set(part.columns["class"])}
        classes = [clean[spelling] for spelling in part.columns["class"]]
        for name, label in zip(part.columns["name"], classes, strict=True):
            if not label:
                self._note(Fault(name, "", "has no class"))
        self._meet(clean)
        keep = np.array([label != "" and label not in self.leave_out for label in classes], dtype=bool)
        columns = select({**part.columns, "class": classes}, keep)
        self._remember(columns)
        return columns

    def copies(self) -> copies.Copies:
        return copies.find(self._digests, self._all_codes())

    def constant(self) -> Bools:
        """Which features have the same value in every row."""
        return np.asarray(self.lowest == self.highest)

    def constant_faults(self, titles: Sequence[str]) -> list[Fault]:
        """``titles`` of all features."""
        found = np.flatnonzero(self.constant()).tolist()
        return [Fault(f"column {titles[i]}", "", f"is {self.lowest[i]:g} in every row") for i in found]

    def count(self, keep: Bools) -> dict[str, int]:
        """How many items of each class are left; 0 for a class of which there is nothing but faults."""
        counts = np.bincount(self._all_codes()[keep], minlength=len(self._code_of)).tolist()
        names = {labels.clean(spelling) for spelling in self.spellings}
        return dict.fromkeys(sorted(names), 0) | dict(zip(self._code_of, counts, strict=True))

    def class_problems(self) -> list[str]:
        """What is wrong with the classes themselves: no skipping can mend it."""
        unknown = [
            f"download.leave_out: there is no class {name!r}; {labels.suggestions(name, self.met)}"
            for name in sorted(self.leave_out - self.met)
        ]
        alike = [
            f"classes {', '.join(map(repr, group))} differ by white space, case or Unicode form alone: "
            f"give one class one spelling, and different classes different names"
            for group in labels.collisions(self.spellings)
        ]
        return unknown + alike

    def _all_codes(self) -> Ints:
        return np.concatenate([np.empty(0, np.int32), *self._codes])

    def _note(self, fault: Fault) -> None:
        name = labels.clean(fault.label)
        self._meet({fault.label: name})
        if name not in self.leave_out:
            self.faults.append(fault._replace(label=name))

    def _meet(self, clean: Mapping[str, str]) -> None:
        met = {spelling: name for spelling, name in clean.items() if name}
        self.met.update(met.values())
        self.spellings.update(spelling for spelling, name in met.items() if name not in self.leave_out)

    def _remember(self, columns: Columns) -> None:
        codes = [self._code_of.setdefault(name, len(self._code_of)) for name in columns["class"]]
        self._codes.append(np.array(codes, np.int32))
        if "image" in columns:
            self._digests.extend(b"".join(map(copies.digest, columns["image"])))
        elif codes:
            features = columns["features"]
            self._digests.extend(b"".join(copies.digests(features)))
            self.lowest = np.minimum(self.lowest, features.min(axis=0))
            self.highest = np.maximum(self.highest, features.max(axis=0))


def select(columns: Columns, keep: Bools) -> Columns:
    """Some rows of every column, whether a list or an array."""
    rows = np.flatnonzero(keep)
    return {
        name: values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
        for name, values in columns.items()
    }


def copy_faults(items: pd.DataFrame, found: copies.Copies, content: str) -> list[Fault]:
    """A line for every item whose content another class has too; ``items`` has the names and classes of all."""
    copied = items[found.ambiguous]
    rows = list(zip(copied["name"], copied["class"], found.group[found.ambiguous].tolist(), strict=True))
    firsts: dict[int, dict[str, str]] = {}  # of each group, one item of each class
    for name, label, group in rows:
        firsts.setdefault(group, {}).setdefault(label, name)
    noted = []
    for name, label, group in rows:
        others = [f"{other} (class {theirs})" for theirs, other in firsts[group].items() if theirs != label]
        noted.append(Fault(name, label, f"the same {content} as {', '.join(others[:3])}"))
    return noted


def repeat_faults(items: pd.DataFrame, found: copies.Copies) -> list[Fault]:
    """A line for every item that its class has already; ``items`` has the names and classes of all."""
    names, repeated = items["name"].to_numpy(), found.repeated
    rows = zip(names[repeated], items["class"][repeated], names[found.first[repeated]], strict=True)
    return [Fault(name, label, f"a copy of {first}") for name, label, first in rows]


def listing(found: list[Fault]) -> list[str]:
    """Faults as the lines of one message."""
    if not found:
        return []
    number = "1 problem" if len(found) == 1 else f"{len(found):,} problems"
    return [f"{number}; mend the data, or leave out what is listed (on_bad_item: skip):", *faults.lines(found)]
