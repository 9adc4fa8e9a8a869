"""Why the ensemble works: what the runs say of the paper's own analysis. Read by stages/evaluate.py.

Of the configured reading of theta, not of the literal ratio. Every number is a mean over the runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from outclass.analysis import (
    Expected,
    auc_by_partitions,
    bounded_errors,
    distance,
    expected_by_rates,
    expected_by_votes,
    independent_votes,
    ladder,
    observed_errors,
)
from outclass.arrays import Bools, Floats
from outclass.seeds import generator
from stages import paths, tables
from stages.results import MISSING, Cell, Column, Metrics, Section, Table, sets_of

METHOD = "ensemble"
SUBSETS = 20
"""So many random subsets of the partitions are drawn for each number of them."""

Run = tuple[int, int]
Numbers = dict[str, Any]
"""Nested, by name; the leaves are numbers."""


class Votes(NamedTuple):
    """On the sets of one size in one run."""

    cast: Bools  # (L, sets): votes for novel by the partitions that have a say
    own: Bools  # (L, sets): if all have a say, each on the class that its own network chose
    novel: Bools  # (sets,)


# --- the numbers -----------------------------------------------------------------------------------------


def read_rates(runs: Sequence[Run]) -> pd.DataFrame:
    """p_l, q_l and the distances of R2, one row for each run, size and partition."""
    columns = ["method", "l", "s", "p", "q", "presumed_novel_distance", "presumed_known_distance"]
    found = [
        tables.read_frame(paths.run("ensemble", r, f) / "classifiers.parquet", tables.CLASSIFIERS, columns).assign(
            r=r, f=f
        )
        for r, f in runs
    ]
    rows = pd.concat(found)
    return rows[rows["method"] == METHOD]


def read_votes(run: Run, scores: pd.DataFrame) -> dict[int, Votes]:
    """By set size. ``scores`` are those of the run; they say which sets are novel."""
    path = paths.run("ensemble", *run) / "votes.parquet"
    rows = tables.read_frame(path, tables.VOTES, ["method", "l", "s", "set", "vote", "own_vote"])
    rows = rows[rows["method"] == METHOD].sort_values(["s", "l", "set"], kind="stable")
    novel = scores[scores["method"] == "threshold"].sort_values("set").groupby("s")["novel"]
    return {int(s): _votes(of_size, novel.get_group(s).to_numpy(dtype=bool)) for s, of_size in rows.groupby("s")}


def _votes(rows: pd.DataFrame, novel: Bools) -> Votes:
    cast, own = (rows[name].to_numpy().reshape(-1, len(novel)) > 0 for name in ("vote", "own_vote"))
    return Votes(cast, own, novel)


def of_run(run: Run, scores: pd.DataFrame, presumed_novel: float, seed: int) -> Numbers:
    """Everything by set size; ``presumed_novel`` is the share of the known classes that a partition presumes novel."""
    rates = read_rates([run])
    return {
        str(s): _of_size(votes, rates[rates["s"] == s], scores, presumed_novel, generator(seed, "subsets", *run, s))
        for s, votes in read_votes(run, scores).items()
    }


def _of_size(
    votes: Votes, rates: pd.DataFrame, scores: pd.DataFrame, presumed_novel: float, rng: np.random.Generator
) -> Numbers:
    raw = scores[(scores["method"] == "threshold") & (scores["s"] == rates["s"].iloc[0])]
    p, q = rates["p"].to_numpy(), rates["q"].to_numpy()
    return {
        "rates": {"p": np.mean(p), "q": np.mean(q), "p_above_q": np.mean(p > q)},
        "theta": _requirements(raw, rates),
        "simplified": _bound(expected_by_rates(p, q, presumed_novel), votes.own, votes.novel),
        "as_used": _bound(expected_by_votes(votes.cast, votes.novel), votes.cast, votes.novel),
        "partitions": _by_partitions(votes, rng),
    }


def _requirements(raw: pd.DataFrame, rates: pd.DataFrame) -> Numbers:
    """R1 in the backbone, R2 in the partitions' networks: distances of distributions of theta_S."""
    novel, theta = raw["novel"].to_numpy(dtype=bool), raw["novelty"].to_numpy()
    return {
        "known_from_novel": distance(theta[~novel], theta[novel]),
        "presumed_novel_from_novel": rates["presumed_novel_distance"].mean(),
        "presumed_known_from_novel": rates["presumed_known_distance"].mean(),
    }


