"""CIFAR-100 and the Caltech sets: torchvision's own loaders on miniature archives in the official layouts."""

import hashlib
import inspect
import io
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR100, Caltech101, Caltech256

from outclass.datasets import archives, caltech101, caltech256, cifar100
from outclass.errors import OutclassError
from tests import miniatures

NAMES = ["apple", "bear", "clock"]
BUILDERS = {
    cifar100: lambda root, rng: miniatures.build_cifar100(root, NAMES, 4, 2, rng),
    caltech256: lambda root, rng: miniatures.build_caltech256(root, NAMES, 5, rng),
    caltech101: lambda root, rng: miniatures.build_caltech101(root, NAMES, 5, rng),
}
every_source = pytest.mark.parametrize("source", BUILDERS, ids=lambda module: module.__name__.split(".")[-1])


def build(source, root):
    return BUILDERS[source](root, np.random.default_rng(0))


def load(source, root):
    with miniatures.accepted(root):
        return list(source.items(root))


def pixels(image):
    return np.asarray(Image.open(io.BytesIO(image) if isinstance(image, bytes) else image))


def archive_of(source):
    return cifar100.archive() if source is cifar100 else source.ARCHIVE


class TestCifar100:
    def test_gives_the_official_images_classes_and_splits(self, tmp_path):
        build(cifar100, tmp_path)
        items = load(cifar100, tmp_path)
        assert [item.split for item in items] == ["train"] * 12 + ["test"] * 6
        with miniatures.accepted(tmp_path):
            theirs = [pair for train in (True, False) for pair in CIFAR100(tmp_path, train=train)]
        assert [item.label for item in items] == [NAMES[label] for _, label in theirs]
        for item, (image, _) in zip(items, theirs, strict=True):
            np.testing.assert_array_equal(pixels(item.image), np.asarray(image))

    def test_names_are_unique_and_tell_class_and_place(self, tmp_path):
        build(cifar100, tmp_path)
        items = load(cifar100, tmp_path)
        assert len({item.name for item in items}) == 18
        assert items[13].name == f"{items[13].label}/test-00001"

    def test_comes_one_by_one(self, tmp_path):
        build(cifar100, tmp_path)
        with miniatures.accepted(tmp_path):
            stream = cifar100.items(tmp_path)
            assert next(stream).split == "train"


class TestCaltech:
    def test_256_has_its_official_folder_names(self, tmp_path):
        build(caltech256, tmp_path)
        items = load(caltech256, tmp_path)
        assert [item.name for item in items[:2]] == ["001.apple/001_0001.jpg", "001.apple/001_0002.jpg"]
        assert sorted({item.label for item in items}) == ["001.apple", "002.bear", "003.clock"]

    def test_101_leaves_the_background_out(self, tmp_path):
        build(caltech101, tmp_path)
        assert sorted({item.label for item in load(caltech101, tmp_path)}) == NAMES

    @pytest.mark.parametrize(("source", "loader"), [(caltech256, Caltech256), (caltech101, Caltech101)])
    def test_images_are_those_of_torchvision(self, tmp_path, source, loader):
        build(source, tmp_path)
        items = load(source, tmp_path)
        theirs = list(loader(tmp_path))
        assert len(items) == len(theirs) == 15
        for item, (image, label) in zip(items, theirs, strict=True):
            assert item.label.endswith(NAMES[label])
            assert item.split == ""
            np.testing.assert_array_equal(pixels(item.image), np.asarray(image))

    @pytest.mark.parametrize(("source", "loader"), [(caltech256, Caltech256), (caltech101, Caltech101)])
    def test_address_and_checksum_are_those_of_torchvision(self, source, loader):
        code = inspect.getsource(loader.download)
        assert source.ARCHIVE.url in code
        assert source.ARCHIVE.md5 in code
        assert source.ARCHIVE.path.split("/")[1] in code

    def test_unpacked_once_it_needs_no_archive_and_no_help(self, tmp_path):
        build(caltech101, tmp_path)
        build(caltech256, tmp_path).with_suffix(".tar")
        miniatures.unpack(tmp_path)
        assert len(list(caltech101.items(tmp_path))) == len(list(caltech256.items(tmp_path))) == 15


class TestWhatMayGoWrong:
    @every_source
    def test_says_what_to_place_where_without_a_network(self, tmp_path, source):
        archive = archive_of(source)
        path = tmp_path / archive.path
        with miniatures.offline(), pytest.raises(OutclassError) as caught:
            list(source.items(tmp_path))
        assert f"{path} is not there and cannot be downloaded" in str(caught.value)
        assert "refused" in str(caught.value)
        assert re.search(
            rf"get {path.name} \(md5 {archive.md5}\) from http\S+ .* place it in {path.parent}", str(caught.value)
        )

    @every_source
    def test_takes_an_archive_that_is_placed_there_afterwards(self, tmp_path, source):
        with miniatures.offline(), pytest.raises(OutclassError):
            list(source.items(tmp_path / "there"))
        placed = tmp_path / "there" / archive_of(source).path
        shutil.copy(build(source, tmp_path / "elsewhere"), placed)
        assert len(load(source, tmp_path / "there")) > 12

    @every_source
    def test_names_a_damaged_archive(self, tmp_path, source):
        path = build(source, tmp_path)
        with miniatures.accepted(tmp_path):
            path.write_bytes(path.read_bytes()[:-500])
            with pytest.raises(
                OutclassError, match=f"{path.name}: damaged.*delete it, get .* place it in {path.parent}"
            ):
                list(source.items(tmp_path))

    @pytest.mark.parametrize("source", [cifar100, caltech256])
    def test_names_an_archive_that_cannot_be_unpacked(self, tmp_path, source, monkeypatch):
        """Its checksum is the expected one, so that the fault lies elsewhere."""
        path = tmp_path / archive_of(source).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no archive")
        md5 = hashlib.md5(b"no archive").hexdigest()
        with miniatures.offline():
            if source is cifar100:
                monkeypatch.setattr(CIFAR100, "tgz_md5", md5)
            else:
                changed = archives.Archive(**{**vars(source.ARCHIVE), "md5": md5})
                monkeypatch.setattr(source, "ARCHIVE", changed)
            with pytest.raises(OutclassError, match=f"{path.name}: cannot be unpacked .* delete .*{path.parent}"):
                list(source.items(tmp_path))

    def test_unpacks_again_what_was_damaged_after_unpacking(self, tmp_path):
        build(cifar100, tmp_path)
        before = load(cifar100, tmp_path)
        (tmp_path / "cifar-100-python/test").write_bytes(b"")
        assert load(cifar100, tmp_path) == before

    def test_a_missing_list_of_class_names_is_explained(self, tmp_path):
        """torchvision checks the images only before it decides to unpack."""
        build(cifar100, tmp_path)
        load(cifar100, tmp_path)
        (tmp_path / "cifar-100-python/meta").unlink()
        with pytest.raises(OutclassError, match=r"delete .*cifar-100-python, and run again"):
            load(cifar100, tmp_path)
