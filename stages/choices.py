"""The hyper-parameters that were chosen for the methods to compare with, as a table. Read by stages/evaluate.py."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from stages import paths, tables
from stages.results import MISSING, Cell, Column, Section, Table


def read(runs: Sequence[tuple[int, int]]) -> pd.DataFrame:
    paths_ = [paths.run("baselines", r, f) / "chosen.parquet" for r, f in runs]
    return pd.concat([tables.read_frame(path, tables.CHOSEN) for path in paths_], ignore_index=True)


def sections(chosen: pd.DataFrame) -> list[Section]:
    """Nothing where no method has anything to choose."""
    tuned = chosen[chosen["hyper_parameters"] != ""]
    text = (
        "Each method had its hyper-parameters chosen on artificial partitions of the known classes, without a look at "
        "novel ones, for each set size anew. Shown is the choice of most runs, with the number of runs that made it "
        "where they differ, and the mean AUC that the choices reached on those partitions."
    )
    lines = dict.fromkeys(line for reasons in chosen["skipped"] for line in reasons.splitlines())
    unfit = [f"Could not be used: {'; '.join(lines)}."] if lines else []
    title = "Hyper-parameters that were chosen"
    return [Section(title, [text, *unfit], [table(tuned)], wide=True)] if len(tuned) else []


def table(chosen: pd.DataFrame) -> Table:
    sizes = sorted(chosen["s"].unique())
    ends = list(dict.fromkeys([sizes[0], sizes[-1]]))
    rows = [
        (Cell("", f"{method}/{way}"), *(cell for s in ends for cell in _cells(of_method[of_method["s"] == s])))
        for (method, way), of_method in chosen.groupby(["method", "way"], sort=False)
    ]
    columns = [Column(label, f"s = {s}") for s in ends for label in ("chosen", "AUC (%)")]
    return Table("By method", "At the smallest and the largest set size.", [Column("Method"), *columns], rows)


def _cells(rows: pd.DataFrame) -> tuple[Cell, Cell]:
    if rows.empty:
        return Cell(MISSING), Cell(MISSING)
    counts = rows["hyper_parameters"].value_counts()
    often = "" if len(counts) == 1 else f" ({counts.iloc[0]} of {len(rows)})"
    auc = rows["auc"].mean()
    return Cell(f"{counts.index[0]}{often}"), Cell(MISSING if np.isnan(auc) else f"{100 * auc:.1f}")