def _bound(expected: Expected, votes: Bools, novel: Bools) -> Numbers:
    bounded = bounded_errors(expected)
    observed = observed_errors(votes.sum(axis=0), novel, expected.threshold)
    return {
        **{"mu_known": expected.known, "mu_novel": expected.novel, "threshold": expected.threshold},
        **{"known_bound": bounded.known, "known_error": observed.known},
        **{"novel_bound": bounded.novel, "novel_error": observed.novel},
        "independent_votes": (independent_votes(votes[:, novel]) + independent_votes(votes[:, ~novel])) / 2,
    }


def _by_partitions(votes: Votes, rng: np.random.Generator) -> Numbers:
    """AUC in percent by number of partitions, and its spread between subsets of the same run."""
    sizes = ladder(len(votes.cast))
    areas = 100 * auc_by_partitions(votes.cast, votes.novel, sizes, SUBSETS, rng)
    return {str(size): {"auc": row.mean(), "auc_std": row.std(ddof=1)} for size, row in zip(sizes, areas, strict=True)}


def mean(numbers: Sequence[Any]) -> Any:
    """The mean over runs of numbers nested alike, rounded as the metrics are; None for what cannot be told."""
    if isinstance(numbers[0], Mapping):
        return {key: mean([one[key] for one in numbers]) for key in numbers[0]}
    value = float(np.mean(numbers))
    return None if np.isnan(value) else round(value, 5)


# --- as read ---------------------------------------------------------------------------------------------

FIGURES = ("rates", "partitions")


def section(metrics: Metrics) -> Section:
    found = metrics["analysis"]
    return Section(
        "Why it works: the paper's own analysis",
        [
            "Each small classifier h_l need only be right more often than wrong. It says “novel” to a share p_l of the "
            "sets whose class its network was never taught, and to a share q_l of the others. If p_l is above q_l for "
            "most of them, the count of their votes separates novel from known, the better the more votes there are.",
            "That asks two things of theta, the lead of the best class over the second best. R1: it is distributed "
            "differently in known and in novel classes. R2: classes that pose as novel look like truly novel ones. "
            "Distances are Kolmogorov-Smirnov statistics: 0 for distributions that are the same, 1 for such as never "
            "overlap. R2 holds where presumed-novel classes are near the novel ones and presumed-known ones are far.",
            finding(found),
        ],
        [requirements_table(found), bound_table(found), partitions_table(found)],
        FIGURES,
    )


def finding(found: Numbers) -> str:
    """What the tables say at the largest set size."""
    s = max(found, key=int)
    rates, theta, partitions = (found[s][name] for name in ("rates", "theta", "partitions"))
    fewer, most = ([*partitions][-2:-1] or [*partitions])[0], [*partitions][-1]
    near, far = (_number(theta[f"presumed_{which}_from_novel"], 2).text for which in ("novel", "known"))
    worth = found[s]["as_used"]["independent_votes"]
    votes = f"the {most} votes, which agree more than independent ones would, are worth about {worth:.0f} that do not"
    return (
        f"Here, on {sets_of(int(s))}: p is above q in {100 * rates['p_above_q']:.0f}\u00a0% of the classifiers; "
        f"presumed-novel classes lie {near} from the novel ones and presumed-known ones {far}; "
        f"{fewer} of the {most} partitions reach an AUC of {partitions[fewer]['auc']:.1f}\u00a0%, all of them "
        f"{partitions[most]['auc']:.1f}\u00a0%" + (f"; and {votes}." if worth < int(most) else ".")
    )


