"""The download stage: every source into one table, and every fault of a data set said in time."""

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from outclass.datasets import Item, glyphs
from outclass.errors import OutclassError
from stages import download, params, paths, sources, tables
from tests import miniatures

GLYPHS = {
    **{"classes": 4, "images_per_class": 5, "side": 16, "size": [0.6, 0.9], "rotation": 5.0, "shear": 0.1},
    **{"shift": 0.1, "blur": 0.5, "contrast": [0.5, 1.0], "noise": 0.01},
}
TABLE = {"class_column": "label", "features_column": None, "name_column": None}
LABELS = ("cat", "dog", "emu")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTCLASS_DOWNLOADS", "downloads")
    monkeypatch.setattr(download, "FEWEST_CLASSES", 3)  # all but one of the tests here can do with so few
    return tmp_path


def bring(source, on_bad_item="fail", seed=0, input="given", leave_out=None, **groups):
    chosen = params.Download(source=source, input=input, leave_out=leave_out or {}, **groups)
    return download.bring(chosen, on_bad_item, seed)


def bring_folder(on_bad_item="fail", **options):
    return bring("image_folder", on_bad_item, **options)


def bring_table(data, on_bad_item="fail", file="given.parquet", **columns):
    if isinstance(data, dict):
        pq.write_table(pa.table(data), file)
    return bring("table", on_bad_item, input=file, table={**TABLE, **columns})


def refused(call, *arguments, **options) -> str:
    """The message of an error; nothing must have been written."""
    with pytest.raises(OutclassError) as caught:
        call(*arguments, **options)
    assert not paths.ITEMS.exists()
    assert not paths.SKIPPED_FILES.exists()
    assert not list(paths.ITEMS.parent.glob("*"))
    return str(caught.value)


def items(schema=tables.IMAGES):
    return tables.read(paths.ITEMS, schema).to_pydict()


def skipped():
    return list(tables.read_frame(paths.SKIPPED_FILES, tables.SKIPPED).itertuples(index=False, name=None))


def encoded(seed, kind="png"):
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def folder(here):
    """Three classes of four images in as many formats."""
    for number, label in enumerate(LABELS):
        (here / "given" / label).mkdir(parents=True)
        for index, kind in enumerate(("png", "jpeg", "gif", "webp")):
            (here / "given" / label / f"{index}.{kind}").write_bytes(encoded(10 * number + index, kind))
    return here / "given"


def numbers(count=12, **changes):
    """A table of two features and three classes."""
    rng = np.random.default_rng(0)
    data = {"label": [LABELS[i % 3] for i in range(count)], "x": rng.normal(size=count), "y": rng.normal(size=count)}
    return {**data, **changes}


class TestDownload:
    def test_numbers_and_names_every_item(self, project):
        table = items()
        assert table["item"] == list(range(12 * 24))
        assert len(set(table["name"])) == 12 * 24
        assert all(name.startswith(f"{label}/") for name, label in zip(table["name"], table["class"], strict=True))

    def test_has_as_many_images_of_each_class_as_asked(self, project):
        names, counts = np.unique(items()["class"], return_counts=True)
        assert sorted(names) == sorted(list(glyphs.CLASSES)[:12])
        assert set(counts) == {24}

    def test_keeps_the_pixels_as_they_were_drawn(self, project, tiny):
        wanted = dict(tiny["download"]["glyphs"])
        count, per_class, side = (wanted.pop(key) for key in ("classes", "images_per_class", "side"))
        drawn, _ = glyphs.render(list(glyphs.CLASSES)[:count], per_class, side, glyphs.Distortion(**wanted), 0)
        stored = [np.asarray(Image.open(io.BytesIO(data))) for data in items()["image"]]
        np.testing.assert_array_equal(stored, drawn)

    def test_is_the_same_twice_and_another_with_another_seed(self, project, configure):
        before = paths.ITEMS.read_bytes()
        download.run()
        assert paths.ITEMS.read_bytes() == before
        configure("seed", 1)
        download.run()
        assert paths.ITEMS.read_bytes() != before

    def test_refuses_distortions_beyond_reason_and_keeps_what_was_there(self, project, configure):
        before = paths.ITEMS.read_bytes()
        configure("download.glyphs.rotation", 170.0)
        with pytest.raises(OutclassError, match="rotation is 170"):
            download.run()
        assert paths.ITEMS.read_bytes() == before


