"""Figures of the paper's own analysis, in the style of stages/figures.py."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from outclass.arrays import Floats
from stages.figures import FAINT, INK, QUIET, canvas

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"


def rates(points: Mapping[int, tuple[Floats, Floats]]) -> Figure:
    """p_l against q_l, a point for each novelty classifier; above the diagonal is good."""
    figure, axes = canvas(5.8, 5.2)
    axes.plot([0, 1], [0, 1], color=QUIET, linestyle=(0, (4, 4)), linewidth=1, label="_diagonal")
    for place, (s, (q, p)) in enumerate(points.items()):
        colour, marker = _look(place)
        axes.scatter(q, p, 22, color=colour, marker=marker, alpha=0.6, linewidth=0, label=f"s = {s}")
    axes.set(xlabel="q: taught classes called novel", ylabel="p: untaught classes called novel")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
    axes.grid(color=FAINT, linewidth=0.8)
    axes.legend(loc="lower right", framealpha=0.92, edgecolor=FAINT, fontsize=10)
    return figure


def partitions(found: Mapping[str, Any]) -> Figure:
    """AUC of the count by number of partitions, a line for each set size, with a band of one standard deviation."""
    figure, axes = canvas(5.8, 5.2)
    for place, (s, of_size) in enumerate(found.items()):
        counts = np.array([int(n) for n in of_size["partitions"]])
        area, spread = (np.array([cell[k] for cell in of_size["partitions"].values()]) for k in ("auc", "auc_std"))
        colour, marker = _look(place)
        axes.fill_between(counts, area - spread, area + spread, color=colour, alpha=0.12, linewidth=0)
        axes.plot(counts, area, color=colour, marker=marker, markersize=5, markeredgecolor="white")
        axes.annotate(f"s = {s}", (counts[-1], area[-1]), (8, 0), textcoords="offset points", va="center", color=INK)
    axes.set(xlabel="partitions that vote", ylabel="AUC (%) of ensemble-count", xscale="log")
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.minorticks_off()
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.margins(x=0.12)
    return figure


def _look(place: int) -> tuple[str, str]:
    """Colour and marker of the sets of one size, the same in both figures."""
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
