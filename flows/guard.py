"""Run a command that never outlives the process which asked for it, not even one killed with SIGKILL.

    python guard.py COMMAND ARGUMENT...      with standard input held open by the asking process

When that process ends, however it ends, the operating system closes the pipe, and the command's whole process
group is ended. So it is when the command itself ends and leaves others behind: a DVC that was killed, its stage.
Nothing but the standard library is imported: this starts with every worker.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

GRACE = 10.0
"""Seconds between asking a command to end and ending it."""


def end_group(group: int) -> None:
    """Ask all processes of a group to end, and end those that have not done so in time."""
    with suppress(ProcessLookupError):  # raised once nobody is left
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)


def end_with_asker(group: int) -> None:
    os.read(0, 1)  # nothing is ever written: this returns when the pipe is closed
    end_group(group)


def main() -> int:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, process_group=0)
    threading.Thread(target=end_with_asker, args=[child.pid], daemon=True).start()
    code = child.wait()
    end_group(child.pid)  # the command has ended (killed, maybe), but what it started may not have
    return 128 - code if code < 0 else code  # as a shell tells of a signal


if __name__ == "__main__":
    sys.exit(main())