class TestSources:
    def test_glyphs(self):
        assert bring("glyphs", glyphs=GLYPHS) == "20 images of 4 classes"
        assert set(items()["split"]) == {""}
        assert skipped() == []

    def test_cifar100(self, here):
        miniatures.build_cifar100(here / "downloads", LABELS, 4, 2, np.random.default_rng(0))
        with miniatures.accepted(here / "downloads"):
            assert bring("cifar100") == "18 images of 3 classes"
        assert items()["split"] == ["train"] * 12 + ["test"] * 6

    def test_caltech256_without_its_clutter(self, here):
        miniatures.build_caltech256(here / "downloads", [*LABELS, "clutter"], 5, np.random.default_rng(0))
        with miniatures.accepted(here / "downloads"):
            answer = bring("caltech256", leave_out={"004.clutter": "no class of objects"})
        assert answer == "15 images of 3 classes; 1 class left out"
        assert sorted(set(items()["class"])) == ["001.cat", "002.dog", "003.emu"]

    def test_caltech101(self, here):
        miniatures.build_caltech101(here / "downloads", LABELS, 5, np.random.default_rng(0))
        with miniatures.accepted(here / "downloads"):
            assert bring("caltech101") == "15 images of 3 classes"
        first = here / "downloads/caltech101/101_ObjectCategories/cat/image_0001.jpg"
        assert items()["image"][0] == first.read_bytes()

    def test_a_public_data_set_is_taken_with_its_copies(self, here):
        """A published protocol is about the data set as it is, two classes that share an image included."""
        miniatures.build_caltech256(here / "downloads", LABELS, 5, np.random.default_rng(0))
        miniatures.unpack(here / "downloads")
        root = here / "downloads/caltech256/256_ObjectCategories"
        (root / "002.dog/002_0006.jpg").write_bytes((root / "001.cat/001_0001.jpg").read_bytes())
        (root / "003.emu/003_0006.jpg").write_bytes((root / "003.emu/003_0001.jpg").read_bytes())
        answer = bring("caltech256")
        assert answer == (
            "17 images of 3 classes; 1 copy inside a class of this public data set kept; "
            "2 images stand in two classes of this public data set; they are kept"
        )
        assert skipped() == []

    @pytest.mark.parametrize("source", ["caltech101", "caltech256"])
    def test_notices_that_unpacking_was_interrupted(self, here, source):
        build = {"caltech101": miniatures.build_caltech101, "caltech256": miniatures.build_caltech256}[source]
        archive = build(here / "downloads", LABELS, 5, np.random.default_rng(0))
        data = archive.read_bytes()
        with miniatures.accepted(here / "downloads"):
            bring(source)
            before = items()
            archive.write_bytes(data)  # torchvision has deleted one of them
            victim = max((here / "downloads" / source).rglob("*.jpg"))
            victim.write_bytes(victim.read_bytes()[:100])
            with pytest.raises(OutclassError, match=r"ObjectCategories: its unpacking was interrupted; delete this"):
                bring(source)
            for path in sorted((here / "downloads" / source).rglob("*"), reverse=True):
                if path != archive:
                    path.unlink() if path.is_file() else path.rmdir()
            bring(source)
        assert items() == before

    def test_image_folder(self, folder):
        (folder / "cat/notes.txt").write_text("x")
        assert bring_folder() == "12 images of 3 classes; other files ignored: 1"
        table = items()
        assert table["name"][:5] == ["cat/0.png", "cat/1.jpeg", "cat/2.gif", "cat/3.webp", "dog/0.png"]
        assert table["image"] == [(folder / name).read_bytes() for name in table["name"]]

    @pytest.mark.parametrize("file", ["given.parquet", "given.csv", "folder"])
    def test_table(self, here, file):
        data = pa.table({**numbers(), "note": ["n"] * 12})
        if file == "folder":
            (here / "folder/b").mkdir(parents=True)
            pq.write_table(data[:5], "folder/a.parquet")
            pq.write_table(data[5:], "folder/b/c.parquet")
        elif file == "given.csv":
            pyarrow.csv.write_csv(data, file)
        else:
            pq.write_table(data, file, row_group_size=5)
        assert bring_table(None, file=file) == "12 rows of 3 classes; 2 features, from x to y; columns ignored: note"
        frame, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        assert frame["name"].tolist() == [f"row {i}" for i in range(12)]
        assert frame["class"].tolist() == data["label"].to_pylist()
        np.testing.assert_allclose(features, np.column_stack([data["x"], data["y"]]), rtol=1e-6)

    def test_table_of_lists_with_names(self):
        vectors = np.random.default_rng(0).normal(size=(12, 3)).tolist()
        data = {"label": [i % 3 for i in range(12)], "v": vectors, "key": [f"k{i}" for i in range(12)]}
        assert bring_table(data, features_column="v", name_column="key") == (
            "12 rows of 3 classes; 3 features, from v[0] to v[2]"
        )
        frame, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        assert frame["name"].tolist() == data["key"]
        assert set(frame["class"]) == {"0", "1", "2"}
        np.testing.assert_array_equal(features, np.float32(vectors))

    def test_csv_numbers_may_turn_into_fractions_late(self, here, monkeypatch):
        """pyarrow guesses types from the first block alone."""
        monkeypatch.setattr(sources, "PART_BYTES", 4 * 64)
        rows = [f"{LABELS[i % 3]},{i},0{i}" for i in range(60)] + ["cat,0.5,1e3"]
        (here / "given.csv").write_text("label,x,y\n" + "\n".join(rows))
        bring_table(None, file="given.csv")
        _, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        assert features[-1].tolist() == [0.5, 1000]
        assert features[:60, 0].tolist() == list(range(60))
        assert pq.ParquetFile(paths.ITEMS).num_row_groups > 3

    def test_without_a_network_says_what_to_place_where(self, here):
        with miniatures.offline():
            message = refused(bring, "cifar100")
        assert "downloads/cifar-100-python.tar.gz is not there and cannot be downloaded" in message


