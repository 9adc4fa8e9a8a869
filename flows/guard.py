"""Run a command that never outlives the process which asked for it, not even one killed with SIGKILL.

    python guard.py COMMAND ARGUMENT...      with standard input held open by the asking process

When that process ends, however it ends, the operating system closes the pipe, and the command's whole process
group is ended. Nothing but the standard library is imported: this starts with every worker.
"""

import os
import signal
import subprocess
import sys
import threading

GRACE = 10.0
"""Seconds between asking a command to end and ending it."""


def end_group(child: "subprocess.Popen[bytes]") -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
            child.wait(GRACE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def end_with_asker(child: "subprocess.Popen[bytes]") -> None:
    os.read(0, 1)  # nothing is ever written: this returns when the pipe is closed
    end_group(child)


def main() -> int:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, process_group=0)
    threading.Thread(target=end_with_asker, args=[child], daemon=True).start()
    code = child.wait()
    return 128 - code if code < 0 else code  # as a shell tells of a signal


if __name__ == "__main__":
    sys.exit(main())
