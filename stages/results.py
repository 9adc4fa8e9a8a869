"""What a run found, as data: numbers looked up in `metrics` (as in report/metrics.json) and tables of them.

Pure functions. A `Table` holds its cells as they read; how it is printed is up to stages/report.py.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from stages import paper
from stages.paper import Value

Metrics = Mapping[str, Any]
MeasureName = Literal["auc", "eer"]

PAPERS_METHOD = "ensemble-count"
MISSING = "–"
MEASURED = "measured here"
NO_METHODS = ("backbone", "analysis")
"""What the metrics hold beside the methods."""
MOST_EXTRA = 5
"""So many methods that the paper does not have are shown beside its own."""


class Measure(NamedTuple):
    label: str
    digits: int
    published_digits: int
    best: Callable[[Iterable[float]], float]


# AUC in tenths of a percent and EER in thousandths: the same resolution, so neither looks more exact.
MEASURES: dict[MeasureName, Measure] = {
    "auc": Measure("AUC (%)", 1, 0, max),
    "eer": Measure("EER", 3, 2, min),
}


# --- reading the metrics ---------------------------------------------------------------------------------


def methods(metrics: Metrics) -> list[str]:
    """The names of the methods, in the order of the metrics."""
    return [name for name in metrics if name not in NO_METHODS]


def set_sizes(metrics: Metrics) -> list[int]:
    """Every set size that any method was measured at, ascending."""
    return sorted({int(s) for method in methods(metrics) for s in metrics[method]})


def value(metrics: Metrics, method: str | None, s: int, measure: MeasureName) -> Value | None:
    """The mean of a measure and its spread (None over a single run), or None if it was not measured."""
    cell = metrics.get(method, {}).get(str(s), {}) if method else {}
    mean, std = cell.get(measure), cell.get(f"{measure}_std")
    if mean is None or math.isnan(mean):
        return None
    alone = cell.get("n", 2) < 2 or std is None or math.isnan(std)
    return Value(mean, None if alone else std)


def ranked(metrics: Metrics, s: int) -> list[str]:
    """The methods measured at set size s, the highest AUC first; equals keep their order."""
    found = [(v.mean, m) for m in methods(metrics) if (v := value(metrics, m, s, "auc"))]
    return [method for _, method in sorted(found, key=lambda pair: -pair[0])]


def family(method: str) -> str:
    """What a method is a variant of: knn-5/features and knn-1/features are one, all ensembles are one."""
    return re.sub(r"(?<=^ensemble)-.*|-\d+(?=/|$)|/ratio$", "", method)


def kind(method: str) -> str:
    """Its family whatever it is computed on: knn-5/features and knn-1/confidences are one."""
    return family(method).partition("/")[0]


# --- how they read ---------------------------------------------------------------------------------------


def show(value: Value, digits: int) -> str:
    """A mean with its spread, if it has one, both to so many digits."""
    spread = "" if value.std is None else f" ± {value.std:.{digits}f}"
    return f"{value.mean:.{digits}f}{spread}"


def sets_of(s: int) -> str:
    """Sets of s items, as one says it."""
    return "single items" if s == 1 else f"sets of {s} items"


# --- tables ----------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    text: str
    code: str = ""  # a name of ours, set in code font
    best: bool = False


class Column(NamedTuple):
    label: str
    group: str = ""
    source: str = ""  # who measured it, where one table mixes published and own numbers

    @property
    def heading(self) -> str:
        """All of it in one line."""
        return f"{self.group} {self.label}".strip() + (f" ({self.source})" if self.source else "")


class Table(NamedTuple):
    title: str
    note: str
    columns: list[Column]
    rows: list[tuple[Cell, ...]]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group, as (group, number of columns)."""
        return [(group, len(list(same))) for group, same in groupby(c.group for c in self.columns)]


class Section(NamedTuple):
    """A part of the report; figures go by their names."""

    title: str
    text: list[str]
    tables: list[Table]
    figures: tuple[str, ...] = ()
    wide: bool = False  # has tables of many columns


def papers_tables(metrics: Metrics, dataset: str) -> list[Table]:
    """The paper's two tables with this run's numbers beside the published ones."""
    return [_papers_table(metrics, dataset, s) for s in paper.TABLES]


