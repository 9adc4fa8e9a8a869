"""Open the source that params.yaml names, and give it part by part: never more than a part is in memory."""

import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from outclass.datasets import Item, copies, glyphs, table
from outclass.datasets.image_folder import ImageFolder
from outclass.errors import Fault, OutclassError
from stages import params, readable, tables
from stages.validation import Part

if TYPE_CHECKING:
    from outclass.datasets.archives import Archive

PART_ITEMS, PART_BYTES = 4096, 32 * 2**20
"""A part ends with whichever comes first."""
STREAMED: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**16, "page_checksum_verification": True}
"""With the first two, pyarrow reads Parquet page by page; without, it keeps all it has read of a file until the end."""


class Images:
    """A stream of items as parts; files are read here."""

    schema, unit, content = tables.IMAGES, "images", "image"
    titles: Sequence[str] = ()  # of the features

    def __init__(self, items: Iterable[Item], published: bool = False) -> None:
        self.items = items
        self.published = published  # a public data set, with a checksum

    def parts(self) -> Iterator[Part]:
        good: list[Item] = []
        faults: list[Fault] = []
        size = 0
        for item in self.items:
            data, reason = _read(item.image)
            if reason:
                faults.append(Fault(item.name, item.label, reason))
            else:
                good.append(item._replace(image=data))
                size += len(data)
            if size >= PART_BYTES or len(good) + len(faults) >= PART_ITEMS:
                yield _part(good, faults)
                good, faults, size = [], [], 0
        yield _part(good, faults)

    def notes(self) -> list[str]:
        ignored = getattr(self.items, "ignored", 0)
        return [f"other files ignored: {ignored:,}"] if ignored else []


