"""Train a fold's backbone in a worker slot, as partitions are: the command of the DVC stage ``backbone``."""

import sys

from flows import processes, slots
from stages import command


def run(repetition: int, fold: int) -> str:
    """Write runs/backbone/r<repetition>-f<fold>/, trained in the first slot that is free."""
    stage = processes.python("stages.backbone", "--repetition", str(repetition), "--fold", str(fold))
    lines: list[str] = []
    taken: list[slots.Slot] = []
    with processes.stopped_on_signal():
        code = slots.run(stage, lines.append, taken.append)
    if code:
        print("\n".join(lines), file=sys.stderr, flush=True)  # the stage has said what is wrong
        sys.exit(code)
    answer, _, _ = lines[-1].partition(": ")[2].rpartition(" (")  # "backbone@0-0: ANSWER (SECONDS s)"
    return f"{answer}, in {taken[0].name}"


if __name__ == "__main__":
    command.main("backbone", run, "repetition", "fold")
