"""Child processes: their output, their end, and ours."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows import guard, processes


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_lines_come_as_they_are_printed_and_the_exit_code_after():
    lines: list[str] = []
    code = processes.run([sys.executable, "-c", "import sys; print('a'); print('b'); sys.exit(7)"], lines.append)
    assert (lines, code) == (["a", "b"], 7)


def test_errors_are_among_the_lines():
    lines: list[str] = []
    processes.run([sys.executable, "-c", "import sys; print('oh', file=sys.stderr)"], lines.append)
    assert lines == ["oh"]


def test_a_death_by_signal_is_told_as_a_shell_does():
    code = processes.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], print)
    assert code == 128 + signal.SIGKILL


def test_extra_environment_reaches_the_command():
    lines: list[str] = []
    processes.run([sys.executable, "-c", "import os; print(os.environ['COLOUR'])"], lines.append, {"COLOUR": "red"})
    assert lines == ["red"]


def test_stopping_ends_the_command_and_what_it_started():
    sleep = "import time; time.sleep(60)"
    code = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', '{sleep}']).pid, flush=True); {sleep}"
    )
    child = processes.start([sys.executable, "-c", code])
    grandchild = int(child.stdout.readline())
    assert alive(grandchild)
    processes.stop(child)
    assert not alive(grandchild)


def test_stopping_ends_what_it_started_even_if_that_ignores_the_request(tmp_path):
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    )
    code = f"""import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', '{stubborn}'], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)"""
    impatient = tmp_path / "guard.py"
    impatient.write_text(Path(guard.__file__).read_text().replace("GRACE = 10.0", "GRACE = 0.5"))
    asked = [sys.executable, impatient, sys.executable, "-c", code]
    child = subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    grandchild = int(child.stdout.readline())
    child.stdin.close()
    child.wait(30)
    assert not alive(grandchild)


def test_a_command_that_ignores_the_request_to_end_is_ended(tmp_path):
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    )
    impatient = tmp_path / "guard.py"
    impatient.write_text(Path(guard.__file__).read_text().replace("GRACE = 10.0", "GRACE = 0.5"))
    child = subprocess.Popen(
        [sys.executable, impatient, sys.executable, "-c", stubborn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    child.stdin.close()
    assert child.wait(30) == 128 + signal.SIGKILL  # not after a minute


def test_what_a_killed_command_had_started_ends_too():
    sleep = "import time; time.sleep(60)"
    code = (
        f"import os, subprocess, sys; "
        f"print(subprocess.Popen([sys.executable, '-c', '{sleep}']).pid, flush=True); os.kill(os.getpid(), 9)"
    )
    lines: list[str] = []
    assert processes.run([sys.executable, "-c", code], lines.append) == 128 + signal.SIGKILL  # not after a minute
    assert not alive(int(lines[0]))


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_children_do_not_outlive_a_killed_parent(sign):
    parent = "\n".join(
        [
            "import sys; from flows import processes",
            "processes.run([sys.executable, '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'],",
            "              lambda line: print(line, flush=True))",
        ]
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    assert alive(child)
    os.kill(process.pid, sign)
    process.wait()
    deadline = time.monotonic() + 30
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


STOPPED_BY_SIGNAL = """
import sys, threading, time
from flows import processes

def work():
    for _ in range(2):
        try:
            processes.run([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], ready)
        except processes.StoppedError:
            print("stopped", flush=True)

def ready(line):
    print("ready", flush=True)

thread = threading.Thread(target=work)
try:
    with processes.stopped_on_signal():
        thread.start()
        time.sleep(60)
except KeyboardInterrupt:
    thread.join()
    print("interrupted", flush=True)
"""


def test_a_request_to_stop_that_comes_with_the_start_is_not_missed(monkeypatch):
    start = processes.start

    def stopped_at_once(*arguments, **named):
        child = start(*arguments, **named)
        monkeypatch.setattr(processes, "stopping", lambda: True)
        return child

    monkeypatch.setattr(processes, "start", stopped_at_once)
    began = time.monotonic()
    with pytest.raises(processes.StoppedError):
        processes.run(["sleep", "60"], print)
    assert time.monotonic() - began < 30


def test_on_a_signal_running_commands_end_and_no_new_one_starts():
    process = subprocess.Popen([sys.executable, "-c", STOPPED_BY_SIGNAL], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=45)
    assert output.split() == ["stopped", "stopped", "interrupted"]