def _papers_table(metrics: Metrics, dataset: str, s: int) -> Table:
    rows = _papers_rows(metrics, s)
    measures: tuple[MeasureName, ...] = ("eer", "auc")  # in the paper's order
    sources = [*((name, "published") for name in paper.DATASETS), (dataset, MEASURED)]
    columns = [Column(name, MEASURES[m].label, source) for m in measures for name, source in sources]
    cells = [column for m in measures for column in _papers_columns(rows, metrics, s, m)]
    return Table(
        f"{sets_of(s).capitalize()} (s = {s}): published beside measured here",
        _papers_note(dataset, s),
        [Column("Method"), *columns],
        list(zip([Cell(row.wording, row.ours or "") for row in rows], *cells, strict=True)),
    )


def _papers_rows(metrics: Metrics, s: int) -> list[paper.Row]:
    """The paper's rows and, below, rows without published numbers: the best of each kind of method that it lacks."""
    published = paper.TABLES[s]
    extra = [m for m in ranked(metrics, s) if m not in {row.ours for row in published}]
    best_of_kind = {kind(m): m for m in reversed(extra)}
    shown = [m for m in extra if m in best_of_kind.values()][:MOST_EXTRA]
    return [*published, *(paper.Row("", name, (None, None), (None, None)) for name in shown)]


def _papers_columns(rows: Sequence[paper.Row], metrics: Metrics, s: int, measure: MeasureName) -> list[list[Cell]]:
    """The two published columns of a measure, blank where the paper has no such row, and ours."""
    there = [row for row in rows if row.wording]
    blank = [Cell("")] * (len(rows) - len(there))
    published = zip(*(getattr(row, measure) for row in there), strict=True)
    ours = [value(metrics, row.ours, s, measure) for row in rows]
    return [*(_cells(values, measure, published=True) + blank for values in published), _cells(ours, measure)]


def _papers_note(dataset: str, s: int) -> str:
    own = re.sub(r"[\W_]", "", dataset).lower() in {re.sub(r"\W", "", d).lower() for d in paper.DATASETS}
    comparison = (
        "the paper's data, but our own splits and training"
        if own
        else "another data set than the paper's, so compare the order of the methods, not the numbers"
    )
    return (
        f"“Published” columns are copied from Vinokurov & Weinshall (2016), table {paper.TABLE_NUMBERS[s]}, "
        f"and “our method” in its first row is theirs. “Measured here” is this run on {dataset}: {comparison}. "
        "Rows without the paper's wording are the best of those methods that it does not have, one of a kind."
    )


def full_table(metrics: Metrics) -> Table:
    """Every method at every set size, the best at the largest one first."""
    sizes = set_sizes(metrics)
    first = ranked(metrics, sizes[-1]) if sizes else []
    names = [*first, *(m for m in methods(metrics) if m not in first)]
    grid = [(m, s) for m in MEASURES for s in sizes]
    cells = [_cells([value(metrics, name, s, m) for name in names], m) for m, s in grid]
    return Table(
        "Every method at every set size",
        f"Mean{_over_runs(metrics)}; the best of each column in bold.",
        [Column("Method"), *(Column(f"s = {s}", MEASURES[m].label) for m, s in grid)],
        list(zip([Cell("", name) for name in names], *cells, strict=True)),
    )


def _over_runs(metrics: Metrics) -> str:
    counts = sorted({cell["n"] for m in methods(metrics) for cell in metrics[m].values() if "n" in cell})
    if not counts or counts == [1]:
        return " of a single run"
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f" ± standard deviation over {many} runs (folds × repetitions)"


def _show_published(value: Value, digits: int) -> str:
    # The paper gives one spread (0.004) more digits than its mean: print spreads as they stand there.
    return f"{value.mean:.{digits}f} ± {value.std:g}"


def _cells(values: Sequence[Value | None], measure: MeasureName, published: bool = False) -> list[Cell]:
    """One column of numbers; best is judged on what is printed, so equal-looking numbers share it."""
    m = MEASURES[measure]
    digits, text = (m.published_digits, _show_published) if published else (m.digits, show)
    best = m.best([round(v.mean, digits) for v in values if v] or [math.nan])
    missing = Cell("NA" if published else MISSING)
    return [Cell(text(v, digits), best=round(v.mean, digits) == best) if v else missing for v in values]
