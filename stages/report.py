"""What a run found, in Markdown, CSV and one self-contained HTML page.

Pure functions: `metrics` (as in report/metrics.json) in, text out. Every table is built once, as a `Table`
of cells; Markdown and HTML only differ in how they print it.
"""

import base64
import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jinja2

from stages import paper
from stages.paper import Value

Metrics = Mapping[str, Any]
MeasureName = Literal["auc", "eer"]

PAPERS_METHOD = "ensemble-count"
MISSING = "–"
MEASURED = "measured here"
# Beside this file and not through importlib.resources, which fails for a stale editable install.
TEMPLATE = Path(__file__).with_name("report.html")


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
    return [name for name in metrics if name != "backbone"]


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


# --- tables ----------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    text: str
    code: str = ""  # a name of ours, set in code font
    best: bool = False


class Column(NamedTuple):
    label: str
    group: str = ""
    source: str = ""  # who measured it, where one table mixes published and own numbers


class Table(NamedTuple):
    title: str
    note: str
    columns: list[Column]
    rows: list[tuple[Cell, ...]]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group, as (group, number of columns)."""
        return [(group, len(list(same))) for group, same in groupby(c.group for c in self.columns)]


def _show(value: Value, digits: int) -> str:
    spread = "" if value.std is None else f" ± {value.std:.{digits}f}"
    return f"{value.mean:.{digits}f}{spread}"


def _show_published(value: Value, digits: int) -> str:
    # The paper gives one spread (0.004) more digits than its mean: print spreads as they stand there.
    return f"{value.mean:.{digits}f} ± {value.std:g}"


def _cells(values: Sequence[Value | None], measure: MeasureName, published: bool = False) -> list[Cell]:
    """One column of numbers; best is judged on what is printed, so equal-looking numbers share it."""
    m = MEASURES[measure]
    digits, show = (m.published_digits, _show_published) if published else (m.digits, _show)
    best = m.best([round(v.mean, digits) for v in values if v] or [math.nan])
    missing = Cell("NA" if published else MISSING)
    return [Cell(show(v, digits), best=round(v.mean, digits) == best) if v else missing for v in values]


def _papers_rows(metrics: Metrics, s: int) -> list[paper.Row]:
    """The paper's rows and, below, a row without published numbers for each method that it lacks."""
    published = paper.TABLES[s]
    extra = [m for m in ranked(metrics, s) if m not in {row.ours for row in published}]
    return [*published, *(paper.Row("", name, (None, None), (None, None)) for name in extra)]


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
        "Rows without the paper's wording are methods that it does not have."
    )


def _papers_table(metrics: Metrics, dataset: str, s: int) -> Table:
    rows = _papers_rows(metrics, s)
    measures: tuple[MeasureName, ...] = ("eer", "auc")  # in the paper's order
    sources = [*((name, "published") for name in paper.DATASETS), (dataset, MEASURED)]
    columns = [Column(name, MEASURES[m].label, source) for m in measures for name, source in sources]
    cells = [column for m in measures for column in _papers_columns(rows, metrics, s, m)]
    return Table(
        f"{_sets_of(s).capitalize()} (s = {s}): published beside measured here",
        _papers_note(dataset, s),
        [Column("Method"), *columns],
        list(zip([Cell(row.wording, row.ours or "") for row in rows], *cells, strict=True)),
    )


def _full_table(metrics: Metrics) -> Table:
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


# --- Markdown and CSV ------------------------------------------------------------------------------------


def paper_tables(metrics: Metrics, dataset: str) -> str:
    """Markdown: the paper's two tables with this run's numbers beside the published ones."""
    return "\n".join(_markdown(_papers_table(metrics, dataset, s)) for s in paper.TABLES)


def full_table(metrics: Metrics) -> str:
    """Markdown: AUC and EER of every method at every set size."""
    return _markdown(_full_table(metrics))


def _markdown(table: Table) -> str:
    head = [_escape(_heading(column)) for column in table.columns]
    align = [":--", *["--:"] * (len(head) - 1)]
    lines = [head, align, *([_markdown_cell(cell) for cell in row] for row in table.rows)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {_escape(table.title)}\n\n{_escape(table.note)}\n\n{body}\n"


def _heading(column: Column) -> str:
    source = f" ({column.source})" if column.source else ""
    return f"{column.group} {column.label}".strip() + source


def _markdown_cell(cell: Cell) -> str:
    # Inside a code span a backslash escapes nothing but the table's own bar, and a backtick would end it.
    code = f"`{_one_line(cell.code).replace('`', chr(39)).replace('|', chr(92) + '|')}`" if cell.code else ""
    text = " ".join(filter(None, [_escape(cell.text), code]))
    return f"**{text}**" if cell.best else text


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def curves_csv(metrics: Metrics, measure: MeasureName) -> str:
    """CSV for `dvc plots`: a row per set size, a column per method, unrounded; empty where not measured."""
    names, out = methods(metrics), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["s", *names])
    for s in set_sizes(metrics):
        found = (value(metrics, name, s, measure) for name in names)
        writer.writerow([s, *("" if v is None else v.mean for v in found)])
    return out.getvalue()


