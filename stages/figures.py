"""The report's figures. Pure functions, no pyplot: nothing here depends on what was drawn before.

With fifteen methods or more, lines must be chosen. The rule (`chosen`) looks at names and AUC only, so it works
for methods that do not exist yet, and both measures and all ROC plots show the same ones in the same colours.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from stages.paper import Value
from stages.results import MEASURES, PAPERS_METHOD, MeasureName, Metrics, family, kind, ranked, set_sizes, value

Rocs = Mapping[str, Mapping[int, tuple[np.ndarray, np.ndarray]]]
Style = dict[str, Any]
Point = tuple[float, float]

MOST_LINES = 8
INK, QUIET, FAINT = "#1c2024", "#5c6570", "#dfe3e8"

# Okabe and Ito's colours, which colour-blind readers can tell apart; the paper's own method stands out.
TOLD: dict[str, Style] = {
    PAPERS_METHOD: {"color": "#D55E00", "linewidth": 3.2, "marker": "o", "zorder": 5},
    "pooled": {"color": "#009E73", "linewidth": 2.6, "marker": "s", "zorder": 4},
    f"{PAPERS_METHOD}/ratio": {"color": "#CC79A7", "linewidth": 2.0, "marker": "D", "zorder": 4},
    "threshold": {"color": "#0072B2", "linewidth": 2.0, "marker": "^", "zorder": 4},
    "max-confidence": {"color": "#56B4E9", "linewidth": 2.0, "marker": "v", "zorder": 4},
}
WINNER: Style = {"color": "#000000", "linewidth": 2.6, "marker": "H", "zorder": 4}
DASHES: tuple[Any, ...] = ("--", "-.", ":", (0, (6, 2)))
BASELINES: tuple[Style, ...] = tuple(
    {"color": grey, "linewidth": 1.3, "marker": marker, "linestyle": dash, "zorder": 3}
    for grey, marker, dash in zip(
        ["#4d4d4d", "#6b6b6b", "#858585", "#9a9a9a"] * 2, "PXphd<>8", DASHES + DASHES[::-1], strict=True
    )
)


def chosen(metrics: Metrics) -> list[str]:
    """The lines to draw: the paper's story, the winner, then the best of each kind, then of each family."""
    sizes = set_sizes(metrics)
    best_first = ranked(metrics, sizes[-1]) if sizes else []
    lines = [method for method in TOLD if method in best_first]
    lines += [method for method in best_first[:1] if method not in lines]
    for group in (kind, family):
        for method in best_first:
            if group(method) not in map(group, lines):
                lines.append(method)
    return lines[:MOST_LINES]


def styles(metrics: Metrics) -> dict[str, Style]:
    """The look of each chosen line; a winner from outside the paper's story gets a colour of its own."""
    lines = chosen(metrics)
    others = [method for method in lines if method not in TOLD]
    winner = [m for m in others if m == ranked(metrics, set_sizes(metrics)[-1])[0]]
    baselines = dict(zip([m for m in others if m not in winner], BASELINES, strict=False))
    return {m: TOLD.get(m) or baselines.get(m) or WINNER for m in lines}


def every(metrics: Metrics, rocs: Rocs) -> dict[str, Figure]:
    """All figures of the report by file stem: auc, eer, and roc-s for the smallest and the largest s."""
    drawn = sorted({s for by_size in rocs.values() for s in by_size})
    ends = dict.fromkeys([*drawn[:1], *drawn[-1:]])
    measures: dict[str, Figure] = {measure: curves(metrics, measure) for measure in MEASURES}
    return measures | {f"roc-{s}": roc(rocs, metrics, s) for s in ends}


def curves(metrics: Metrics, measure: MeasureName) -> Figure:
    """A measure by set size with bars of one standard deviation, each line named at its end."""
    figure, axes = canvas(5.8, 4.5)
    sizes, look = set_sizes(metrics), styles(metrics)
    ends = {}
    for shift, (method, style) in zip(_dodge(len(look)), look.items(), strict=True):
        values = {i + shift: value(metrics, method, s, measure) for i, s in enumerate(sizes)}
        if found := {x: v for x, v in values.items() if v}:
            ends[method] = _line(axes, method, found, style)
    axes.set(xlabel="set size s", ylabel=MEASURES[measure].label)
    axes.set_xticks(range(len(sizes)), [str(s) for s in sizes])
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    _name_ends(axes, ends, {method: style["color"] for method, style in look.items()})
    return figure


