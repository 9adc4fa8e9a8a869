"""All points of a sweep side by side: one table, and one figure of the methods that tell most."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stages import figures, files, report, results, tables
from stages.paper import Value
from stages.points import Point, parts
from stages.results import MEASURES, Cell, Column, Metrics, Section, Table

Found = Mapping[str, Metrics]
"""Name of a point -> its metrics, as in report/metrics.json; only of points that are finished."""

PARQUET, CSV, MARKDOWN, FIGURE = "table.parquet", "table.csv", "table.md", "auc.png"
MOST_WINNERS = 4
"""Methods from outside the paper's story that a figure can still show."""
MEASURED = ("auc", "auc_std", "eer", "eer_std")


def write(folder: Path, title: str, points: Sequence[Point], found: Found) -> None:
    """Write all that compares the finished points into a folder."""
    done = [point for point in points if point.name in found]
    frame = pd.DataFrame(rows(done, found))
    tables.write(folder / PARQUET, schema(done), frame)
    files.write_text(folder / CSV, frame.to_csv(index=False, lineterminator="\n"))
    files.write_text(folder / MARKDOWN, markdown(title, points, found))
    with files.finished(folder / FIGURE) as unfinished:
        unfinished.write_bytes(figures.png(draw(done, found)))


def schema(points: Sequence[Point]) -> pa.Schema:
    """A row for each point, method and set size. What a point sets is text, since any parameter may be of any type."""
    return pa.schema(
        [("point", tables.LABEL), *((key, tables.LABEL) for key in points[0].values)]
        + [("method", tables.LABEL), ("s", pa.int32())]
        + [(name, pa.float64()) for name in MEASURED]
        + [("runs", pa.int32())]
    )


def rows(points: Sequence[Point], found: Found) -> Iterator[dict[str, Any]]:
    for point in points:
        metrics = found[point.name]
        set_to = {
            key: json.dumps(value) if not isinstance(value, str) else value for key, value in point.values.items()
        }
        for method in results.methods(metrics):
            for s, cell in metrics[method].items():
                measures = {name: cell[name] for name in MEASURED}
                yield {"point": point.name, **set_to, "method": method, "s": int(s), **measures, "runs": cell["n"]}


def shown(found: Found) -> list[str]:
    """The methods to show: the paper's story and, from outside it, those that were best at most points."""
    names = {method for metrics in found.values() for method in results.methods(metrics)}
    told = [method for method in figures.TOLD if method in names]
    best = Counter(method for metrics in found.values() for method in results.ranked(metrics, ends(found)[-1])[:1])
    return told + [method for method, _ in best.most_common() if method not in told][:MOST_WINNERS]


def short(points: Sequence[Point], found: Found) -> list[dict[str, str]]:
    """AUC of the shown methods, a row for each and each point: narrow enough for a page with something beside it."""
    return [
        {"point": point.name, "method": method}
        | {f"AUC, s = {s}": _auc(found[point.name], method, s) for s in ends(found)}
        for point in points
        if point.name in found
        for method in shown(found)
    ]


def _auc(metrics: Metrics, method: str, s: int) -> str:
    value = results.value(metrics, method, s, "auc")
    return results.show(value, MEASURES["auc"].digits) if value else results.MISSING


def ends(found: Found) -> list[int]:
    """The smallest and the largest set size."""
    sizes = sorted({s for metrics in found.values() for s in results.set_sizes(metrics)})
    return list(dict.fromkeys([*sizes[:1], *sizes[-1:]]))


def labels(points: Sequence[Point]) -> dict[str, str]:
    """What tells the points apart; repetitions and folds are the same for all."""
    return {point.name: ", ".join(_differing(point, points)) or point.name for point in points}


def _differing(point: Point, points: Sequence[Point]) -> Iterator[str]:
    named = parts(point.values)
    for key, value in point.values.items():
        if any(other.values[key] != value for other in points):
            yield named[key].replace("=", " = ")