class TestStreaming:
    def test_a_part_ends_by_number_or_by_size(self, monkeypatch):
        monkeypatch.setattr(sources, "PART_ITEMS", 6)
        bring("glyphs", glyphs=GLYPHS)
        file = pq.ParquetFile(paths.ITEMS)
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [6, 6, 6, 2]
        assert items()["item"] == list(range(20))
        monkeypatch.setattr(sources, "PART_BYTES", 1)
        bring("glyphs", glyphs=GLYPHS)
        assert pq.ParquetFile(paths.ITEMS).num_row_groups == 20

    def test_memory_does_not_grow_with_the_data(self, monkeypatch):
        """A hundred parts of 1 MB: what is held at a time is a few of them, whatever their number."""
        monkeypatch.setattr(sources, "PART_BYTES", 2**20)
        noise = np.random.default_rng(0).bytes(2**18)

        def stream(count):
            for index in range(count):
                yield Item(f"{index}", LABELS[index % 3], "", encoded(index, "bmp") + noise)

        peaks = []
        for count in (40, 400):
            monkeypatch.setattr(sources, "find", lambda *_, count=count: sources.Images(stream(count)))
            tracemalloc.start()
            assert bring("glyphs", glyphs=GLYPHS).startswith(f"{count} images")
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < 1.5 * peaks[0] < 15 * 2**20

    @pytest.mark.parametrize("rows", [1000, 40_000])
    def test_a_table_is_never_in_memory_as_a_whole(self, monkeypatch, rows):
        """Neither its row groups, one after the other, nor a row group that is the whole file of 20 MB."""
        monkeypatch.setattr(sources, "PART_ITEMS", 500)
        vectors = np.random.default_rng(0).normal(size=40_000 * 128).astype(np.float32)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors), 128)
        pq.write_table(pa.table({"label": np.resize(LABELS, 40_000), "v": lists}), "given.parquet", row_group_size=rows)
        before = pa.total_allocated_bytes()
        source = sources.Given(Path("given.parquet"), params.Table(**{**TABLE, "features_column": "v"}))
        held = [pa.total_allocated_bytes() - before for _ in source.parts()]
        assert len(held) >= 80
        assert max(held) < 8 * 2**20

    def test_same_input_same_bytes(self, folder):
        bring_folder()
        before = paths.ITEMS.read_bytes(), paths.SKIPPED_FILES.read_bytes()
        bring_folder()
        assert (paths.ITEMS.read_bytes(), paths.SKIPPED_FILES.read_bytes()) == before


