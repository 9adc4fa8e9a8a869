"""Where the pipeline's files lie, relative to the project's root."""

from pathlib import Path

ITEMS = Path("data/items.parquet")
REPORT = Path("report")


def split(repetition: int, table: str) -> Path:
    """``table`` is one of classes, items, partitions, sets."""
    return Path(f"splits/r{repetition}/{table}.parquet")


def features(representation: str) -> Path:
    return Path(f"features/{representation}.parquet")


def run(stage: str, repetition: int, fold: int) -> Path:
    """The folder of one stage's run for one fold of one repetition."""
    return Path(f"runs/{stage}/r{repetition}-f{fold}")
