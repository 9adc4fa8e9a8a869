import io

import numpy as np
import pytest
from PIL import Image

from outclass.datasets import glyphs
from outclass.errors import OutclassError
from outclass.features.hog import HogSettings, histograms
from stages import download, embed, paths, tables


def items() -> dict[str, list]:
    return tables.read(paths.ITEMS, tables.ITEMS).to_pydict()


def png(pixels: np.ndarray, mode: str = "L") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "png")
    return buffer.getvalue()


NOISE = np.random.default_rng(0).integers(0, 255, (24, 24), dtype=np.uint8)


def features() -> tuple[list[int], np.ndarray]:
    frame, vectors = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
    return frame["item"].tolist(), vectors


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


class TestEmbed:
    def test_gives_each_item_the_features_of_its_own_image(self, project):
        numbers, vectors = features()
        table = items()
        images = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in table["image"]])
        assert numbers == table["item"]
        np.testing.assert_array_equal(vectors, histograms(images, HogSettings()))
        assert vectors.shape == (288, 144)
        assert len(np.unique(vectors, axis=0)) == 288

    def test_follows_items_in_any_order(self, project):
        numbers, before = features()
        order = np.random.default_rng(0).permutation(len(numbers))
        table = {name: [values[i] for i in order] for name, values in items().items()}
        tables.write(paths.ITEMS, tables.ITEMS, table)
        embed.run()
        shuffled, after = features()
        assert shuffled == order.tolist()
        np.testing.assert_array_equal(after, before[order])

    def test_follows_its_parameters(self, project, configure):
        configure("embed.hog.orientations", 4)
        assert embed.run().startswith("64 hog features of 288 items")

    def test_takes_colour_images_as_grey(self, project):
        pixels = np.random.default_rng(0).integers(0, 255, (2, 24, 24), dtype=np.uint8)
        table = {"item": [0, 1], "name": ["a", "b"], "class": ["c", "c"]}
        vectors = []
        for mode in ("L", "RGB"):
            tables.write(paths.ITEMS, tables.ITEMS, {**table, "image": [png(p, mode) for p in pixels]})
            embed.run()
            vectors.append(features()[1])
        np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)

    @pytest.mark.parametrize("data", [b"", b"no image", png(NOISE)[:300]], ids=["empty", "text", "truncated"])
    def test_names_an_item_that_is_no_image(self, project, data):
        table = items()
        table["image"][7] = data
        tables.write(paths.ITEMS, tables.ITEMS, table)
        with pytest.raises(OutclassError, match=rf"items\.parquet: item {table['name'][7]} is not a readable image"):
            embed.run()

    def test_names_an_item_whose_png_is_broken_inside(self, project):
        table = items()
        data = png(NOISE)
        length = data.index(b"IDAT") - 4
        table["image"][7] = data[:length] + (100).to_bytes(4) + data[length + 4 :]  # a chunk said to end too early
        tables.write(paths.ITEMS, tables.ITEMS, table)
        with pytest.raises(OutclassError, match="is not a readable image"):
            embed.run()

    def test_names_an_image_of_another_size(self, project):
        table = items()
        table["image"][7] = png(np.zeros((24, 25), np.uint8))
        tables.write(paths.ITEMS, tables.ITEMS, table)
        with pytest.raises(
            OutclassError, match=rf"item {table['name'][7]} is \(24, 25\).*HOG needs images of one size"
        ):
            embed.run()

    def test_refuses_cells_larger_than_the_images(self, project, configure):
        configure("embed.hog.cell", 16)
        with pytest.raises(OutclassError, match=r"embed\.hog"):
            embed.run()
