"""The stage that turns items into features: which items, which values, and what is done again."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from outclass.errors import OutclassError
from outclass.features import pretrained
from outclass.features.hog import HogSettings, histograms
from stages import embed, extractors, paths, shards, tables

HOG = {"side": 16, "orientations": 4, "cell": 8, "block": 1}
PER_CLASS = 7
CLASSES = ["a", "b", "c", "d", "e", "f"]


def png(pixels: np.ndarray, mode: str | None = None) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(buffer, "png")
    return buffer.getvalue()


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


PICTURES = [noise(20, 24, 3, seed=item) for item in range(PER_CLASS * len(CLASSES))]


def rows(**changes) -> dict[str, list]:
    """42 colour images, the classes taking turns."""
    count = len(PICTURES)
    labels = [CLASSES[item % len(CLASSES)] for item in range(count)]
    names = [f"{label}/{item:02}.png" for item, label in enumerate(labels)]
    columns = {"item": [10 + item for item in range(count)], "name": names, "class": labels, "split": [""] * count}
    return {**columns, "image": [png(picture) for picture in PICTURES], **changes}


def write(columns: dict[str, list]) -> None:
    tables.write(paths.ITEMS, tables.IMAGES if "image" in columns else tables.GIVEN, columns)


@pytest.fixture
def setup(tmp_path, monkeypatch, tiny):
    """A folder with the pictures and parameters for them; call it to change parameters of embed and others."""
    monkeypatch.chdir(tmp_path)
    items = {"train": 3, "calibration": 1, "test": 1}
    tiny["split"].update(novel_classes=1, presumed_novel_classes=1, items=items, set_sizes=[1])

    def configure(on_bad_item: str = "fail", pca: int | None = None, **changes) -> None:
        tiny["on_bad_item"] = on_bad_item
        tiny["baselines"]["pca"] = pca
        tiny["embed"] = {"representations": ["hog"], "mirrored": False, "shard": 10, "hog": HOG, **changes}
        first = next(name for name in tiny["embed"]["representations"] if name != "pixels")
        tiny["backbone"]["input"] = tiny["baselines"]["input"] = f"features/{first}.parquet"
        tiny["pooled"]["input"] = f"features/{first}.parquet"
        Path("params.yaml").write_text(yaml.safe_dump(tiny))

    write(rows())
    configure()
    return configure


def features(name: str = "hog") -> np.ndarray:
    """The features of a representation, after a look that its rows are those of features/items.parquet."""
    schema = tables.PIXELS if name == "pixels" else tables.FEATURES
    frame, vectors = tables.read_vectors(paths.features(name), schema, "features")
    used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
    assert frame["item"].tolist() == used["item"].tolist()
    assert frame["mirrored"].tolist() == used["mirrored"].tolist()
    return vectors


def skipped() -> list[tuple[str, str, str]]:
    frame = tables.read_frame(paths.SKIPPED_ITEMS, tables.SKIPPED)
    return list(frame.itertuples(index=False, name=None))


def output() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(paths.FEATURES.iterdir())}


@pytest.fixture
def computed(monkeypatch):
    """Counts the items that are decoded from now on."""
    done: list[int] = []
    real = extractors.decode
    monkeypatch.setattr(extractors, "decode", lambda data, chosen: done.append(1) or real(data, chosen))
    return done


class TestEmbed:
    """On the tiny preset, as the other stages take it."""

    def test_gives_each_item_the_features_of_its_own_image(self, project):
        table = tables.read(paths.ITEMS, tables.IMAGES).to_pydict()
        images = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in table["image"]])
        vectors = features()
        np.testing.assert_array_equal(vectors, histograms(images, HogSettings()))
        assert vectors.shape == (288, 144)
        assert len(np.unique(vectors, axis=0)) == 288
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        for column in ("item", "name", "class", "split"):
            assert used[column].tolist() == table[column]
        assert skipped() == []

    def test_follows_items_in_any_order(self, project):
        before = features()
        order = np.random.default_rng(0).permutation(len(before))
        table = tables.read(paths.ITEMS, tables.IMAGES).to_pydict()
        tables.write(paths.ITEMS, tables.IMAGES, {name: [values[i] for i in order] for name, values in table.items()})
        embed.run()
        np.testing.assert_array_equal(features(), before[order])

    def test_follows_its_parameters(self, project, configure):
        configure("embed.hog.orientations", 4)
        assert embed.run().startswith("64 hog features of 288 items (")


class TestRepresentations:
    def test_hog_of_the_centre_in_grey(self, setup):
        embed.run()
        cut = [Image.fromarray(picture).resize((16, 16), Image.BICUBIC, (2, 0, 22, 20)) for picture in PICTURES]
        grey = np.stack([np.asarray(image.convert("L")) for image in cut])
        np.testing.assert_array_equal(features(), histograms(grey, HogSettings(4, 8, 1)))

    def test_pixels_are_flattened_channels_last(self, setup):
        setup(representations=["hog", "pixels"], pixels={"side": 8})
        assert embed.run().startswith("16 hog and 192 pixels features of 42 items")
        expected = Image.fromarray(PICTURES[5]).resize((8, 8), Image.BICUBIC, (2, 0, 22, 20))
        np.testing.assert_array_equal(features("pixels")[5].reshape(8, 8, 3), np.asarray(expected))

    def test_pretrained_features_are_the_network_s(self, setup):
        setup(representations=["pretrained"], pretrained={"network": "efficientnet_lite0", "side": 32, "batch": 4})
        write({name: values[:36] for name, values in rows().items()})
        assert embed.run().startswith("1280 pretrained (")
        cut = np.stack([Image.fromarray(p).resize((32, 32), Image.BICUBIC, (2, 0, 22, 20)) for p in PICTURES[:36]])
        network = pretrained.load("efficientnet_lite0", 32)
        np.testing.assert_allclose(features("pretrained"), network.features(cut), atol=1e-4)

    def test_given_features_are_copied(self, setup):
        setup(representations=["given"])
        vectors = np.random.default_rng(0).normal(size=(42, 5)).astype(np.float32)
        write({**{n: v for n, v in rows().items() if n != "image"}, "features": vectors})
        assert embed.run().startswith("5 given features of 42 items")
        np.testing.assert_array_equal(features("given"), vectors)

    def test_a_mirrored_view_is_the_flipped_image_s_own(self, setup):
        setup(representations=["hog", "pixels"], pixels={"side": 20}, hog={**HOG, "side": 20})
        square = [picture[:, :20] for picture in PICTURES]
        write(rows(image=[png(p[:, ::-1]) for p in square]))
        embed.run()
        flipped = [features(name) for name in ("hog", "pixels")]
        write(rows(image=[png(p) for p in square]))
        setup(representations=["hog", "pixels"], pixels={"side": 20}, hog={**HOG, "side": 20}, mirrored=True)
        embed.run()
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        assert used["item"].tolist() == np.repeat(np.arange(10, 52), 2).tolist()
        assert used["mirrored"].tolist() == [False, True] * 42
        for name, expected in zip(("hog", "pixels"), flipped, strict=True):
            np.testing.assert_array_equal(features(name)[1::2], expected)
            assert not np.array_equal(features(name)[::2], expected)

    def test_every_item_is_decoded_once_for_all_representations(self, setup, computed):
        setup(representations=["hog", "pixels"], pixels={"side": 8})
        embed.run()
        assert len(computed) == 42

    @pytest.mark.parametrize(("name", "column"), [("given", "images"), ("hog", "features")])
    def test_a_representation_that_the_source_has_not_is_named(self, setup, name, column):
        setup(representations=[name])
        if column == "features":
            write({**{n: v for n, v in rows().items() if n != "image"}, "features": np.ones((42, 3))})
        with pytest.raises(OutclassError, match=rf"embed\.representations has {name}, but .* holds {column}: choose"):
            embed.run()

    def test_images_of_one_size_are_taken_as_they_come(self, setup):
        setup(hog={**HOG, "side": None})
        embed.run()
        grey = np.stack([np.asarray(Image.fromarray(picture).convert("L")) for picture in PICTURES])
        np.testing.assert_array_equal(features(), histograms(grey, HogSettings(4, 8, 1)))

    @pytest.mark.parametrize("item", [7, 33], ids=["in the first shard", "in another shard"])
    def test_an_image_of_another_size_is_named(self, setup, item):
        setup("skip", hog={**HOG, "side": None})
        table = rows()
        table["image"][item] = png(noise(24, 20, 3))  # as many features, and yet another thing
        write(table)
        name = table["name"][item]
        with pytest.raises(OutclassError, match=rf"item {name} is 20 x 24 pixels, others are 24 x 20: set embed\.hog"):
            embed.run()

    def test_cells_larger_than_the_images_are_refused_at_once(self, setup, computed):
        setup(hog={**HOG, "cell": 32})
        with pytest.raises(OutclassError, match=r"embed\.hog: a block of 1 cells of 32 pixels"):
            embed.run()
        assert not computed

    def test_large_photographs_are_decoded_no_larger_than_needed(self, setup):
        setup()
        smooth = np.linspace(0, 255, 2000)[None, :, None].repeat(1500, 0).repeat(3, 2).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(smooth).save(buffer, "jpeg", quality=95)
        chosen = embed.params.load().embed
        reduced = extractors.decode(buffer.getvalue(), chosen)
        assert min(reduced.size) >= extractors.REDUCED > 1500 // 4
        np.testing.assert_allclose(
            extractors.images.grey(reduced, 16), extractors.images.grey(Image.fromarray(smooth), 16), atol=3
        )


class TestBadItems:
    def break_some(self, *items: int) -> list[str]:
        """Pictures whose header is fine, and whose pixels end too early."""
        table = rows()
        for item in items:
            table["image"][item] = table["image"][item][:-300]
        write(table)
        return [table["name"][item] for item in items]

    def test_fail_names_every_one_of_the_shard(self, setup):
        names = self.break_some(3, 8)
        with pytest.raises(OutclassError) as caught:
            embed.run()
        for name in names:
            assert f"{name} (class {name[0]}): not a readable image (" in str(caught.value)
        assert "set on_bad_item: skip: what is finished of the others is kept" in str(caught.value)
        assert "If you remove files instead, all items behind the first move up" in str(caught.value)
        assert not paths.FEATURES.exists()

    def test_what_was_finished_is_kept_and_known_to_be_bad(self, setup, computed):
        self.break_some(33)
        with pytest.raises(OutclassError, match=r"33\.png"):
            embed.run()
        assert len(computed) == 40  # three whole shards and the bad one
        with pytest.raises(OutclassError, match=r"33\.png"):
            embed.run()
        assert len(computed) == 40
        setup("skip")
        embed.run()
        assert len(computed) == 42

    def test_skip_leaves_them_out_of_every_table(self, setup):
        setup("skip", representations=["hog", "pixels"], pixels={"side": 8}, mirrored=True)
        names = self.break_some(3, 33)
        assert "of 40 items, 2 left out" in embed.run()
        assert [(name, label) for name, label, _ in skipped()] == [(name, name[0]) for name in names]
        assert all(reason.startswith("not a readable image (") for _, _, reason in skipped())
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        assert set(range(10, 52)) - set(used["item"]) == {13, 43}
        assert len(features("hog")) == len(features("pixels")) == 80

    def test_the_others_keep_their_values(self, setup):
        embed.run()
        before = features()
        setup("skip")
        self.break_some(3, 33)
        embed.run()
        np.testing.assert_array_equal(features(), np.delete(before, [3, 33], axis=0))

    @pytest.mark.parametrize("data", [b"", b"no image"], ids=["empty", "text"])
    def test_what_is_no_image_at_all(self, setup, data):
        table = rows()
        table["image"][7] = data
        write(table)
        with pytest.raises(OutclassError, match=r"b/07\.png \(class b\): not a readable image"):
            embed.run()

    def test_a_png_that_is_broken_inside(self, setup):
        table = rows()
        data = table["image"][7]
        length = data.index(b"IDAT") - 4
        table["image"][7] = data[:length] + (100).to_bytes(4) + data[length + 4 :]  # a chunk said to end too early
        write(table)
        with pytest.raises(OutclassError, match=r"b/07\.png \(class b\): not a readable image"):
            embed.run()

    def test_features_that_are_not_finite(self, setup):
        setup("skip", representations=["given"])
        vectors = np.random.default_rng(0).normal(size=(42, 5)).astype(np.float32)
        vectors[4, 2], vectors[20, 0] = np.nan, np.inf
        write({**{n: v for n, v in rows().items() if n != "image"}, "features": vectors})
        embed.run()
        assert skipped() == [
            ("e/04.png", "e", "its features are not finite"),
            ("c/20.png", "c", "its features are not finite"),
        ]
        np.testing.assert_array_equal(features("given"), np.delete(vectors, [4, 20], axis=0))

    def test_a_whole_shard_of_them(self, setup):
        setup("skip", shard=2)
        self.break_some(4, 5)
        assert "of 40 items, 2 left out" in embed.run()
        assert len(features()) == 40

    def test_an_image_that_is_bad_from_the_start_does_not_set_the_size(self, setup):
        setup("skip", hog={**HOG, "side": None})
        self.break_some(0)
        assert "of 41 items" in embed.run()

    def test_looking_for_the_size_reads_no_row_group_again_and_again(self, setup, monkeypatch):
        setup("skip", hog={**HOG, "side": None})
        self.break_some(0, 1, 2, 3)
        reads: list[int] = []
        real = tables.read_rows
        monkeypatch.setattr(tables, "read_rows", lambda *asked: reads.append(1) or real(*asked))
        extractors.build(embed.params.load().embed)
        assert len(reads) == 1

    def test_one_in_a_shard_with_a_dropped_class(self, setup):
        """Shards count the items in use, tables all of them: neither may be taken for the other."""
        table = rows()
        table["image"][15] = table["image"][15][:-300]
        gone = {0, 6, 18}  # of the class a, of which item 12 and others are still there, in the same shard
        write({name: [v for i, v in enumerate(values) if i not in gone] for name, values in table.items()})
        setup("skip", shard=20)
        work = embed.plan()
        assert [shard.without for shard in work.shards] == [["a"], ["a"]]
        assert "of 34 items, 5 left out" in embed.run()
        assert [(name, label) for name, label, _ in skipped()] == [("d/15.png", "d"), ("", "a")]
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        left = [item for item in range(42) if item % 6 and item != 15]
        assert used["item"].tolist() == [10 + item for item in left]
        expected = histograms(np.stack([_grey(item) for item in left]), HogSettings(4, 8, 1))
        np.testing.assert_array_equal(features(), expected)
        assert [fault[:2] for fault in embed._bad_items(work.shards[0])] == [("d/15.png", "d")]

    def test_constant_features_are_counted(self, setup):
        setup(representations=["given"])
        vectors = np.random.default_rng(0).normal(size=(42, 5)).astype(np.float32)
        vectors[:, 1] = 3
        write({**{n: v for n, v in rows().items() if n != "image"}, "features": vectors})
        assert embed.run().startswith("5 given (1 of them constant) features of 42 items")

    def test_features_that_are_all_constant_are_refused(self, setup):
        write(rows(image=[png(PICTURES[0])] * 42))
        with pytest.raises(OutclassError, match="all hog features are constant"):
            embed.run()
        assert not paths.FEATURES.exists()


class TestSmallClasses:
    def without(self, *dropped: int) -> None:
        write({name: [v for i, v in enumerate(values) if i not in dropped] for name, values in rows().items()})

    def test_fail_names_all_of_them_before_any_work(self, setup, computed):
        self.without(0, 6, 12, 1, 7, 13)  # four items are left of a and b; five are needed
        with pytest.raises(OutclassError, match=r"(?s)class 'a': has 4 items.*class 'b': has 4 items"):
            embed.run()
        assert not computed

    def test_skip_drops_them_as_a_whole(self, setup, computed):
        setup("skip")
        self.without(0, 6, 12)
        assert "of 35 items, 4 left out" in embed.run()
        assert len(computed) == 35
        [(name, label, reason)] = skipped()
        assert (name, label) == ("", "a")
        assert "has 4 items" in reason
        used = tables.read_frame(paths.USED_ITEMS, tables.USED_ITEMS)
        assert set(used["class"]) == set("bcdef")
        full = [item for item in range(42) if item % 6]
        assert used["item"].tolist() == [10 + item for item in full]
        np.testing.assert_array_equal(features()[3], histograms(_grey(full[3])[None], HogSettings(4, 8, 1))[0])

    def test_skipped_items_may_make_a_class_too_small(self, setup):
        setup("skip")
        table = rows()
        for item in (0, 6, 12):
            table["image"][item] = b"no image"
        write(table)
        assert "of 35 items, 7 left out" in embed.run()
        assert [(name, label) for name, label, _ in skipped()] == [
            *(("a/00.png", "a"), ("a/06.png", "a"), ("a/12.png", "a"), ("", "a"))
        ]
        assert len(features()) == 35

    def test_when_all_are_dropped_it_says_why(self, setup, computed):
        setup("skip")
        self.without(*range(24))
        with pytest.raises(OutclassError) as caught:
            embed.run()
        lines = str(caught.value).splitlines()
        assert lines[0].startswith("split.novel_classes = 1, but there are 0 classes in")
        assert lines[0].endswith(": at least 4 are needed, one of them novel")
        assert len(lines) == 2 + len(CLASSES)
        assert lines[2].startswith("  class a: has 3 items, split.items and split.set_sizes ask for at least 5")
        assert not computed

    def test_and_so_it_does_when_too_few_are_left(self, setup):
        setup("skip")
        self.without(*range(18), *range(19, 42, 6), *range(20, 42, 6))
        with pytest.raises(OutclassError, match=r"(?s)there are 0 classes.*class a: has 4 items"):
            embed.run()

    def test_a_long_list_of_them_is_cut(self, setup):
        setup("skip")
        write(rows(**{"class": [f"{item:02}" for item in range(42)]}))
        with pytest.raises(OutclassError, match=r"(?s)class 00: has 1 items.*class 19: .*\.\.\. and 22 more$"):
            embed.run()

    @pytest.mark.parametrize("broken", [0, 6], ids=["", "and an unreadable one before the first in use"])
    def test_one_that_is_dropped_does_not_set_the_size(self, setup, broken):
        """Its images may be of any size: nobody looks at them."""
        setup("skip", hog={**HOG, "side": None}, shard=4)
        table = rows()
        for item in range(0, 42, 6):
            table["image"][item] = png(noise(30, 40, 3, seed=item))
        if broken:
            table["image"][1] = b"no image"
        gone = {6, 12, 18}
        write({name: [v for i, v in enumerate(values) if i not in gone] for name, values in table.items()})
        assert f"of {34 if broken else 35} items" in embed.run()

    def test_too_few_classes_are_refused_before_any_work(self, setup, computed):
        setup("skip")
        self.without(*(item for item in range(42) if item % 6 > 1))
        with pytest.raises(OutclassError, match="there are 2 classes"):
            embed.run()
        assert not computed


class TestWhatBaselinesAskFor:
    """They run last: what cannot be had is said first. Three train items of five known classes make 15."""

    def test_more_components_than_train_items(self, setup, computed):
        setup(pca=16)
        with pytest.raises(OutclassError, match=r"baselines\.pca = 16, but .* have 15 train items: choose at most 15"):
            embed.run()
        assert not computed
        setup(pca=15)
        embed.run()

    def test_mirror_images_are_train_items_too(self, setup):
        setup(pca=16, mirrored=True)
        embed.run()

    def test_more_neighbours_than_train_items(self, setup, tiny, computed):
        tiny["baselines"]["knn"] = {"neighbours": [1, 16]}
        setup()
        with pytest.raises(OutclassError, match=r"baselines\.knn\.neighbours = 16, but .* have 15 train items"):
            embed.run()
        assert not computed
        del tiny["baselines"]["knn"]
        setup()
        embed.run()

    def test_classes_that_are_dropped_have_none(self, setup):
        write({name: [v for i, v in enumerate(values) if i not in (0, 6, 12)] for name, values in rows().items()})
        setup("skip", pca=13)
        with pytest.raises(OutclassError, match=r"have 12 train items"):
            embed.run()

    def test_more_components_than_features(self, setup):
        setup(pca=9, hog={**HOG, "side": 8, "orientations": 8})
        with pytest.raises(OutclassError, match=r"baselines\.pca = 9, but features/hog\.parquet has 8 features"):
            embed.run()
        assert not paths.FEATURES.exists()
        setup(pca=8, hog={**HOG, "side": 8, "orientations": 8})
        embed.run()


def _grey(item: int) -> np.ndarray:
    cut = Image.fromarray(PICTURES[item]).resize((16, 16), Image.BICUBIC, (2, 0, 22, 20))
    return np.asarray(cut.convert("L"))


class TestShards:
    def keys(self) -> list[dict[str, str]]:
        return [shard.keys for shard in embed.plan().shards]

    def test_cover_every_item_once(self, setup):
        plan = embed.plan()
        assert [(shard.first, shard.last) for shard in plan.shards] == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 42)]
        assert sum(shard.items for shard in plan.shards) == 42
        assert sum(shard.size for shard in plan.shards) == sum(len(data) for data in rows()["image"])

    def test_their_size_changes_no_value(self, setup):
        embed.run()
        before = features()
        for size in (1, 7, 100):
            setup(shard=size)
            embed.run()
            np.testing.assert_array_equal(features(), before)

    def test_an_interrupted_run_goes_on_where_it_stopped(self, setup, computed, monkeypatch):
        real = shards.make

        def interrupted(shard, *arguments):
            if shard.first == 20:
                raise KeyboardInterrupt
            real(shard, *arguments)

        monkeypatch.setattr(shards, "make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embed.run()
        assert len(computed) == 20
        assert not paths.FEATURES.exists()
        monkeypatch.setattr(shards, "make", real)
        embed.run()
        assert len(computed) == 42
        resumed = output()
        monkeypatch.setenv("OUTCLASS_CACHE", "another")
        embed.run()
        assert len(computed) == 84
        assert output() == resumed

    def test_nothing_is_done_twice(self, setup, computed):
        embed.run()
        before = output()
        assert embed.run().endswith("(kept from an earlier run)")
        assert len(computed) == 42
        assert output() == before

    def test_only_what_changed_is_done_again(self, setup, computed):
        embed.run()
        table = rows()
        table["image"][15] = png(noise(20, 24, 3, seed=99))
        write(table)
        embed.run()
        assert len(computed) == 42 + 10

    def test_a_new_representation_leaves_the_others_alone(self, setup, computed):
        embed.run()
        stored = {shard.table("hog", "features"): shard.table("hog", "features").stat().st_mtime_ns
                  for shard in embed.plan().shards}  # fmt: skip
        setup(representations=["hog", "pixels"], pixels={"side": 8})
        embed.run()
        assert len(computed) == 84
        assert {path: path.stat().st_mtime_ns for path in stored} == stored

    @pytest.mark.parametrize("name", ["features", "bad"])
    def test_a_damaged_shard_is_mended(self, setup, computed, name):
        embed.run()
        before = output()
        embed.plan().shards[1].table("hog", name).unlink()
        embed.run()
        assert len(computed) == 42 + 10
        assert output() == before

    @pytest.mark.parametrize(
        "change",
        [
            {"hog": {**HOG, "orientations": 5}},
            {"hog": {**HOG, "side": 18}},
            {"hog": {**HOG, "side": None}},
            {"hog": {**HOG, "cell": 4}},
            {"hog": {**HOG, "block": 2}},
            {"mirrored": True},
            {"shard": 9},
        ],
    )
    def test_keys_follow_the_parameters_that_matter(self, setup, change):
        before = {key["hog"] for key in self.keys()}
        setup(**change)
        assert not before & {key["hog"] for key in self.keys()}

    @pytest.mark.parametrize(
        "change",
        [
            {"on_bad_item": "skip"},
            {"hog": dict(reversed(HOG.items()))},
            {"pixels": {"side": 9}},
            {"pretrained": {"network": "alexnet", "side": 200, "batch": 3}},
        ],
    )
    def test_and_no_others(self, setup, change, monkeypatch):
        before = self.keys()
        setup(**change)
        monkeypatch.setenv("OUTCLASS_SLOTS", "7")
        assert self.keys() == before

    def test_another_representation_matters_if_images_are_decoded_larger_for_it(self, setup):
        before = [key["hog"] for key in self.keys()]
        setup(representations=["hog", "pixels"], pixels={"side": extractors.SMALL_SIDE})
        assert [key["hog"] for key in self.keys()] == before
        setup(representations=["hog", "pixels"], pixels={"side": extractors.SMALL_SIDE + 1})
        assert all(old != key["hog"] for old, key in zip(before, self.keys(), strict=True))

    @pytest.mark.parametrize("change", [{"hog": {**HOG, "orientations": 5}}, {"mirrored": True}])
    def test_are_not_made_with_other_parameters_than_they_were_cut_for(self, setup, change):
        work = embed.plan()
        shards.check_unchanged(work.shards, work.params.embed, work.extractors)
        setup(**change)
        now = embed.params.load().embed
        with pytest.raises(OutclassError, match=r"params\.yaml changed while the run was under way: start it again"):
            shards.check_unchanged(work.shards, now, extractors.build(now))

    def test_names_and_numbers_do_not_matter(self, setup):
        before = self.keys()
        write(rows(name=[f"other/{item}" for item in range(42)], item=list(range(42))))
        assert self.keys() == before

    @pytest.mark.parametrize(("part", "value"), [("network", "timm/test_resnet"), ("batch", 3), ("side", 48)])
    def test_keys_of_a_network_follow_its_parameters_and_weights(self, setup, monkeypatch, part, value):
        def load(name, side):
            body = pretrained.torch.nn.Flatten()
            return pretrained.freeze(name, body, ([0.5] * 3, [0.5] * 3), side)

        monkeypatch.setattr(pretrained, "load", load)
        chosen = {"network": "efficientnet_lite0", "side": 32, "batch": 4}
        setup(representations=["pretrained"], pretrained=chosen)
        before = self.keys()
        assert self.keys() == before
        setup(representations=["pretrained"], pretrained={**chosen, part: value})
        assert all(old != new for old, new in zip(before, self.keys(), strict=True))

    def test_the_code_matters(self, setup, monkeypatch, tmp_path):
        before = self.keys()
        copy = tmp_path / "images.py"
        copy.write_text(Path(extractors.images.__file__).read_text() + "# another\n")
        monkeypatch.setattr(extractors.images, "__file__", str(copy))
        assert all(old != new for old, new in zip(before, self.keys(), strict=True))

    def test_the_output_is_written_shard_by_shard(self, setup):
        embed.run()
        with pq.ParquetFile(paths.features("hog")) as file:
            assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [10, 10, 10, 10, 2]

    def test_without_items_it_says_what_to_do(self, setup):
        paths.ITEMS.unlink()
        with pytest.raises(OutclassError, match=r"items\.parquet: not found; run `dvc repro`"):
            embed.run()
