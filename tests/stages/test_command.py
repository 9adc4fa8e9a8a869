import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from outclass.errors import OutclassError
from stages import command

ROOT = Path(__file__).resolve().parents[2]


def stage(repetition: int, fold: int) -> str:
    """Say where."""
    return f"ran {repetition} and {fold}"


def failing() -> str:
    raise OutclassError("items.parquet: not found")


def broken() -> str:
    raise ZeroDivisionError("a mistake of ours")


def call(monkeypatch, capsys, name, function, *names, arguments=()):
    """Exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as caught:
        command.main(name, function, *names)
    return caught.value.code, *capsys.readouterr()


def test_one_line_says_what_came_out(monkeypatch, capsys):
    arguments = ["--repetition", "1", "--fold", "2"]
    code, out, err = call(monkeypatch, capsys, "backbone", stage, "repetition", "fold", arguments=arguments)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"backbone@1-2: ran 1 and 2 \(\d+\.\d s\)\n", out)


def test_a_stage_without_place_goes_by_its_name(monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "embed", lambda: "done")
    assert code == 0
    assert out.startswith("embed: done (")


def test_an_error_is_one_line_without_traceback(monkeypatch, capsys):
    assert call(monkeypatch, capsys, "embed", failing) == (1, "", "embed: error: items.parquet: not found\n")


def test_a_mistake_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        command.report("embed", broken)


@pytest.mark.parametrize(
    "arguments", [[], ["--repetition", "0"], ["--repetition", "0", "--fold", "x"], ["--repetition=0", "--flod=1"]]
)
def test_wrong_arguments_give_exit_code_2_and_the_usage(monkeypatch, capsys, arguments):
    code, _, err = call(monkeypatch, capsys, "backbone", stage, "repetition", "fold", arguments=arguments)
    assert code == 2
    assert err.startswith("usage: backbone")


def test_a_stage_runs_on_one_thread(capsys):
    counts = []

    def count() -> str:
        counts.append(torch.get_num_threads())
        counts.extend(pool["num_threads"] for pool in threadpool_info())
        return "counted"

    torch.set_num_threads(2)
    with threadpool_limits(limits=2):
        assert command.report("embed", count) == 0
    assert len(counts) > 1
    assert set(counts) == {1}


@pytest.mark.parametrize(
    ("module", "arguments", "code", "line"),
    [
        ("split", ["--repetition", "0"], 0, r"split@0: 3 folds of 9 known and 3 novel classes, 4 partitions each \(.*"),
        ("split", ["--repetition", "0"], 1, r"split@0: error: features/items.parquet: not found; run `dvc repro` .*"),
    ],
    ids=["success", "error"],
)
def test_a_stage_as_a_process_prints_one_line(project, module, arguments, code, line):
    if code:
        (project / "features/items.parquet").unlink()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", f"stages.{module}", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert re.fullmatch(f"{line}\n", done.stderr if code else done.stdout)
    assert (done.stdout if code else done.stderr) == ""


def test_an_error_of_the_system_names_the_file(capsys, tmp_path):
    def stage() -> str:
        (tmp_path / "a file").touch()
        (tmp_path / "a file" / "below").mkdir()
        return "never"

    assert command.report("stage", stage) == 1
    assert "a file/below: Not a directory" in capsys.readouterr().err


def test_a_full_disk_is_told_with_the_remedy(capsys):
    def stage() -> str:
        Path("/dev/full").write_text("too much")
        return "never"

    assert command.report("stage", stage) == 1
    assert "stage: error: " in (words := capsys.readouterr().err)
    assert "No space left on device; free space, then run again" in words


def test_a_negative_number_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["split", "--repetition", "-1"])
    with pytest.raises(SystemExit):
        command.main("split", lambda repetition: "never", "repetition")
    assert "-1 is not 0, 1, 2, ..." in capsys.readouterr().err


SLOW_STAGE = """
import time
from pathlib import Path
from stages import command, files

def slow() -> str:
    with files.finished(Path("table")) as unfinished:
        unfinished.write_text("half")
        print("writing", flush=True)
        time.sleep(60)
    return "never"

command.main("slow", slow)
"""


def start_slow_stage(folder: Path, *wrapper: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DVC_STAGE": "slow"}
    command_line = [*wrapper, sys.executable, "-c", SLOW_STAGE]
    process = subprocess.Popen(
        command_line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


def test_a_request_to_end_leaves_nothing_unfinished(tmp_path):
    process = start_slow_stage(tmp_path)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "slow: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_stage_ends_with_the_dvc_that_runs_it(tmp_path):
    asker = start_slow_stage(
        tmp_path, sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:], check=False)"
    )
    asker.kill()
    output, _ = asker.communicate(timeout=60)  # the pipe closes when the stage has ended
    assert output == "slow: stopped\n"
    assert list(tmp_path.iterdir()) == []


ORPHAN = """
import time
from stages import command

command.PARENT = 0  # whoever started us is gone
command.main("orphan", lambda: time.sleep(60) or "never")
"""


def test_a_stage_whose_dvc_is_gone_before_it_begins_ends_without_a_trace(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DVC_STAGE": "orphan"}
    for _ in range(5):  # the request to end comes while the watch is being set up, sooner or later
        ended = subprocess.run(
            [sys.executable, "-c", ORPHAN], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "orphan: stopped\n")
