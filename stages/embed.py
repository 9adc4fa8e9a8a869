"""Represent every item by features that are the same in every fold, and settle which items the experiment may use."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.errors import Fault, OutclassError
from stages import command, counts, extractors, faults, files, params, paths, shards, tables
from stages.extractors import Extractor
from stages.shards import OnItems, Shard


@dataclass(frozen=True)
class Plan:
    """What is to be done; classes and splits are those of every row of data/items.parquet."""

    params: params.Params
    classes: Strings
    splits: Strings
    dropped: dict[str, str]  # class that is too small -> what it lacks
    shards: list[Shard]
    extractors: dict[str, Extractor]
    started: float = field(default_factory=time.monotonic)

    @property
    def unfinished(self) -> list[Shard]:
        return [shard for shard in self.shards if not shard.finished]


def run() -> str:
    """Write features/, extracting one shard after the other."""
    work = plan()
    todo = work.unfinished
    extract(todo, work.params, work.extractors)
    return gather(work, todo)


def plan() -> Plan:
    """Everything that can be known to be wrong is found here: the extraction itself may take hours."""
    chosen = params.load()
    _check_source(chosen.embed)
    items = tables.read_frame(paths.ITEMS, tables.ITEMS, ["class", "split"])
    classes, splits = (items[name].fillna("").to_numpy(dtype=str) for name in ("class", "split"))
    dropped = check_counts(chosen, classes, splits, np.ones(len(classes), dtype=bool))
    ready = extractors.build(chosen.embed, dropped)
    pieces = shards.cut(chosen.embed, classes, dropped, ready)
    refuse_bad([shard for shard in pieces if shard.finished], chosen)
    return Plan(chosen, classes, splits, dropped, pieces, ready)


def _check_source(embed: params.Embed) -> None:
    tables.count_rows(paths.ITEMS, tables.ITEMS)  # is it there, is it readable
    given = "features" in pq.read_schema(paths.ITEMS).names
    wrong = [name for name in embed.representations if (name == "given") != given]
    if wrong:
        has, choose = ("features", "given") if given else ("images", "hog, pixels or pretrained")
        raise OutclassError(f"embed.representations has {wrong[0]}, but {paths.ITEMS} holds {has}: choose {choose}")


def check_counts(chosen: params.Params, classes: Strings, splits: Strings, used: Bools) -> dict[str, str]:
    """Classes with too few items in use: refused, or given back to be dropped, as on_bad_item says."""
    dropped: dict[str, str] = {}
    while small := counts.small_classes(chosen.split, classes[used], splits[used]) if used.any() else {}:
        if chosen.on_bad_item == "fail":
            counts.refuse_small(small)
        dropped |= small
        used = used & ~np.isin(classes, list(small))
    left = len(np.unique(classes[used]))
    try:
        counts.check_classes(chosen.split, left)
    except OutclassError as error:
        raise OutclassError("\n".join([str(error), *_why_dropped(dropped)])) from error
    views = 1 + chosen.embed.mirrored
    items = chosen.split.items.train * views * (left - chosen.split.novel_classes)
    counts.check_baselines(chosen.baselines, items)
    return dropped


def _why_dropped(dropped: dict[str, str]) -> list[str]:
    if not dropped:
        return []
    return ["left out as too small (on_bad_item: skip):", *faults.lines(_class_faults(dropped))]


def _class_faults(dropped: dict[str, str]) -> list[Fault]:
    return [Fault("", label, lack) for label, lack in dropped.items()]


def extract(
    todo: Iterable[Shard],
    chosen: params.Params,
    ready: Mapping[str, Extractor],
    on_items: OnItems = lambda count: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Make shards one after the other, until all are finished or ``stop`` says so."""
    for shard in todo:
        if stop():
            return
        shards.make(shard, chosen.embed, ready, on_items)
        refuse_bad([shard], chosen)


def refuse_bad(finished: Iterable[Shard], chosen: params.Params) -> None:
    """With ``on_bad_item: fail``, name the bad items of finished shards."""
    if chosen.on_bad_item == "fail":
        bad = [fault for shard in finished for fault in _bad_items(shard)]
        if bad:
            found = f"{paths.ITEMS}: items that cannot be used: {len(bad):,}"
            mend = (
                "mend these files, or set on_bad_item: skip: what is finished of the others is kept. If you remove "
                "files instead, all items behind the first move up and are represented anew"
            )
            raise OutclassError("\n".join([found, *faults.lines(bad), mend]))


