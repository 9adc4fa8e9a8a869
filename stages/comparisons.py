"""Which differences between methods count: the same sets of the same runs, compared in pairs and by rank.

Pure functions: `areas` holds the AUC in percent, one row a run (repetition, fold), by (set size, method).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from outclass.comparison import paired_difference, ranks
from stages.results import MISSING, PAPERS_METHOD, Cell, Column, Section, Table, kind, sets_of

REFERENCES = ("pooled", PAPERS_METHOD)
"""With these every method is compared where they were measured, beside the best of all."""
MOST_ROWS = 20
"""Where there are more methods, tables show the best of each kind, and the references."""


# --- as data ---------------------------------------------------------------------------------------------


def pair_rows(areas: pd.DataFrame) -> pd.DataFrame:
    """Every method minus each reference, at the smallest and the largest set size; rows of report/pairs.parquet."""
    rows = [
        (s, method, difference.runs, reference, difference.mean, difference.low, difference.high)
        for s in _ends(areas)
        for reference in _references(areas[s])
        for method in _best_first(areas[s])
        if method != reference
        for difference in [paired_difference(*areas[s][[method, reference]].dropna().to_numpy().T)]
    ]
    return pd.DataFrame(rows, columns=["s", "method", "runs", "reference", "difference", "low", "high"])


def rank_rows(areas: pd.DataFrame) -> pd.DataFrame:
    """Every method's mean rank at every set size, the best first; rows of report/ranks.parquet."""
    return pd.concat([_ranked(areas[s]).assign(s=s) for s in sorted(areas.columns.unique("s"))], ignore_index=True)


def _ranked(areas: pd.DataFrame) -> pd.DataFrame:
    """Among the methods that were measured in every run."""
    there = areas.dropna(axis="columns")
    mean, best = ranks(there.to_numpy().T)
    rows = pd.DataFrame({"method": there.columns, "runs": len(there), "rank": mean, "best": best})
    return rows.sort_values("rank", kind="stable")


def _ends(areas: pd.DataFrame) -> list[int]:
    sizes = sorted(int(s) for s in areas.columns.unique("s"))
    return list(dict.fromkeys([*sizes[:1], *sizes[-1:]]))


def _best_first(areas: pd.DataFrame) -> list[str]:
    return list(areas.mean().sort_values(ascending=False, kind="stable").index)


def _references(areas: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys([_best_first(areas)[0], *(m for m in REFERENCES if m in areas)]))


# --- as read ---------------------------------------------------------------------------------------------


def section(areas: pd.DataFrame) -> Section:
    runs = len(areas)
    return Section(
        "Which differences count",
        [
            "All methods judged the very same sets, so they are compared run by run: a hard fold is hard for all of "
            "them, and what is left when two methods are subtracted says which is better.",
            "With a single run there is no telling how far a difference would vary: no intervals are given."
            if runs < 2
            else f"In brackets: the 95 % confidence interval over {runs} runs (Student's t). Folds share classes and "
            "training data, so the intervals are approximate, and the best method was picked after the fact, which "
            "flatters it. In bold: differences whose interval leaves out zero.",
        ],
        [rank_table(rank_rows(areas)), *pair_tables(areas, pair_rows(areas))],
    )


def _shown(best_first: list[str]) -> list[str]:
    best_of_kind = {kind(method): method for method in reversed(best_first)}
    kept = {*best_of_kind.values(), *REFERENCES} if len(best_first) > MOST_ROWS else {*best_first}
    return [method for method in best_first if method in kept]


def _left_out(best_first: list[str], file: str) -> str:
    if len(_shown(best_first)) == len(best_first):
        return ""
    return f" Of {len(best_first)} methods, the best of each kind is shown; report/{file} has all."


def rank_table(rows: pd.DataFrame) -> Table:
    """The mean rank by set size, the best at the largest one first, and how often a method was best."""
    sizes = sorted(rows["s"].unique())
    by_size = {s: rows[rows["s"] == s].set_index("method") for s in sizes}
    every = list(by_size[sizes[-1]].index)
    every += [name for name in dict.fromkeys(rows["method"]) if name not in every]
    names = _shown(every)
    mean = [_rank_cells(by_size[s].reindex(names)["rank"]) for s in sizes]
    best = [[_times(n) for n in by_size[s].reindex(names)["best"]] for s in sizes]
    columns = [Column(f"s = {s}", group) for group in ("mean rank", "runs in which it was best") for s in sizes]
    return Table(
        "Ranks",
        f"Rank 1 is the highest AUC of the {len(every)} methods in a run; equals share. "
        f"Mean over {_runs(int(rows['runs'].max()))}.{_left_out(every, 'ranks.parquet')}",
        [Column("Method"), *columns],
        list(zip([Cell("", name) for name in names], *mean, *best, strict=True)),
    )


def _rank_cells(values: pd.Series) -> list[Cell]:
    lowest = values.min()
    return [Cell(MISSING) if np.isnan(v) else Cell(f"{v:.1f}", best=v == lowest) for v in values]


def _times(count: float) -> Cell:
    return Cell(MISSING if np.isnan(count) else f"{count:.0f}" if count else "·")


def pair_tables(areas: pd.DataFrame, rows: pd.DataFrame) -> Iterator[Table]:
    for s in _ends(areas):
        found = rows[rows["s"] == s].set_index(["reference", "method"])
        every, references = _best_first(areas[s]), _references(areas[s])
        names = _shown(every)
        cells = [[_difference_cell(found, reference, name) for name in names] for reference in references]
        yield Table(
            f"Differences on {sets_of(s)} (s = {s})",
            f"AUC in percentage points, mean over {_runs(len(areas))}.{_left_out(every, 'pairs.parquet')}",
            [Column("Method"), Column("AUC (%)"), *(Column(r, "AUC minus that of") for r in references)],
            list(
                zip(
                    [Cell("", name) for name in names],
                    [Cell(f"{areas[s][name].mean():.1f}") for name in names],
                    *cells,
                    strict=True,
                )
            ),
        )


def _difference_cell(found: pd.DataFrame, reference: str, method: str) -> Cell:
    if method == reference:
        return Cell("·")
    mean, low, high = found.loc[(reference, method), ["difference", "low", "high"]]
    if np.isnan(low):
        return Cell(_signed(mean))
    clear = round(low, 1) > 0 or round(high, 1) < 0  # judged on what is printed
    return Cell(f"{_signed(mean)} ({_signed(low)} to {_signed(high)})", best=clear)


def _signed(points: float) -> str:
    """With a true minus sign; zero has none."""
    text = f"{points:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _runs(count: int) -> str:
    return "a single run" if count == 1 else f"{count} runs"