class TestUnreadableImages:
    @pytest.fixture
    def broken(self, folder):
        (folder / "cat/0.png").write_bytes(b"")
        (folder / "cat/1.jpeg").write_bytes(encoded(1, "jpeg")[:-20])
        (folder / "dog/0.png").write_text("<html>")
        (folder / "dog/9.png").symlink_to("nowhere.png")
        return {
            "cat/0.png": ("cat", "empty file"),
            "cat/1.jpeg": ("cat", "truncated JPEG: its end is missing"),
            "dog/0.png": ("dog", "not an image: Pillow knows no such format"),
            "dog/9.png": ("dog", "cannot be read (No such file or directory)"),
        }

    def test_fail_names_them_all(self, broken):
        lines = refused(bring_folder).splitlines()
        assert lines[0].startswith("4 problems; mend the data, or leave out what is listed (on_bad_item: skip)")
        assert lines[1:] == [f"  {name} (class {label}): {reason}" for name, (label, reason) in broken.items()]

    def test_skip_leaves_them_out_and_lists_them(self, broken):
        assert bring_folder("skip") == "9 images of 3 classes; 4 skipped (see data/skipped.parquet)"
        assert skipped() == [(name, label, reason) for name, (label, reason) in broken.items()]
        assert items()["item"] == list(range(9))
        assert not set(items()["name"]) & set(broken)

    def test_a_left_out_class_may_be_broken(self, broken, folder):
        (folder / "fox").mkdir()
        (folder / "fox/1.png").write_bytes(encoded(99))
        answer = bring_folder("skip", leave_out={"cat": "scanned badly"})
        assert answer.startswith("8 images of 3 classes; 2 skipped")
        assert {label for _, label, _ in skipped()} == {"dog"}

    def test_a_long_list_is_cut(self, folder):
        for index in range(30):
            (folder / f"emu/{index:02}.bmp").write_bytes(b"")
        lines = refused(bring_folder).splitlines()
        assert len(lines) == 1 + 20 + 1
        assert lines[-1] == "  ... and 10 more"

    def test_says_so_when_nothing_is_left_of_a_class(self, folder):
        (folder / "fox").mkdir()
        (folder / "fox/1.png").write_bytes(b"")
        assert "nothing left of 1 class fox" in bring_folder("skip")

    def test_says_why_when_nothing_is_left_at_all(self, folder):
        for path in folder.rglob("*.*"):
            path.write_bytes(b"")
        for on_bad_item in ("fail", "skip"):
            message = refused(bring_folder, on_bad_item)
            assert "0 classes with usable items; 3 are needed" in message
            assert "12 problems" in message


