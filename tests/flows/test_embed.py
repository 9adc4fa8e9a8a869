"""Extraction in worker slots: the same bytes whoever works, nothing twice, and nobody left behind."""

import io
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stages.embed
from flows import embed, embed_worker
from stages import paths, tables

COUNT = 72
HOG = {"side": 32, "orientations": 9, "cell": 8, "block": 2}
NETWORK = {"network": "efficientnet_lite0", "side": 64, "batch": 8}
LONG = {**HOG, "side": 384}
"""A side at which a shard takes long enough to be killed in the middle."""


def png(item: int) -> bytes:
    """Noise does not compress: 72 of these are too much to be done without workers."""
    noise = np.random.default_rng(item).integers(0, 256, (200, 220, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "png", compress_level=0)
    return buffer.getvalue()


@pytest.fixture
def pictures(workspace):
    """A workspace with 72 pictures of 6 classes."""
    labels = [f"class-{item % 6}" for item in range(COUNT)]
    columns = {
        "item": list(range(COUNT)),
        "name": [f"{label}/{item}.png" for item, label in enumerate(labels)],
        "class": labels,
        "split": [""] * COUNT,
        "image": [png(item) for item in range(COUNT)],
    }
    write(workspace, columns)
    workspace.set(
        **{
            "split.novel_classes": 1,
            "split.presumed_novel_classes": 1,
            "split.items": {"train": 4, "calibration": 2, "test": 2},
            "split.set_sizes": [1, 2],
        }
    )
    choose(workspace, representations=["hog"], hog=HOG)
    return workspace


def choose(workspace, **values: object) -> None:
    path = f"features/{values['representations'][0]}.parquet"
    workspace.set(
        embed={"mirrored": True, "shard": 16, **values},
        **{f"{stage}.input": path for stage in ("backbone", "baselines", "pooled")},
    )


def worker_ids(workspace) -> list[int]:
    """Process numbers of the extractions under way in a workspace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            ours = b"flows.embed_worker" in words and not any(w.endswith(b"guard.py") for w in words)
            if ours and (entry / "cwd").readlink() == workspace.root:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def kept(workspace) -> set[Path]:
    cache = workspace.root / ".outclass/chunks"
    return {path for path in cache.iterdir() if path.suffix != ".part"} if cache.exists() else set()


def read(workspace) -> dict[str, list]:
    return tables.read(workspace.root / paths.ITEMS, tables.IMAGES).to_pydict()


def write(workspace, columns: dict[str, list]) -> None:
    tables.write(workspace.root / paths.ITEMS, tables.IMAGES, columns)


@pytest.mark.slow
class TestFanOut:
    def test_gives_the_same_bytes_as_one_process_with_any_number_of_slots(self, pictures):
        choose(pictures, representations=["hog", "pretrained"], hog=HOG, pretrained=NETWORK)
        pictures.python("stages.embed")
        expected = pictures.digests("features")
        assert set(expected) == {f"features/{name}.parquet" for name in ("hog", "items", "pretrained", "skipped")}
        for slots in ("1", "2"):
            output = pictures.python("flows.embed", OUTCLASS_SLOTS=slots, OUTCLASS_CACHE=f"cache-{slots}")
            assert "324 hog and 1280 pretrained" in output
            assert pictures.digests("features") == expected
        assert pictures.leftovers() == []

    def test_killed_in_the_middle_it_goes_on_where_it_stopped(self, pictures, wait_until):
        choose(pictures, representations=["hog"], hog=LONG)
        process = pictures.start("python", "-m", "flows.embed", OUTCLASS_SLOTS="1")
        wait_until(lambda: kept(pictures), 180)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        wait_until(lambda: not worker_ids(pictures), 60)  # nobody works on without us
        before = {path: path.stat().st_mtime_ns for path in kept(pictures)}
        assert 0 < len(before) < 5
        assert not (pictures.root / "features").exists()
        pictures.python("flows.embed", OUTCLASS_SLOTS="1")
        assert len(kept(pictures)) == 5
        assert {path: path.stat().st_mtime_ns for path in before} == before

    def test_a_killed_worker_is_tried_again(self, pictures, wait_until):
        choose(pictures, representations=["hog"], hog=LONG)
        process = pictures.start("python", "-m", "flows.embed", OUTCLASS_SLOTS="1")
        wait_until(lambda: kept(pictures), 180)
        os.kill(worker_ids(pictures)[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        assert "ended with code 137 in slot cpu-0; trying again" in output

    def test_without_retries_the_failure_names_the_items(self, pictures, wait_until):
        process = pictures.start("python", "-m", "flows.embed", OUTCLASS_SLOTS="1", OUTCLASS_RETRIES="0")
        wait_until(lambda: worker_ids(pictures), 120)
        os.kill(worker_ids(pictures)[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "embed: error: items 0-15 ended with code 137" in output
        assert "Traceback" not in output

    def test_on_ctrl_c_nothing_is_left_running(self, pictures, wait_until):
        choose(pictures, representations=["hog"], hog=LONG)
        process = pictures.start("python", "-m", "flows.embed", OUTCLASS_SLOTS="1")
        wait_until(lambda: worker_ids(pictures), 120)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "embed: stopped" in output
        assert "Traceback" not in output
        assert pictures.leftovers() == []

    def test_bad_items_are_named_and_not_tried_again(self, pictures):
        table = read(pictures)
        for item in (3, 5):
            table["image"][item] = table["image"][item][:200]
        write(pictures, table)
        output = pictures.python("flows.embed", check=False, OUTCLASS_SLOTS="1")
        for name in ("class-3/3.png", "class-5/5.png"):
            assert f"{name} (class {name.split('/')[0]}): not a readable image" in output
        assert "trying again" not in output
        assert "Traceback" not in output
        assert not (pictures.root / "features").exists()
        pictures.set(on_bad_item="skip")
        assert "of 70 items, 2 left out" in pictures.python("flows.embed", OUTCLASS_SLOTS="1")

    def test_tiny_work_starts_no_process(self, pictures):
        write(pictures, {name: values[:54] for name, values in read(pictures).items()})
        # Slots that nobody could lease: their folder is a file.
        (pictures.root / "tmp" / f"outclass-slots-{os.getuid()}").write_text("")
        assert "324 hog features of 54 items" in pictures.python("flows.embed")


class TestProgress:
    def test_tells_items_speed_and_time_left(self):
        assert embed.report(1200, 5200, 20.0) == "1,200 of 5,200 items, 20 a second, 0:03:20 left"
        assert embed.report(5, 10, 0.0) == "5 of 10 items, 0 a second"

    def test_without_a_terminal_a_line_now_and_then(self, monkeypatch, capsys):
        with embed.ItemsDone(1000, 200) as progress:
            progress.add(100)
            assert capsys.readouterr().out == ""
            progress.started, progress.last = (moment - 20 for moment in (progress.started, progress.last))
            progress.add(100)
            progress.add(100)
        [line] = capsys.readouterr().out.splitlines()
        assert line == "embed: 400 of 1,000 items, 10 a second, 0:01:00 left"

    def test_on_a_terminal_a_bar(self, monkeypatch):
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with embed.ItemsDone(10, 0) as progress:
            progress.add(10)
        assert "10/10" in terminal.getvalue()


class TestWorker:
    def run(self, pictures, monkeypatch, capsys):
        """The exit code of a worker, and what it says."""
        job = pictures.root / "job.json"
        monkeypatch.setattr(sys, "argv", ["embed_worker", str(job)])
        code = embed_worker.main()
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    @pytest.fixture
    def planned(self, pictures, monkeypatch):
        """A job for all pictures, in their workspace."""
        monkeypatch.chdir(pictures.root)
        work = stages.embed.plan()
        words = {"shards": [asdict(shard) for shard in work.shards], "dropped": list(work.dropped)}
        (pictures.root / "job.json").write_text(json.dumps(words))
        return work

    def test_makes_what_was_planned(self, pictures, planned, monkeypatch, capsys):
        code, words = self.run(pictures, monkeypatch, capsys)
        assert code == 0
        assert sum(word["items"] for word in words) == COUNT
        assert all(shard.finished for shard in planned.shards)

    def test_that_starts_after_a_change_of_parameters_makes_nothing(self, pictures, planned, monkeypatch, capsys):
        """What it would make is not what the keys say."""
        choose(pictures, representations=["hog"], hog={**HOG, "orientations": 8})
        code, [words] = self.run(pictures, monkeypatch, capsys)
        assert code == embed.USER_ERROR
        assert words == {"error": "params.yaml changed while the run was under way: start it again"}
        assert not kept(pictures)

    def test_knows_which_classes_are_dropped(self, pictures, monkeypatch, capsys):
        """Or the size of a dropped image would be taken for that of all."""
        pictures.set(on_bad_item="skip")
        choose(pictures, representations=["hog"], hog={**HOG, "side": None})
        table = read(pictures)
        table["class"][0] = "alone"
        buffer = io.BytesIO()
        Image.new("RGB", (50, 60)).save(buffer, "png")
        table["image"][0] = buffer.getvalue()
        write(pictures, table)
        monkeypatch.chdir(pictures.root)
        work = stages.embed.plan()
        assert list(work.dropped) == ["alone"]
        words = {"shards": [asdict(shard) for shard in work.shards[:1]], "dropped": list(work.dropped)}
        (pictures.root / "job.json").write_text(json.dumps(words))
        code, _ = self.run(pictures, monkeypatch, capsys)
        assert code == 0


class TestAssignment:
    def test_takes_a_worker_s_words_apart_from_other_noise(self, tmp_path):
        with embed.ItemsDone(10, 0) as progress:
            assignment = embed.Assignment([], [], tmp_path / "job", progress)
            for line in (json.dumps({"items": 4}), "Killed", "3", json.dumps({"error": "a\nb"}), "[1]"):
                assignment._on_line(line)
        assert progress.done == 4
        assert assignment.error == "a\nb"
        assert list(assignment.last_words) == ["Killed", "3", "[1]"]
