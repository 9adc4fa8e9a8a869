"""A folder with one sub-folder a class, and images of any format that Pillow reads anywhere below."""

import os
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from outclass.datasets import Item
from outclass.errors import OutclassError

LAYOUT = "it should hold one sub-folder a class with the images of that class: cat/1.jpg, cat/2.jpg, dog/1.jpg, ..."


class ImageFolder:
    """The items of a folder, in the order of their paths; ``ignored`` counts the other files as they are met."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ignored = 0
        self.classes = self._class_folders()

    def __iter__(self) -> Iterator[Item]:
        for folder in self.classes:
            for path in self._images(folder):
                yield Item(_text(path.relative_to(self.root).as_posix()), _text(folder.name), "", path)

    def _class_folders(self) -> list[Path]:
        if not self.root.is_dir():
            raise OutclassError(f"download.input: {self.root} is not a folder; {LAYOUT}")
        entries = sorted(path for path in _listed(self.root) if not _hidden(path))
        stray = [path.name for path in entries if path.is_file() and _is_image(path)]
        if stray:
            raise OutclassError(
                f"download.input: {self.root} itself holds {len(stray)} images, such as {_text(stray[0])}; {LAYOUT}"
            )
        folders = [path for path in entries if path.is_dir()]
        if not folders:
            raise OutclassError(f"download.input: {self.root} has no sub-folders; {LAYOUT}")
        self.ignored += len(_listed(self.root)) - len(folders)
        return folders

    def _images(self, folder: Path) -> Iterator[Path]:
        """Images below a folder, level by level; sorted, so that every file system gives the same order."""
        for place, folders, files in os.walk(folder, onerror=_refuse):
            hidden = [name for name in folders if _hidden(Path(name))]
            folders[:] = sorted(set(folders) - set(hidden))
            images = [name for name in sorted(files) if not _hidden(Path(name)) and _is_image(Path(name))]
            linked = [name for name in folders if Path(place, name).is_symlink()]  # they might lead round in circles
            self.ignored += len(files) - len(images) + len(hidden) + len(linked)
            yield from (Path(place, name) for name in images)


def _is_image(path: Path) -> bool:
    # Files that Pillow can only write, such as PDF, are no images here.
    return Image.registered_extensions().get(path.suffix.lower()) in Image.OPEN


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        _refuse(error)
        raise


def _refuse(error: OSError) -> None:
    raise OutclassError(f"download.input: {error.filename}: cannot be read ({error.strerror})") from error


def _text(name: str) -> str:
    """A name that any table can hold, even where the file system's is not valid Unicode."""
    return name.encode("utf-8", "backslashreplace").decode()
