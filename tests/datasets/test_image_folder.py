import os
import sys

import numpy as np
import pytest
from PIL import Image

from outclass.datasets.image_folder import ImageFolder
from outclass.errors import OutclassError

FORMATS = ["png", "jpg", "JPEG", "bmp", "gif", "tif", "tiff", "webp"]


def save(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (9, 8, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def root(tmp_path):
    for label in ("dog", "cat"):
        for index, suffix in enumerate(FORMATS):
            save(tmp_path / label / f"{index}.{suffix}", index)
    return tmp_path


def test_classes_are_folders_and_any_format_will_do(root):
    items = list(ImageFolder(root))
    assert [item.name for item in items] == [f"{c}/{i}.{s}" for c in ("cat", "dog") for i, s in enumerate(FORMATS)]
    assert all(item.label == item.name.split("/")[0] and item.split == "" for item in items)
    assert all(Image.open(item.image).size == (8, 9) for item in items)


def test_finds_images_at_any_depth_in_a_fixed_order(root):
    save(root / "cat/b/deep/1.png")
    save(root / "cat/a/2.png")
    names = [item.name for item in ImageFolder(root) if item.name.count("/") > 1]
    assert names == ["cat/a/2.png", "cat/b/deep/1.png"]
    assert {item.label for item in ImageFolder(root)} == {"cat", "dog"}


def test_counts_what_it_ignores(root):
    (root / "cat/notes.txt").write_text("x")
    (root / "cat/paper.pdf").write_bytes(b"x")  # Pillow knows this suffix, but cannot read it
    (root / "README.md").write_text("x")
    save(root / "dog/.hidden.png")
    save(root / "dog/.thumbnails/1.png")
    save(root / ".cache/1.png")
    (root / "dog/link").symlink_to(root, target_is_directory=True)
    folder = ImageFolder(root)
    assert len(list(folder)) == 16
    assert folder.ignored == 7


def test_a_class_may_be_a_link_to_a_folder(root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    save(elsewhere / "1.png")
    (root / "bird").symlink_to(elsewhere, target_is_directory=True)
    assert next(iter(ImageFolder(root))).name == "bird/1.png"


@pytest.mark.skipif(sys.platform != "linux", reason="file names are arbitrary bytes on Linux only")
def test_a_file_name_that_is_no_unicode_gets_one(root):
    save(root / "cat/x.png")
    os.rename(os.fsencode(root / "cat/x.png"), os.fsencode(root / "cat") + b"/\xff.png")  # noqa: PTH104
    name = [item.name for item in ImageFolder(root)][8]
    assert name == "cat/\\udcff.png"


def test_refuses_images_in_the_root(root):
    save(root / "stray.png")
    with pytest.raises(OutclassError, match=r"itself holds 1 images, such as stray.png; it should hold one sub-folder"):
        ImageFolder(root)


def test_refuses_a_folder_without_folders(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(OutclassError, match=r"download\.input: .* has no sub-folders; it should hold"):
        ImageFolder(tmp_path)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_refuses_what_is_no_folder(tmp_path, kind):
    path = tmp_path / "data"
    if kind == "file":
        path.write_text("x")
    with pytest.raises(OutclassError, match=r"download\.input: .*data is not a folder; it should hold"):
        ImageFolder(path)