def progress(points: Sequence[Point], found: Found) -> str:
    missing = [point.name for point in points if point.name not in found]
    return f"{len(found)} of {len(points)} points are finished" + (f"; not {', '.join(missing)}." if missing else ".")


def markdown(title: str, points: Sequence[Point], found: Found) -> str:
    return report.section(Section(f"Sweep {title}", [progress(points, found)], [table(points, found)]))


def table(points: Sequence[Point], found: Found) -> Table:
    """AUC of the shown methods, a row a point, the best of each column in bold."""
    columns = [(method, s) for method in shown(found) for s in ends(found)]
    done = [point for point in points if point.name in found]
    cells = [_column([results.value(found[point.name], method, s, "auc") for point in done]) for method, s in columns]
    counts = sorted({metrics["backbone"]["n"] for metrics in found.values()})
    return Table(
        "AUC (%) by point",
        f"Mean ± standard deviation over the runs of a point ({' to '.join(map(str, counts))}); "
        f"the best point of each column in bold. {CSV} has every method and set size.",
        [Column("Point"), *(Column(f"s = {s}", method) for method, s in columns)],
        list(zip([Cell("", point.name) for point in done], *cells, strict=True)),
    )


def _column(values: Sequence[Value | None]) -> list[Cell]:
    digits = MEASURES["auc"].digits
    best = max((round(value.mean, digits) for value in values if value), default=None)
    return [
        Cell(results.show(value, digits), best=round(value.mean, digits) == best) if value else Cell(results.MISSING)
        for value in values
    ]


def draw(points: Sequence[Point], found: Found) -> Figure:
    """AUC of the shown methods, a line a point, for the smallest and the largest sets side by side."""
    sizes, names = ends(found), labels(points)
    figure = Figure(figsize=(4.4 * len(sizes) + 2.2, 1.5 + 0.5 * len(points)), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, s in zip(panels, sizes, strict=True):
        _panel(axes, s, points, found)
        axes.tick_params(axis="y", length=0)
    panels[0].set_ylim(len(points) - 0.5, -0.5)  # the first point on top
    panels[0].set_yticks(range(len(points)), [names[point.name] for point in points], color=figures.INK)
    handles, methods = panels[0].get_legend_handles_labels()
    figure.legend(handles, methods, loc="outside lower center", ncols=min(5, len(methods)), frameon=False, fontsize=10)
    return figure


def _panel(axes: Axes, s: int, points: Sequence[Point], found: Found) -> None:
    figures.plain(axes)
    axes.set_title(f"{results.sets_of(s)} (s = {s})", fontsize=11, color=figures.INK)
    axes.set_xlabel(MEASURES["auc"].label)
    axes.grid(axis="x", color=figures.FAINT, linewidth=0.8)
    for border in range(1, len(points)):
        axes.axhline(border - 0.5, color=figures.QUIET, linewidth=0.5, alpha=0.5)
    look = styles(shown(found))
    for shift, (method, style) in zip(_apart(len(look)), look.items(), strict=True):
        values = [results.value(found[point.name], method, s, "auc") for point in points]
        there = {place + shift: value for place, value in enumerate(values) if value}
        means, spreads = [v.mean for v in there.values()], [v.std or 0 for v in there.values()]
        axes.hlines(
            list(there),
            np.subtract(means, spreads),
            np.add(means, spreads),
            color=style["color"],
            linewidth=1,
            alpha=0.55,
            zorder=2,
        )
        marks = {key: style[key] for key in ("color", "marker", "zorder")}
        axes.plot(means, list(there), linestyle="", label=method, markersize=6.5, markeredgecolor="white", **marks)


def styles(methods: Sequence[str]) -> dict[str, figures.Style]:
    """The report's colours; winners from outside the paper's story are black or grey."""
    others = iter([figures.WINNER, *figures.BASELINES])
    return {method: figures.TOLD.get(method) or next(others) for method in methods}


def _apart(count: int) -> np.ndarray:
    """The methods of one point a little below each other."""
    return np.linspace(-0.26, 0.26, count) if count > 1 else np.zeros(count)