# --- words -----------------------------------------------------------------------------------------------


def _sets_of(s: int) -> str:
    return "single items" if s == 1 else f"sets of {s} items"


def headline(metrics: Metrics) -> str:
    """The finding in one sentence: what is best where there is most to go by."""
    sizes = set_sizes(metrics)
    best = ranked(metrics, sizes[-1])[:1] if sizes else []
    for method in best:
        reached = _percent(value(metrics, method, sizes[-1], "auc"))
        return f"{method} tells novel classes from known ones best: AUC {reached} on {_sets_of(sizes[-1])}"
    return "Nothing was measured"


def comparisons(metrics: Metrics) -> list[str]:
    """The paper's count against its two plainest rivals, at the largest and at the smallest set size."""
    sizes = set_sizes(metrics)
    ends = dict.fromkeys([*sizes[-1:], *sizes[:1]])
    return [sentence for s in ends if (sentence := _comparison(metrics, s))]


def _comparison(metrics: Metrics, s: int) -> str:
    ours = value(metrics, PAPERS_METHOD, s, "auc")
    if ours is None:
        return ""
    rivals = [_against(metrics, ours, s, rival) for rival in ("threshold", "max-confidence")]
    said = " and ".join(filter(None, rivals))
    text = f"On {_sets_of(s)} the paper's own score, {PAPERS_METHOD}, reaches an AUC of {_percent(ours)}"
    return f"{text}{': ' if said else ''}{said}."


def _against(metrics: Metrics, ours: Value, s: int, rival: str) -> str:
    other = value(metrics, rival, s, "auc")
    if other is None:
        return ""
    # The difference of the printed numbers, so that the reader's own subtraction agrees.
    points = round(ours.mean, 1) - round(other.mean, 1)
    if abs(points) < 0.05:
        return f"level with {rival}"
    return f"{abs(points):.1f} points {'above' if points > 0 else 'below'} {rival} ({other.mean:.1f}\u00a0%)"


def _percent(auc: Value | None) -> str:
    """An AUC for running text, with spaces that do not break over a line."""
    return f"{_show(auc, 1)} %".replace(" ", "\u00a0") if auc else MISSING


_DESCRIPTIONS = {
    "ensemble-count": (
        "the paper's method: small classifiers learn novelty on known classes that take turns posing as novel; "
        "the score is how many of them say “novel”"
    ),
    "ensemble-margin": "as ensemble-count, but how far on the novel side the classifiers see the set, on average",
    "ensemble-probability": "as ensemble-count, but the classifiers' mean probability of “novel”",
    "threshold": "the paper's raw score, no learning: how little the best class stands out from the second best",
    "max-confidence": "minus the backbone's highest confidence in any known class",
    "ocsvm": "one-class SVM: how far outside a boundary around all training items",
    "knn-1": "distance to the nearest training item, relative to how far that one is from its own nearest",
    "knn": "mean distance to the {k} nearest training items, relative to how far those are from theirs",
}
_VARIANTS = {
    "ratio": "with best over second-best confidence as a quotient, equation 3 of the paper to the letter",
    "features": "on feature vectors (“original” in the paper)",
    "confidences": "on the backbone's confidence vectors",
}


def describe(method: str) -> str:
    """One line on a method for a reader who does not know the paper; empty for a method unknown here."""
    base, _, variant = method.partition("/")
    stem, _, k = base.rpartition("-")
    text = _DESCRIPTIONS.get(base) or _DESCRIPTIONS.get(stem, "").replace("{k}", k)
    text = f"as {base}" if variant == "ratio" and text else text
    line = ", ".join(filter(None, [text, _VARIANTS.get(variant)]))
    return f"{line[:1].upper()}{line[1:]}." if line else ""


# --- the page --------------------------------------------------------------------------------------------


def html(
    metrics: Metrics,
    figures: Mapping[str, bytes],
    facts: Mapping[str, str],
    params_text: str,
    notes: Sequence[str],
    dataset: str,
) -> str:
    """The whole report as one page that needs no network; figures are PNGs by the names of `figures.every`."""
    page = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return page.render(
        dataset=dataset,
        headline=headline(metrics),
        comparisons=comparisons(metrics),
        facts=facts,
        figures=[(_caption(name), base64.b64encode(data).decode()) for name, data in figures.items()],
        papers_tables=[_papers_table(metrics, dataset, s) for s in paper.TABLES],
        full_table=_full_table(metrics),
        descriptions={m: describe(m) for m in methods(metrics)},
        papers_method=PAPERS_METHOD,
        measured=MEASURED,
        notes=notes,
        params_text=params_text,
    )


def _caption(figure: str) -> str:
    """A sentence for a figure's file stem; a stem unknown here is its own caption."""
    captions = {
        "auc": "AUC by set size: higher is better, 50 % is guessing. Bars: ± one standard deviation.",
        "eer": "Equal error rate by set size: lower is better, 0.5 is guessing. Bars: ± one standard deviation.",
    }
    if size := re.fullmatch(r"roc-(\d+)", figure):
        return f"Mean ROC curves on {_sets_of(int(size[1]))} (s = {size[1]}); the dashed diagonal is guessing."
    return captions.get(figure, figure)
