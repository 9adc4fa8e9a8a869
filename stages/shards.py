"""Shards of items: the unit of extraction, of hand-over to workers, and of resuming.

What is finished of a shard is kept for each representation under a key made of all that its values depend on: an
interrupted stage goes on where it stopped, and a representation that is added or changed leaves the others alone.
"""

import hashlib
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from outclass.arrays import Bools, Floats, Ints, Strings
from outclass.errors import OutclassError
from outclass.features.images import mirror
from stages import extractors, files, paths, settings, tables
from stages.extractors import Extractor
from stages.params import Embed

# Rows count the items of the shard that are in use, from 0: the same images under other names are the same work.
# A row that is mirrored too has its views one after the other.
ROWS = pa.schema([("row", pa.int32()), ("features", tables.VECTOR)])
PIXEL_ROWS = pa.schema([("row", pa.int32()), ("features", tables.BYTES)])
BAD_ROWS = pa.schema([("row", pa.int32()), ("reason", pa.string())])

AHEAD = 32
"""Images that are decoded before they are needed, at most."""
DECODERS = {"cpu": 1, "cuda": 8}
"""Threads that decode: a slot on a CPU has a core, a GPU has an appetite."""
BATCH = 64
"""Items computed at a time where no network says otherwise."""

Prepared = dict[str, Ints] | str
"""Pixels for each representation; of a bad item, what is wrong with it."""
OnItems = Callable[[int], None]


@dataclass(frozen=True)
class Shard:
    """Rows ``first`` to ``last`` (exclusive) of data/items.parquet, but for some classes."""

    first: int
    last: int
    without: list[str]
    recipes: dict[str, str]  # representation -> all that its values depend on, beside the items
    keys: dict[str, str]  # representation -> key of its values: of its recipe and the items
    items: int  # in use
    size: int  # of these, in bytes

    def table(self, representation: str, name: str) -> Path:
        """``name`` is features or bad."""
        return settings.load().cache / self.keys[representation] / f"{name}.parquet"

    def has(self, representation: str) -> bool:
        return all(self.table(representation, name).exists() for name in ("features", "bad"))

    @property
    def finished(self) -> bool:
        return all(self.has(name) for name in self.keys)

    def used(self, classes: Strings) -> Ints:
        """Which of its rows are in use, counted from its first, given the class of each."""
        return np.flatnonzero(~np.isin(classes, self.without))

    def __str__(self) -> str:
        return f"items {self.first}-{self.last - 1}"

    def bad_rows(self) -> dict[int, str]:
        """Rows that any representation could make nothing of, and why."""
        frames = [tables.read_frame(self.table(name, "bad"), BAD_ROWS) for name in self.keys]
        every = pd.concat(frames).drop_duplicates("row").sort_values("row")
        return dict(zip(every["row"].tolist(), every["reason"].tolist(), strict=True))

    def read(self, representation: str) -> tuple[Ints, Floats]:
        """Row and features of each view."""
        frame, features = tables.read_vectors(
            self.table(representation, "features"), schema_of(representation), "features"
        )
        return frame["row"].to_numpy(), features


def schema_of(representation: str) -> pa.Schema:
    return PIXEL_ROWS if representation == "pixels" else ROWS


def cut(embed: Embed, classes: Strings, dropped: Iterable[str], ready: Mapping[str, Extractor]) -> list[Shard]:
    """All shards. They follow from the parameters and the data alone, not from who will work on them."""
    starts, recipes = range(0, len(classes), embed.shard), _recipes(embed, ready)
    return [_shard(first, classes[first : first + embed.shard], set(dropped), recipes) for first in starts]


def check_unchanged(shards: Iterable[Shard], embed: Embed, ready: Mapping[str, Extractor]) -> None:
    """Who cut the shards made their keys: what other parameters would give must not be kept under them."""
    recipes = _recipes(embed, ready)
    if any(shard.recipes != recipes for shard in shards):
        raise OutclassError("params.yaml changed while the run was under way: start it again")


