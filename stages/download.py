"""Bring a data set into one table of items, whatever its source, and say what is wrong with it before hours of work."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from outclass.arrays import Bools
from outclass.errors import Fault, OutclassError
from stages import command, faults, params, paths, settings, sources, tables, validation
from stages.files import finished
from stages.validation import Columns, Findings

FEWEST_CLASSES = 4
"""One class that is novel, one presumed novel, and two presumed known, for a network to tell apart."""


class Verdict(NamedTuple):
    faults: list[Fault]  # what the user should mend
    repeats: list[Fault]  # copies inside a class, left out without being asked
    items: Bools  # which of those written at first may stay
    features: Bools  # likewise; empty for images
    counts: dict[str, int]  # items that stay, by class
    kept: int  # items of a public data set that a class holds again
    shared: int  # and those that two classes hold


def run() -> str:
    """Write data/items.parquet and data/skipped.parquet."""
    chosen = params.load()
    return bring(chosen.download, chosen.on_bad_item, chosen.seed)


def bring(chosen: params.Download, on_bad_item: str, seed: int) -> str:
    """Copy the source, checking as it goes by; copy once more without what only the whole shows to be bad."""
    source = sources.find(chosen, seed, settings.load().downloads)
    findings = Findings(chosen.leave_out)
    with finished(paths.ITEMS) as unfinished:
        sizes = _write(unfinished, source.schema, (findings.take(part) for part in source.parts()))
        verdict = _judge(unfinished, source, findings)
        _refuse(verdict, findings, on_bad_item, chosen)
        if not (verdict.items.all() and verdict.features.all()):
            _write(unfinished, source.schema, _selected(unfinished, source.schema, sizes, verdict))
        faults.write(paths.SKIPPED_FILES, verdict.faults + verdict.repeats)
    return "; ".join([*_summary(source, verdict), *_left_out(chosen), *source.notes()])


def _write(path: Path, schema: pa.Schema, parts: Iterable[Columns]) -> list[int]:
    """Number the items and write them, a row group a part; the sizes of the parts."""
    filled = (part for part in parts if part["name"])
    first = next(filled, None)
    sizes: list[int] = []
    if first is None:
        return sizes
    with tables.writer(path, schema) as write:
        for part in chain([first], filled):
            start = sum(sizes)
            sizes.append(len(part["name"]))
            write({"item": np.arange(start, start + sizes[-1]), **part})
    return sizes


def _judge(path: Path, source: sources.Source, findings: Findings) -> Verdict:
    found = findings.copies()
    kept = shared = 0
    if source.published:  # a published protocol is about the data set as it is
        kept, shared = int(found.repeated.sum()), int(found.ambiguous.sum())
        nothing = np.zeros_like(found.ambiguous)
        found = found._replace(ambiguous=nothing, repeated=nothing)
    mend = [*findings.faults, *findings.constant_faults(source.titles)]
    stay, repeats = ~(found.ambiguous | found.repeated), []
    if not stay.all():
        items = tables.read_frame(path, source.schema, ["name", "class"])
        mend += validation.copy_faults(items, found, source.content)
        repeats = validation.repeat_faults(items, found)
    return Verdict(mend, repeats, stay, ~findings.constant(), findings.count(stay), kept, shared)


def _refuse(verdict: Verdict, findings: Findings, on_bad_item: str, chosen: params.Download) -> None:
    """Raise what the user has to mend, all at once."""
    left = [name for name, count in verdict.counts.items() if count]
    too_few = [_too_few(left, chosen)] if len(left) < FEWEST_CLASSES else []
    problems = [*findings.class_problems(), *too_few]
    if on_bad_item == "fail" or too_few:
        problems += validation.listing(verdict.faults)
    if problems:
        raise OutclassError("\n".join(problems))


def _too_few(left: list[str], chosen: params.Download) -> str:
    names = f" ({', '.join(left)})" if left else ""
    place = f"download.input: {chosen.input}" if chosen.source in ("image_folder", "table") else chosen.source
    text = f"{place}: {_plural(len(left), 'class', 'classes')} with usable items{names}; {FEWEST_CLASSES} are needed"
    if chosen.source == "image_folder":
        text += "; a class is a sub-folder: download.input may point one level too deep or too high"
    return text


def _selected(path: Path, schema: pa.Schema, sizes: list[int], verdict: Verdict) -> Iterator[Columns]:
    """What may stay of a table that is written already, part by part."""
    for last, size in zip(accumulate(sizes), sizes, strict=True):
        rows = tables.read_rows(path, schema, last - size, last)
        columns: Columns = {name: rows[name].to_pylist() for name in schema.names if name not in ("item", "features")}
        if "features" in schema.names:
            features = rows["features"].combine_chunks().flatten().to_numpy().reshape(size, -1)
            columns["features"] = features[:, verdict.features]
        yield validation.select(columns, verdict.items[last - size : last])


def _summary(source: sources.Source, verdict: Verdict) -> Iterator[str]:
    left = sum(count > 0 for count in verdict.counts.values())
    yield f"{sum(verdict.counts.values()):,} {source.unit} of {left:,} classes"
    if verdict.faults:
        yield f"{len(verdict.faults):,} skipped (see {paths.SKIPPED_FILES})"
    lost = [name for name, count in verdict.counts.items() if not count]
    if lost:
        yield f"nothing left of {_plural(len(lost), 'class', 'classes')} {', '.join(lost)}"
    if verdict.repeats:
        copies = _plural(len(verdict.repeats), "copy", "copies")
        yield f"{copies} inside a class left out (see {paths.SKIPPED_FILES})"
    if verdict.kept:
        yield f"{_plural(verdict.kept, 'copy', 'copies')} inside a class of this public data set kept"
    if verdict.shared:
        yield f"{verdict.shared:,} images stand in two classes of this public data set; they are kept"


def _left_out(chosen: params.Download) -> list[str]:
    return [f"{_plural(len(chosen.leave_out), 'class', 'classes')} left out"] if chosen.leave_out else []


def _plural(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


if __name__ == "__main__":
    command.main("download", run)