class TestCopies:
    @pytest.fixture
    def copied(self, folder):
        """One image in all three classes, and one twice in a class."""
        for name in ("dog/copy.png", "dog/again.png", "emu/copy.png"):
            (folder / name).write_bytes((folder / "cat/0.png").read_bytes())
        (folder / "emu/twin.webp").write_bytes((folder / "emu/3.webp").read_bytes())

    def test_fail_names_all_with_their_classes(self, copied):
        assert refused(bring_folder).splitlines()[1:] == [
            "  cat/0.png (class cat): the same image as dog/again.png (class dog), emu/copy.png (class emu)",
            "  dog/again.png (class dog): the same image as cat/0.png (class cat), emu/copy.png (class emu)",
            "  dog/copy.png (class dog): the same image as cat/0.png (class cat), emu/copy.png (class emu)",
            "  emu/copy.png (class emu): the same image as cat/0.png (class cat), dog/again.png (class dog)",
        ]

    def test_skip_drops_every_copy_of_another_class_and_all_but_one_of_the_same(self, copied, monkeypatch):
        monkeypatch.setattr(sources, "PART_ITEMS", 5)
        assert bring_folder("skip") == (
            "11 images of 3 classes; 4 skipped (see data/skipped.parquet); "
            "1 copy inside a class left out (see data/skipped.parquet)"
        )
        table = items()
        assert table["item"] == list(range(11))
        assert {"cat/0.png", "dog/copy.png", "dog/again.png", "emu/copy.png"}.isdisjoint(table["name"])
        assert "emu/3.webp" in table["name"]
        assert "emu/twin.webp" not in table["name"]
        assert [name for name, _, _ in skipped()[:4]] == ["cat/0.png", "dog/again.png", "dog/copy.png", "emu/copy.png"]
        assert skipped()[4:] == [("emu/twin.webp", "emu", "a copy of emu/3.webp")]

    @pytest.mark.parametrize("on_bad_item", ["fail", "skip"])
    def test_inside_a_class_only_the_first_stays(self, folder, monkeypatch, on_bad_item):
        """Or one would be trained on, and the other tested."""
        monkeypatch.setattr(sources, "PART_ITEMS", 5)
        for name in ("dog/0a.png", "dog/9.png"):
            (folder / name).write_bytes((folder / "dog/0.png").read_bytes())
        assert bring_folder(on_bad_item) == (
            "12 images of 3 classes; 2 copies inside a class left out (see data/skipped.parquet)"
        )
        assert skipped() == [(name, "dog", "a copy of dog/0.png") for name in ("dog/0a.png", "dog/9.png")]
        assert items()["name"][4:8] == ["dog/0.png", "dog/1.jpeg", "dog/2.gif", "dog/3.webp"]
        assert items()["image"][4] == (folder / "dog/0.png").read_bytes()

    def test_inside_a_class_of_feature_vectors(self):
        data = numbers()
        data["x"][7], data["y"][7] = data["x"][4], data["y"][4]
        assert "1 copy inside a class left out" in bring_table(data)
        assert skipped() == [("row 7", "dog", "a copy of row 4")]
        _, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        kept = [i for i in range(12) if i != 7]
        np.testing.assert_array_equal(features, np.column_stack([data["x"], data["y"]])[kept].astype(np.float32))

    def test_copies_in_a_left_out_class_do_no_harm(self, folder):
        (folder / "all").mkdir()
        (folder / "all/1.png").write_bytes((folder / "cat/0.png").read_bytes())
        assert bring_folder(leave_out={"all": "everything again"}).startswith("12 images of 3 classes")

    def test_of_feature_vectors(self):
        data = numbers()
        data["x"][7], data["y"][7] = data["x"][3], data["y"][3]
        message = refused(bring_table, data)
        assert "row 3 (class cat): the same features as row 7 (class dog)" in message
        assert bring_table(data, "skip").startswith("10 rows of 3 classes; 2 skipped")
        assert [name for name, _, _ in skipped()] == ["row 3", "row 7"]
        _, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        kept = [i for i in range(12) if i not in (3, 7)]
        np.testing.assert_array_equal(features, np.column_stack([data["x"], data["y"]])[kept].astype(np.float32))