def _recipes(embed: Embed, ready: Mapping[str, Extractor]) -> dict[str, str]:
    code = _digest(Path(__file__).read_bytes())
    return {
        name: _digest(f"{name} {embed.mirrored} {code} {extractor.identity}".encode())
        for name, extractor in ready.items()
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _shard(first: int, classes: Strings, dropped: set[str], recipes: dict[str, str]) -> Shard:
    without = sorted(dropped.intersection(classes.tolist()))
    empty = Shard(first, first + len(classes), without, recipes, {}, 0, 0)
    content, items, size = hashlib.sha256(), 0, 0
    for data in _contents(empty, "features" if "given" in recipes else "image"):
        content.update(len(data).to_bytes(8))
        content.update(data)
        items, size = items + 1, size + len(data)
    keys = {name: _digest(f"{recipe} {content.hexdigest()}".encode()) for name, recipe in recipes.items()}
    return replace(empty, keys=keys, items=items, size=size)


def _contents(shard: Shard, column: str) -> Iterator[bytes]:
    rows = _read(shard, column)
    if column == "image":
        yield from (data.as_py() for data in rows[column])
    else:
        yield from (row.tobytes() for row in _vectors(rows))


def _read(shard: Shard, column: str) -> pa.Table:
    schema = tables.IMAGES if column == "image" else tables.GIVEN
    rows = tables.read_rows(paths.ITEMS, schema, shard.first, shard.last, ["name", "class", column])
    return rows.take(shard.used(np.array(rows["class"].to_pylist(), dtype=str)))


def _vectors(rows: pa.Table) -> Floats:
    vectors = rows["features"].combine_chunks()
    return np.asarray(vectors.flatten()).reshape(len(vectors), vectors.type.list_size)


def make(shard: Shard, embed: Embed, ready: Mapping[str, Extractor], on_items: OnItems = lambda count: None) -> None:
    """Extract what is not finished of a shard; each representation's folder appears only when it is whole."""
    missing = {name: extractor for name, extractor in ready.items() if not shard.has(name)}
    if not missing:
        return
    views, batch = 1 + embed.mirrored, BATCH
    if embed.pretrained and "pretrained" in missing:
        batch = max(1, embed.pretrained.batch // views)
    results = {name: _Rows(views) for name in missing}
    first = 0
    for items in _batches(_prepared(shard, embed, missing), batch):
        for name, extractor in missing.items():
            results[name].add(first, [item if isinstance(item, str) else item[name] for item in items], extractor)
        first += len(items)
        on_items(len(items))
    for name, rows in results.items():
        rows.keep(shard, name)


class _Rows:
    """What becomes of a shard's items in one representation."""

    def __init__(self, views: int) -> None:
        self.views = views
        self.rows: list[Ints] = []
        self.features: list[Floats | Ints] = []
        self.bad: dict[int, str] = {}

    def add(self, first: int, items: list[Ints | str], extractor: Extractor) -> None:
        """Compute a batch; ``first`` is the row of its first item."""
        self.bad |= {first + at: item for at, item in enumerate(items) if isinstance(item, str)}
        good = np.array([first + at for at, item in enumerate(items) if not isinstance(item, str)], dtype=int)
        if len(good):
            images = [item for item in items if not isinstance(item, str)]
            stack = np.stack(images if self.views == 1 else [view for i in images for view in (i, mirror(i))])
            features = extractor.compute(stack)
            finite = np.isfinite(features).reshape(len(good), -1).all(axis=1)
            self.bad |= {int(row): "its features are not finite" for row in good[~finite]}
            self.rows.append(good[finite])
            self.features.append(features[np.repeat(finite, self.views)])

    def keep(self, shard: Shard, name: str) -> None:
        rows = np.concatenate([np.empty(0, dtype=int), *self.rows])
        features = np.concatenate(self.features) if self.features else np.empty((0, 1), dtype=np.uint8)
        final = shard.table(name, "features").parent
        if not shard.has(name):  # nobody else was faster: what is there lacks a table that was damaged
            shutil.rmtree(final, ignore_errors=True)
        with files.finished_folder(final, replace=False) as folder:
            views = {"row": np.repeat(rows, self.views), "features": features}
            tables.write(folder / "features.parquet", schema_of(name), views)
            bad = {"row": list(self.bad), "reason": list(self.bad.values())}
            tables.write(folder / "bad.parquet", BAD_ROWS, bad)


def _prepared(shard: Shard, embed: Embed, missing: Mapping[str, Extractor]) -> Iterator[Prepared]:
    """Each item of a shard as its extractors want it, decoded once for all of them, a few ahead of their use."""
    if "given" in missing:
        yield from ({"given": row} for row in _vectors(_read(shard, "features")))
        return
    rows = _read(shard, "image")
    threads = DECODERS[settings.device()] if "pretrained" in missing else 1
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Prepared]] = deque()
        for name, data in zip(rows["name"].to_pylist(), rows["image"], strict=True):
            waiting.append(pool.submit(_prepare, name, data, embed, missing))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        yield from (future.result() for future in waiting)


def _prepare(name: str, data: pa.Scalar, embed: Embed, missing: Mapping[str, Extractor]) -> Prepared:
    try:
        image = extractors.decode(data.as_py(), embed)
        return {representation: extractor.prepare(image) for representation, extractor in missing.items()}
    except OutclassError as error:
        raise OutclassError(f"{paths.ITEMS}: item {name} {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # on damaged files, Pillow and its decoders raise whatever came to their minds
        return f"not a readable image ({error or type(error).__name__})"


def _batches(items: Iterator[Prepared], size: int) -> Iterator[list[Prepared]]:
    while batch := list(islice(items, size)):
        yield batch


def still_used(shard: Shard, used: Bools, classes: Strings) -> Bools:
    """For each row of a shard, whether it may stay, given that of every row of the table."""
    here = slice(shard.first, shard.last)
    return used[here][shard.used(classes[here])]
