"""Where the pipeline's files lie, relative to the project's root."""

from pathlib import Path

ITEMS = Path("data/items.parquet")
SKIPPED_FILES = Path("data/skipped.parquet")
FEATURES = Path("features")
USED_ITEMS = FEATURES / "items.parquet"
SKIPPED_ITEMS = FEATURES / "skipped.parquet"
REPORT = Path("report")


def split(repetition: int, table: str) -> Path:
    """``table`` is one of classes, items, partitions, sets."""
    return Path(f"splits/r{repetition}/{table}.parquet")


def features(representation: str) -> Path:
    return FEATURES / f"{representation}.parquet"


def run(stage: str, repetition: int, fold: int) -> Path:
    """The folder of one stage's run for one fold of one repetition."""
    return Path(f"runs/{stage}/r{repetition}-f{fold}")
