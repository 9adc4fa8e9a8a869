"""Train a fold's backbone as partitions are, by the same runners: the command of the DVC stage ``backbone``."""

from flows import server, trainings
from stages import command


def run(repetition: int, fold: int) -> str:
    """Write runs/backbone/r<repetition>-f<fold>/, trained in the first slot that is free.

    A single training on this machine is not worth the start of a Prefect server.
    """
    if trainings.runs_on_cluster() or server.is_running():
        return trainings.run("backbone", repetition, fold)
    return trainings.run_without_prefect("backbone", repetition, fold)


if __name__ == "__main__":
    command.main("backbone", run, "repetition", "fold")
