"""Fan the training of a fold's partitions out to workers: the command of the DVC stage ``partitions``."""

from flows import trainings
from stages import command


def run(repetition: int, fold: int) -> str:
    """Write runs/partitions/r<repetition>-f<fold>/, training chunks side by side."""
    return trainings.run("partitions", repetition, fold)


if __name__ == "__main__":
    command.main("partitions", run, "repetition", "fold")