def _bad_items(shard: Shard) -> list[Fault]:
    bad = shard.bad_rows()
    if not bad:
        return []
    rows = tables.read_rows(paths.ITEMS, tables.ITEMS, shard.first, shard.last, ["name", "class"])
    names, classes = (np.array(rows[column].to_pylist(), dtype=str) for column in ("name", "class"))
    at = shard.used(classes)[list(bad)]
    return [Fault(*row) for row in zip(names[at].tolist(), classes[at].tolist(), bad.values(), strict=True)]


def gather(work: Plan, made: list[Shard]) -> str:
    """Put all shards together as the stage's output, one after the other."""
    refuse_bad(work.shards, work.params)
    seconds = time.monotonic() - work.started
    used = _used(work)
    small = check_counts(work.params, work.classes, work.splits, used)
    used &= ~np.isin(work.classes, list(small))
    with files.finished_folder(paths.FEATURES) as folder:
        ranges = _write_features(work, used, folder)
        _check_width(work.params.baselines, ranges)
        bad = [fault for shard in work.shards for fault in _bad_items(shard)]
        faults.write(folder / paths.SKIPPED_ITEMS.name, bad + _class_faults({**work.dropped, **small}))
    return _answer(work, used, ranges, sum(shard.items for shard in made) / seconds)


def _used(work: Plan) -> Bools:
    used = ~np.isin(work.classes, list(work.dropped))
    for shard in work.shards:
        rows = shard.used(work.classes[shard.first : shard.last])
        used[shard.first + rows[list(shard.bad_rows())]] = False
    return used


class _Range:
    """Lowest and highest value of each feature, as parts go by."""

    def __init__(self) -> None:
        self.low: Floats | None = None
        self.high: Floats | None = None

    def add(self, features: Floats) -> None:
        low, high = features.min(axis=0), features.max(axis=0)
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)

    @property
    def constant(self) -> Bools:
        return np.asarray(self.low == self.high)


def _write_features(work: Plan, used: Bools, folder: Path) -> dict[str, _Range]:
    names = work.params.embed.representations
    ranges: dict[str, _Range] = {name: _Range() for name in names}
    with ExitStack() as stack:
        write_items = stack.enter_context(tables.writer(folder / "items.parquet", tables.USED_ITEMS))
        schemas = {name: tables.PIXELS if name == "pixels" else tables.FEATURES for name in names}
        writers = {n: stack.enter_context(tables.writer(folder / f"{n}.parquet", s)) for n, s in schemas.items()}
        for shard in work.shards:
            stays = shards.still_used(shard, used, work.classes)
            if stays.any():
                columns = _item_columns(shard, used, work.params.embed.mirrored)
                write_items(columns)
                for name in names:
                    features = _features(shard, name, stays)
                    ranges[name].add(features)
                    writers[name]({**columns, "features": features})
        for representation, of in ranges.items():
            if of.constant.all():
                raise OutclassError(f"all {representation} features are constant: they tell nothing of any item")
    return ranges


def _item_columns(shard: Shard, used: Bools, mirrored: bool) -> dict[str, Ints | Bools | Strings]:
    """One row an item, or two neighbours: as it is, and mirrored."""
    names = ["item", "name", "class", "split"]
    rows = tables.read_rows(paths.ITEMS, tables.ITEMS, shard.first, shard.last, names)
    rows = rows.take(np.flatnonzero(used[shard.first : shard.last]))
    columns = {name: np.array(rows[name].to_pylist()).repeat(1 + mirrored) for name in names}
    return {**columns, "mirrored": np.tile([False, True][: 1 + mirrored], len(rows))}


def _features(shard: Shard, representation: str, stays: Bools) -> Floats:
    rows, features = shard.read(representation)
    return features[stays[rows]]


def _check_width(baselines: params.Baselines, ranges: dict[str, _Range]) -> None:
    for name, of in ranges.items():
        if baselines.input == str(paths.features(name)):
            counts.check_components(baselines, len(of.constant))


def _answer(work: Plan, used: Bools, ranges: dict[str, _Range], rate: float) -> str:
    parts = []
    for name, of in ranges.items():
        constant = int(of.constant.sum())
        parts.append(f"{len(of.constant)} {name}" + (f" ({constant} of them constant)" if constant else ""))
    left_out = f", {int((~used).sum()):,} left out" if not used.all() else ""
    speed = f"{rate:,.0f} a second" if rate else "kept from an earlier run"
    return f"{' and '.join(parts)} features of {int(used.sum()):,} items{left_out} ({speed})"


if __name__ == "__main__":
    command.main("embed", run)