class TestFeatures:
    def test_missing_and_infinite_values(self):
        data = numbers()
        data["x"][4], data["y"][5] = np.nan, np.inf
        message = refused(bring_table, data)
        assert "row 4 (class dog): x is missing or NaN" in message
        assert "row 5 (class emu): y is infinite" in message
        assert bring_table(data, "skip").startswith("10 rows of 3 classes; 2 skipped")
        assert skipped() == [("row 4", "dog", "x is missing or NaN"), ("row 5", "emu", "y is infinite")]

    def test_another_width(self):
        vectors = np.random.default_rng(0).normal(size=(12, 3)).tolist()
        vectors[8] = [1.0]
        data = {"label": numbers()["label"], "v": vectors}
        message = refused(bring_table, data, features_column="v")
        assert "row 8 (class emu): has 1 features instead of 3" in message
        assert bring_table(data, "skip", features_column="v").startswith("11 rows of 3 classes; 1 skipped")

    def test_constant_columns(self):
        data = numbers(flat=[2.5] * 12)
        assert "column flat: is 2.5 in every row" in refused(bring_table, data)
        assert bring_table(data, "skip").startswith("12 rows of 3 classes; 1 skipped")
        assert skipped() == [("column flat", "", "is 2.5 in every row")]
        _, features = tables.read_vectors(paths.ITEMS, tables.GIVEN, "features")
        np.testing.assert_array_equal(features, np.column_stack([data["x"], data["y"]]).astype(np.float32))

    def test_constant_places_of_a_list(self):
        vectors = np.random.default_rng(0).normal(size=(12, 3))
        vectors[:, 1] = 0
        message = refused(bring_table, {"label": numbers()["label"], "v": vectors.tolist()}, features_column="v")
        assert "column v[1]: is 0 in every row" in message

    def test_nothing_but_constants_cannot_be_skipped(self):
        """All rows are then the same, whatever their class."""
        message = refused(bring_table, {"label": list(LABELS), "x": [1.0] * 3}, "skip")
        assert "0 classes with usable items" in message
        assert "column x: is 1 in every row" in message

    def test_rows_without_a_class(self):
        data = numbers()
        data["label"][2] = None
        data["label"][3] = "  "
        message = refused(bring_table, data)
        assert "row 2: has no class" in message
        assert "row 3: has no class" in message
        assert bring_table(data, "skip").startswith("10 rows of 3 classes; 2 skipped")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("label,x\ncat,1\ndog,two\nemu,3\n", r"column x has text among its numbers, first 'two' in row 1"),
            ("label,x\ncat,1\ndog\n", r"given\.csv: cannot be read as a table: .*Expected 2 columns"),
            ("label,x\n", "0 classes with usable items"),
            ("", r"given\.csv: cannot be read as a table: Empty CSV file"),
        ],
    )
    def test_csv_files_that_are_not_right(self, here, text, message):
        (here / "given.csv").write_text(text)
        with pytest.raises(OutclassError, match=message):
            bring_table(None, file="given.csv")

    def test_text_far_down_in_a_feature_column(self, here, monkeypatch):
        monkeypatch.setattr(sources, "PART_BYTES", 4 * 64)
        rows = [f"{LABELS[i % 3]},{i},{i * i}" for i in range(60)] + ["cat,1,none at all"]
        (here / "given.csv").write_text("label,x,y\n" + "\n".join(rows))
        message = refused(bring_table, None, file="given.csv")
        assert "given.csv: cannot be read as a table" in message
        assert "column y" in message
        assert "'none at all'" in message

    def test_says_which_parameter_names_a_missing_column(self):
        message = refused(bring_table, numbers(), class_column="klass")
        assert message.startswith("given.parquet: download.table.class_column: there is no column klass")

    def test_an_index_is_no_feature(self, here):
        """Rows are sorted by class: their numbers would tell it."""
        frame = pd.DataFrame(numbers()).sort_values("label")
        frame.to_csv("given.csv")
        message = refused(bring_table, None, file="given.csv")
        assert "given.csv: download.table: column '' looks like the index of a data frame" in message
        assert "save the table with index=False, or name the column as download.table.name_column" in message
        assert bring_table(None, file="given.csv", name_column="").endswith("2 features, from x to y")
        assert items(tables.GIVEN)["name"] == [str(row) for row in frame.index]

    def test_an_index_in_parquet_is_no_feature(self, here):
        pd.DataFrame(numbers()).sort_values("label").to_parquet("given.parquet")
        message = refused(bring_table, None)
        assert "column '__index_level_0__' looks like the index" in message
        pd.DataFrame(numbers()).sort_values("label").to_parquet("given.parquet", index=False)
        assert bring_table(None) == "12 rows of 3 classes; 2 features, from x to y"

    @pytest.mark.parametrize("on_bad_item", ["fail", "skip"])
    def test_names_must_be_different(self, on_bad_item, monkeypatch):
        monkeypatch.setattr(sources, "PART_ITEMS", 4)
        data = numbers(key=[f"k{i}" for i in range(12)])
        data["key"][10] = "k3"
        data["x"][10] = np.nan  # also where the row itself is left out
        message = refused(bring_table, data, on_bad_item, name_column="key")
        assert "given.parquet: download.table.name_column: 'k3' is the name of rows 3 and 10: choose a" in message
        assert "or null to name rows by their number" in message

    def test_decimal_commas_are_refused(self, here):
        (here / "given.csv").write_text('label,x,y\ncat,"0,5",1\ndog,"1,25",2\nemu,"3,0",3\n')
        message = refused(bring_table, None, file="given.csv")
        assert "column x has text among its numbers, first '0,5' in row 0" in message
        assert "decimals take a point, not a comma" in message

    def test_files_of_a_folder_must_agree(self, here):
        (here / "folder").mkdir()
        pq.write_table(pa.table(numbers()), "folder/a.parquet")
        pq.write_table(pa.table(numbers(z=[1.0] * 12)), "folder/b.parquet")
        message = refused(bring_table, None, file="folder")
        assert "folder/b.parquet: its features are x, y, z, those of the files before it x, y" in message

    @pytest.mark.parametrize("name", ["given.txt", "absent.parquet", "empty", "broken.parquet"])
    def test_files_that_are_no_tables(self, here, name):
        (here / "given.txt").write_text("x")
        (here / "broken.parquet").write_bytes(b"PAR1 and then nothing")
        (here / "empty").mkdir()
        assert name in refused(bring_table, None, file=name)