class Given:
    """A table of features, in one file or a folder of Parquet files."""

    schema, unit, content, published = tables.GIVEN, "rows", "features", False

    def __init__(self, path: Path, chosen: params.Table) -> None:
        self.path = path
        self.chosen = chosen
        self.columns: table.Columns | None = None  # known, like the width, as soon as there is a batch
        self.width = 0

    def parts(self) -> Iterator[Part]:
        first, digests = 0, bytearray()
        for batch in self._batches():
            assert self.columns is not None
            if self.columns.name is not None:  # numbers are different by nature
                names = table.row_names(batch, self.columns, first)
                digests.extend(b"".join(copies.digest(name.encode()) for name in names))
            self.width = self.width or table.width(batch, self.columns)
            rows = table.rows(batch, self.columns, first, self.width)
            first += len(batch)
            splits = [""] * len(rows.names)
            yield Part(
                {"name": rows.names, "class": rows.labels, "split": splits, "features": rows.features}, rows.faults
            )
        self._check_names(digests)

    @property
    def titles(self) -> list[str]:
        return [self.columns.title(index) for index in range(self.width)] if self.columns else []

    def notes(self) -> list[str]:
        titles, ignored = self.titles, self.columns.ignored if self.columns else ()
        several = f"{len(titles):,} features, from {titles[0]} to {titles[-1]}"
        features = several if len(titles) > 1 else f"1 feature, {titles[0]}"
        return [features, *([f"columns ignored: {', '.join(ignored)}"] if ignored else [])]

    def _check_names(self, digests: bytearray) -> None:
        """Whatever comes later finds items by their names."""
        found = copies.find(digests, np.zeros(len(digests) // copies.SIZE, np.int32))
        if found.repeated.any():
            row = int(found.repeated.argmax())
            twice = f"{self._name_of(row)!r} is the name of rows {found.first[row]} and {row}"
            raise OutclassError(
                f"{self.path}: download.table.name_column: {twice}: choose a column whose values are all different, "
                f"or null to name rows by their number"
            )

    def _name_of(self, row: int) -> str:
        first = 0
        for batch in self._batches():
            assert self.columns is not None
            if row < first + len(batch):
                return table.row_names(batch, self.columns, first)[row - first]
            first += len(batch)
        raise AssertionError(f"the table has no row {row}")

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with _explained(self.path):
            if self.path.is_dir() or self.path.suffix.lower() in (".parquet", ".pq"):
                yield from self._from_parquet()
            elif self.path.suffix.lower() == ".csv":
                yield from self._from_csv()
            else:
                raise OutclassError(
                    f"download.input: {self.path} is no table; it should be a .parquet or .csv file, "
                    f"or a folder of .parquet files"
                )

    def _from_parquet(self) -> Iterator[pa.RecordBatch]:
        files = sorted(self.path.rglob("[!.]*.parquet")) if self.path.is_dir() else [self.path]
        if not files:
            raise OutclassError(f"download.input: {self.path} has no .parquet files")
        for file in files:
            with _explained(file), pq.ParquetFile(file, **STREAMED) as opened:
                self._choose(opened.schema_arrow, file)
                assert self.columns is not None
                yield from opened.iter_batches(PART_ITEMS, columns=self.columns.used)

    def _from_csv(self) -> Iterator[pa.RecordBatch]:
        """Types are guessed from the first block, but numbers may turn from whole to fractions after it."""
        blocks = pc.ReadOptions(use_threads=False, block_size=PART_BYTES // 4)
        with pc.open_csv(self.path, blocks) as guessed:
            for batch in islice(guessed, 1):
                table.check_text(batch, self.chosen.class_column, self.chosen.name_column)
            header = guessed.schema.names
            self._choose(guessed.schema, self.path)
        assert self.columns is not None
        types = {name: pa.float64() if name in self.columns.features else pa.string() for name in self.columns.used}
        options = pc.ConvertOptions(column_types=types, include_columns=self.columns.used)
        with _explained(self.path, header), pc.open_csv(self.path, blocks, convert_options=options) as reader:
            yield from reader

    def _choose(self, schema: pa.Schema, file: Path) -> None:
        try:
            columns = table.choose(
                schema, self.chosen.class_column, self.chosen.features_column, self.chosen.name_column
            )
        except OutclassError as error:
            raise OutclassError(f"{file}: {error}") from error
        if self.columns is not None and columns.features != self.columns.features:
            raise OutclassError(
                f"{file}: its features are {', '.join(columns.features)}, those of the files before it "
                f"{', '.join(self.columns.features)}: give all files the same columns"
            )
        self.columns = columns


Source = Images | Given


def find(chosen: params.Download, seed: int, downloads: Path) -> Source:
    """The source as chosen. torchvision is loaded only where it is needed: that takes seconds."""
    if chosen.source == "table":
        assert chosen.table is not None
        return Given(Path(chosen.input), chosen.table)
    if chosen.source == "image_folder":
        return Images(ImageFolder(Path(chosen.input)))
    if chosen.source == "glyphs":
        assert chosen.glyphs is not None
        return Images(_glyphs(chosen.glyphs, seed))
    return Images(_public(chosen.source, downloads), published=True)


def _glyphs(wanted: params.Glyphs, seed: int) -> Iterator[Item]:
    names = list(glyphs.CLASSES)[: wanted.classes]
    distortion = glyphs.Distortion(**wanted.model_dump(exclude={"classes", "images_per_class", "side"}))
    return glyphs.items(names, wanted.images_per_class, wanted.side, distortion, seed)


def _public(source: str, downloads: Path) -> Iterator[Item]:
    from outclass.datasets import caltech101, caltech256, cifar100

    if source == "cifar100":
        return cifar100.items(downloads)
    archive, items = {
        "caltech101": (caltech101.ARCHIVE, caltech101.items),
        "caltech256": (caltech256.ARCHIVE, caltech256.items),
    }[source]
    _check_unpacked(archive, downloads)
    return items(downloads)


def _check_unpacked(archive: "Archive", root: Path) -> None:
    """torchvision takes any folder for whole, also one whose unpacking was interrupted."""
    path, folder = root / archive.path, root / archive.unpacked
    if path.exists() and folder.exists() and not _is_whole(path):
        raise OutclassError(f"{folder}: its unpacking was interrupted; delete this folder and run again")


def _is_whole(path: Path) -> bool:
    """Is everything there that is in an archive?"""
    if path.suffix != ".tar":
        return False  # torchvision deletes the others as soon as they are unpacked
    try:
        with tarfile.open(path) as archive:
            return all(_size(path.parent / member.name) == member.size for member in archive if member.isfile())
    except tarfile.TarError:
        return True  # cannot be what the folder was unpacked from


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _read(image: bytes | Path) -> tuple[bytes, str | None]:
    """An image's bytes, or why it cannot be used."""
    if isinstance(image, bytes):
        return image, readable.fault(image)
    try:
        data = image.read_bytes()
    except OSError as error:
        return b"", f"cannot be read ({error.strerror})"
    return data, readable.fault(data)


def _part(items: list[Item], faults: list[Fault]) -> Part:
    names, labels, splits, images = (list(column) for column in zip(*items, strict=True)) if items else ([],) * 4
    return Part({"name": names, "class": labels, "split": splits, "image": images}, faults)


@contextmanager
def _explained(path: Path, header: Sequence[str] = ()) -> Iterator[None]:
    """What pyarrow and the file system say, with the names of the file and of its columns."""
    try:
        yield
    except FileNotFoundError:
        raise OutclassError(f"download.input: {path} is not there; it should name a table") from None
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        for index, name in enumerate(header):
            text = text.replace(f"column #{index}:", f"column {name}:")
        raise OutclassError(f"{path}: cannot be read as a table: {text}; mend the file") from error