def _line(axes: Axes, method: str, values: Mapping[float, Value], style: Style) -> Point:
    """Draw a line with its bars; its last point."""
    x, y = list(values), [v.mean for v in values.values()]
    spread = [v.std or 0 for v in values.values()]
    axes.errorbar(x, y, spread, fmt="none", ecolor=style["color"], elinewidth=1, alpha=0.55, zorder=2)
    axes.plot(x, y, label=method, markersize=6, markeredgecolor="white", markeredgewidth=0.7, **style)
    return x[-1], y[-1]


def _dodge(count: int) -> np.ndarray:
    """Small sideways shifts, so that the bars of lines that run together can be told apart."""
    return np.linspace(-0.09, 0.09, count) if count > 1 else np.zeros(count)


def _name_ends(axes: Axes, ends: Mapping[str, Point], colours: Mapping[str, str]) -> None:
    """Write each line's name to the right of its last point, moved apart where they would overlap."""
    names = sorted(ends, key=lambda name: ends[name][1])
    low, high = axes.get_ylim()
    places = spread_out([ends[name][1] for name in names], gap=0.058 * (high - low))
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            name,
            xy=ends[name],
            xytext=(axes.get_xlim()[1], place),
            color=colours[name],
            fontweight="bold" if name == PAPERS_METHOD else "normal",
            va="center",
            annotation_clip=False,
            parse_math=False,  # a dollar sign in a name is a dollar sign
            arrowprops={"arrowstyle": "-", "color": colours[name], "linewidth": 0.6, "alpha": 0.6},
        )


def spread_out(ascending: Sequence[float], gap: float) -> list[float]:
    """The places nearest to the given ones (least squares) that keep the order and lie a gap apart."""
    if not ascending:
        return []
    steps = gap * np.arange(len(ascending))
    # Apart by at least a gap means: ascending still after a gap is taken off each step.
    return list(isotonic_regression(np.array(ascending) - steps).x + steps)


def roc(rocs: Rocs, metrics: Metrics, s: int) -> Figure:
    """Mean ROC curves at set size s, novel as the positive class, the legend in order of AUC."""
    figure, axes = canvas(5.8, 5.8)
    axes.plot([0, 1], [0, 1], color=QUIET, linestyle=(0, (4, 4)), linewidth=1, label="_diagonal")
    look = styles(metrics)
    for method in ranked(metrics, s):
        auc = value(metrics, method, s, "auc")
        if auc and method in look and s in rocs.get(method, {}):
            style = {key: v for key, v in look[method].items() if key != "marker"}
            axes.plot(*rocs[method][s], label=f"{auc.mean:.1f}  {method}", **style)
    axes.set(xlabel="false alarms (known taken for novel)", ylabel="novel found", xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.grid(color=FAINT, linewidth=0.8)
    _legend(axes, f"AUC (%) at s = {s}")
    return figure


def _legend(axes: Axes, title: str) -> None:
    handles, labels = axes.get_legend_handles_labels()
    legend = axes.legend(handles, labels, title=title, loc="lower right", framealpha=0.92, edgecolor=FAINT, fontsize=10)
    for text in legend.get_texts():
        text.set_parse_math(False)


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure in the report's style."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    plain(axes)
    return figure, axes


def plain(axes: Axes) -> None:
    """The report's style: two quiet spines, nothing else."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(colors=QUIET, labelsize=10)
    axes.xaxis.label.set(color=INK, fontsize=11)
    axes.yaxis.label.set(color=INK, fontsize=11)


def png(figure: Figure) -> bytes:
    """The figure as PNG, the same bytes every time: no date, no version of the software."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=160, metadata={"Software": None})
    return out.getvalue()