class TestClasses:
    def test_names_are_cleaned(self, folder):
        (folder / "cat").rename(folder / " cafe\u0301  noir")
        bring_folder()
        assert sorted(set(items()["class"])) == ["caf\u00e9 noir", "dog", "emu"]

    @pytest.mark.parametrize("on_bad_item", ["fail", "skip"])
    @pytest.mark.parametrize("other", ["Cat", "cat ", "c\u00e4t"])
    def test_spellings_that_are_taken_for_each_other(self, folder, other, on_bad_item):
        if other == "c\u00e4t":
            (folder / "cat").rename(folder / "ca\u0308t")
        (folder / other).mkdir()
        (folder / other / "x.png").write_bytes(encoded(77))
        message = refused(bring_folder, on_bad_item)
        assert f"{other!r}" in message
        assert "differ by white space, case or Unicode form alone: give one class one spelling" in message

    def test_all_is_said_together(self, folder):
        (folder / "Cat").mkdir()
        (folder / "Cat/x.png").write_bytes(b"")
        message = refused(bring_folder, leave_out={"dgo": "typing"})
        assert "classes 'Cat', 'cat' differ" in message
        assert "no class 'dgo'; the closest of 4 are 'dog'" in message
        assert "Cat/x.png (class Cat): empty file" in message

    def test_leave_out_is_clean_too(self, folder):
        (folder / "fox").mkdir()
        (folder / "fox/1.png").write_bytes(encoded(5))
        assert bring_folder(leave_out={" fox ": "why not"}) == "12 images of 3 classes; 1 class left out"

    def test_too_few_say_where_to_look(self, folder):
        message = refused(bring_folder, leave_out={"dog": "barks"})
        assert "given: 2 classes with usable items (cat, emu); 3 are needed" in message
        assert "download.input may point one level too deep or too high" in message

    def test_four_are_the_least(self, folder, monkeypatch):
        """One novel, one presumed novel, and two that a network tells apart."""
        monkeypatch.undo()
        monkeypatch.chdir(folder.parent)
        assert "3 classes with usable items (cat, dog, emu); 4 are needed" in refused(bring_folder)
        (folder / "fox").mkdir()
        (folder / "fox/1.png").write_bytes(encoded(5))
        assert bring_folder() == "13 images of 4 classes"

    def test_a_single_class_when_the_folder_is_one_level_too_high(self, folder):
        assert "1 class with usable items (given)" in refused(bring_folder, input=".")
