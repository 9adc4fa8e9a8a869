import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outclass.errors import OutclassError
from stages import files

ROOT = Path(__file__).resolve().parents[2]


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def python(code: str, folder: Path) -> str:
    """Run code in a process of its own with ``folder`` as current folder; what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestWhole:
    def test_a_file_appears_when_the_block_ends(self, tmp_path):
        target = tmp_path / "a/b/file"
        with files.finished(target) as unfinished:
            unfinished.write_text("new")
            assert not target.exists()
            assert unfinished.parent == target.parent
        assert target.read_text() == "new"
        assert left_in(tmp_path) == ["a", "a/b", "a/b/file"]

    def test_a_folder_appears_when_the_block_ends(self, tmp_path):
        target = tmp_path / "folder"
        with files.finished_folder(target) as unfinished:
            (unfinished / "one").write_text("1")
            assert not target.exists()
        assert left_in(tmp_path) == ["folder", "folder/one"]

    def test_a_finished_folder_is_replaced_with_all_it_held(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder/old").write_text("1")
        with files.finished_folder(tmp_path / "folder") as unfinished:
            (unfinished / "new").write_text("2")
        assert left_in(tmp_path) == ["folder", "folder/new"]

    def test_temporary_names_have_the_ending_that_git_ignores(self, tmp_path):
        with files.finished(tmp_path / "file") as unfinished:
            unfinished.touch()
            assert unfinished.name.endswith(".part")
        assert "*.part" in (ROOT / ".gitignore").read_text().splitlines()

    def test_json_is_read_back(self, tmp_path):
        files.write_json(tmp_path / "a.json", {"accuracy": 0.1, "n": 3})
        assert json.loads((tmp_path / "a.json").read_text()) == {"accuracy": 0.1, "n": 3}


def write_half_a_file(target: Path, error: type[BaseException]) -> None:
    with files.finished(target) as unfinished:
        unfinished.write_text("half")
        raise error


def write_half_a_folder(target: Path, error: type[BaseException]) -> None:
    with files.finished_folder(target) as unfinished:
        (unfinished / "one").write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OutclassError])
@pytest.mark.parametrize("write", [write_half_a_file, write_half_a_folder])
class TestFailure:
    def test_nothing_is_left(self, tmp_path, write, error):
        with pytest.raises(error):
            write(tmp_path / "target", error)
        assert left_in(tmp_path) == []

    def test_what_was_there_stays(self, tmp_path, write, error):
        with files.finished_folder(tmp_path / "target") as unfinished:
            (unfinished / "one").write_text("old")
        target = tmp_path / ("target/one" if write is write_half_a_file else "target")
        with pytest.raises(error):
            write(target, error)
        assert (tmp_path / "target/one").read_text() == "old"
        assert left_in(tmp_path) == ["target", "target/one"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(OutclassError, match="file: cannot be written"), files.finished(tmp_path / "file"):
        pass
    assert left_in(tmp_path) == []


def test_what_others_are_writing_is_left_alone(tmp_path):
    (tmp_path / "folder.0123abcd.part").mkdir()
    with files.finished_folder(tmp_path / "folder") as unfinished:
        (unfinished / "one").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "folder.0123abcd.part"]


def leave_unfinished(folder: Path, name: str, seconds_ago: float) -> Path:
    forsaken = folder / name
    forsaken.mkdir()
    (forsaken / "half").touch()
    for path in (forsaken / "half", forsaken):
        os.utime(path, (time.time() - seconds_ago,) * 2)
    return forsaken


def test_what_a_killed_process_left_long_ago_is_taken_away(tmp_path):
    for name in ("folder.0123abcd.part", "finished-since.0123abcd.part"):
        leave_unfinished(tmp_path, name, files.FORSAKEN_AFTER + 1)
    with files.finished_folder(tmp_path / "folder"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_in_which_somebody_still_writes_is_left_alone(tmp_path):
    begun_long_ago = leave_unfinished(tmp_path, "other.0123abcd.part", files.FORSAKEN_AFTER + 1)
    os.utime(begun_long_ago / "half")
    with files.finished_folder(tmp_path / "folder"):
        pass
    assert begun_long_ago.exists()


def test_unfinished_files_of_other_programs_are_left_alone(tmp_path):
    leave_unfinished(tmp_path, "archive.tar.part", files.FORSAKEN_AFTER + 1)
    with files.finished_folder(tmp_path / "folder"):
        pass
    assert (tmp_path / "archive.tar.part").exists()


def test_without_replace_whoever_was_first_stays(tmp_path):
    for author in ("first", "second"):
        with files.finished_folder(tmp_path / "folder", replace=False) as unfinished:
            (unfinished / author).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["folder", "folder/first"]


DISK_FULL = """
import resource, signal
from pathlib import Path
import numpy as np
from outclass.errors import OutclassError
from stages import files, tables

def text(path):
    files.write_text(path, "x" * 100_000)

def table(path):
    rng = np.random.default_rng(0)
    columns = {"item": np.arange(9000), "mirrored": np.arange(9000) < 0, "features": rng.normal(size=(9000, 9))}
    tables.write(path, tables.FEATURES, columns)

def folder(path):
    with files.finished_folder(path) as unfinished:
        table(unfinished / "table.parquet")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
for write in (text, table, folder):
    try:
        write(Path("target", write.__name__))
    except OutclassError as error:
        print(error)
"""


def test_a_full_disk_is_reported_with_the_path_and_leaves_nothing_half_written(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target/text").write_text("old")
    lines = python(DISK_FULL, tmp_path).splitlines()
    assert [line.split(":")[0].split(".")[0] for line in lines] == ["target/text", "target/table", "target/folder"]
    assert all("cannot be written" in line and "too large" in line and "free space" in line for line in lines)
    assert left_in(tmp_path) == ["target", "target/text"]
    assert (tmp_path / "target/text").read_text() == "old"


READ_ONLY = """
import os
from pathlib import Path
from outclass.errors import OutclassError
from stages import files
if os.getuid() == 0:
    os.setuid(65534)  # root may write anywhere; nobody may not
for path in (Path("file"), Path("deep/er/file")):
    try:
        files.write_text(path, "text")
    except OutclassError as error:
        print(error)
"""


def test_a_read_only_folder_is_reported_with_the_path(tmp_path):
    tmp_path.chmod(0o555)
    try:
        lines = python(READ_ONLY, tmp_path).splitlines()
    finally:
        tmp_path.chmod(0o755)
    assert [line.split(":")[0] for line in lines] == ["file", "deep/er/file"]
    assert all("Permission denied" in line and "make the folder writable" in line for line in lines)
    assert left_in(tmp_path) == []


def test_without_replace_a_folder_that_others_finish_meanwhile_is_not_touched(tmp_path):
    with files.finished_folder(tmp_path / "folder", replace=False) as unfinished:
        (unfinished / "ours").touch()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "theirs").touch()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["theirs"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