def requirements_table(found: Numbers) -> Table:
    rows = [
        (
            Cell(f"s = {s}"),
            *(_share(of["rates"][name]) for name in ("p", "q", "p_above_q")),
            *(_number(of["theta"][name], 2) for name in of["theta"]),
        )
        for s, of in found.items()
    ]
    rates = [Column(label, "h_l says novel to") for label in ("untaught (p)", "taught (q)")]
    return Table(
        "Each classifier on its own, and the two requirements",
        "Means over partitions and runs. “Untaught” are sets of novel and presumed-novel classes, “taught” those of "
        "presumed-known ones. R1 is measured in the backbone (the AUC that goes with it is that of threshold), R2 in "
        "each partition's own network.",
        [
            *(Column("Set size"), *rates, Column("h_l with p > q"), Column("known", "R1: distance from novel")),
            *(Column(f"presumed {which}", "R2: distance from novel") for which in ("novel", "known")),
        ],
        rows,
    )


def bound_table(found: Numbers) -> Table:
    """Equations 5 and 6 beside what was observed."""
    ways = {"simplified": "all vote", "as_used": "as used"}
    rows = [
        (
            Cell(f"s = {s}, {label}"),
            *(_number(of[way][name], 1) for name in ("mu_known", "mu_novel", "threshold")),
            *(_share(of[way][f"{kind}_{what}"]) for kind in ("known", "novel") for what in ("bound", "error")),
            _number(of[way]["independent_votes"], 1),
        )
        for s, of in found.items()
        for way, label in ways.items()
    ]
    partitions = max(int(n) for of in found.values() for n in of["partitions"])
    sides = ("known called novel", "novel called known")
    return Table(
        "What counting votes promises, and what it gives",
        "The Chernoff bound of equations 5 and 6: were the votes independent of each other, the errors at a threshold "
        "half-way between the expected counts would be no larger than this. They are not independent: the same set is "
        f"hard for all of them, so errors may exceed the bound; by the spread of the count, the {partitions} votes are "
        "worth as many independent ones as the last column says. “All vote” is the paper's simplification (which also "
        "has s = 1): every partition votes, on the class that its own network chose. “As used”: only the partitions "
        "that presume the backbone's choice known.",
        [
            Column(""),
            *(Column(label, "votes for novel") for label in ("known", "novel", "threshold")),
            *(Column(what, side) for side in sides for what in ("bound", "observed")),
            Column("votes worth"),
        ],
        rows,
    )


def partitions_table(found: Numbers) -> Table:
    counts = sorted({int(n) for of in found.values() for n in of["partitions"]})
    rows = [(Cell(f"s = {s}"), *(_area(of["partitions"].get(str(n))) for n in counts)) for s, of in found.items()]
    return Table(
        "How many partitions it takes",
        f"AUC in percent of ensemble-count if only so many partitions vote: mean ± standard deviation over {SUBSETS} "
        "random subsets of each run's partitions, nothing trained anew.",
        [Column("Set size"), *(Column(f"L = {n}") for n in counts)],
        rows,
    )


def _area(cell: Mapping[str, float] | None) -> Cell:
    if cell is None:
        return Cell(MISSING)
    spread = f" ± {cell['auc_std']:.1f}" if cell["auc_std"] else ""  # all partitions: no subset differs
    return Cell(f"{cell['auc']:.1f}{spread}")


def _number(value: float | None, digits: int) -> Cell:
    return Cell(MISSING if value is None else f"{value:.{digits}f}")


def _share(value: float) -> Cell:
    return Cell(f"{100 * value:.0f} %")


def rate_points(rates: pd.DataFrame) -> dict[int, tuple[Floats, Floats]]:
    """q_l and p_l of every partition of every run by set size, for the figure."""
    return {int(s): (rows["q"].to_numpy(), rows["p"].to_numpy()) for s, rows in rates.groupby("s")}
