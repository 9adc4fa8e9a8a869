"""What a run found, in Markdown, CSV and one self-contained HTML page.

Pure functions: `metrics` (as in report/metrics.json) in, text out. Markdown and HTML print the same tables, those
of stages/results.py.
"""

import base64
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from outclass.errors import Fault
from stages import results
from stages.paper import Value
from stages.results import (
    MEASURED,
    MISSING,
    PAPERS_METHOD,
    Cell,
    MeasureName,
    Metrics,
    Section,
    Table,
    methods,
    ranked,
    set_sizes,
    sets_of,
    show,
    value,
)

# Beside this file and not through importlib.resources, which fails for a stale editable install.
TEMPLATE = Path(__file__).with_name("report.html")


# --- Markdown and CSV ------------------------------------------------------------------------------------


def paper_tables(metrics: Metrics, dataset: str) -> str:
    """Markdown: the paper's two tables with this run's numbers beside the published ones."""
    return "\n".join(_markdown(table) for table in results.papers_tables(metrics, dataset))


def full_table(metrics: Metrics) -> str:
    """Markdown: AUC and EER of every method at every set size."""
    return _markdown(results.full_table(metrics))


def section(part: Section) -> str:
    """Markdown: a section's words and tables."""
    words = "\n\n".join(_escape(text) for text in part.text)
    return "\n".join([f"## {_escape(part.title)}\n\n{words}\n", *(_markdown(table) for table in part.tables)])


def _markdown(table: Table) -> str:
    head = [_escape(column.heading) for column in table.columns]
    align = [":--", *["--:"] * (len(head) - 1)]
    lines = [head, align, *([_markdown_cell(cell) for cell in row] for row in table.rows)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {_escape(table.title)}\n\n{_escape(table.note)}\n\n{body}\n"


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


def headline(metrics: Metrics) -> str:
    """The finding in one sentence: what is best where there is most to go by."""
    sizes = set_sizes(metrics)
    best = ranked(metrics, sizes[-1])[:1] if sizes else []
    for method in best:
        reached = _percent(value(metrics, method, sizes[-1], "auc"))
        return f"{method} tells novel classes from known ones best: AUC {reached} on {sets_of(sizes[-1])}"
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
    text = f"On {sets_of(s)} the paper's own score, {PAPERS_METHOD}, reaches an AUC of {_percent(ours)}"
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
    return f"{show(auc, 1)} %".replace(" ", "\u00a0") if auc else MISSING


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
    "max-softmax": "how far the backbone's highest class probability falls short of 1",
    "max-logit": "minus the backbone's highest output activity",
    "energy": "minus the log-sum-exp of the backbone's output activities",
    "entropy": "how evenly the backbone's probability is spread over the known classes",
    "gen": "generalised entropy of the backbone's probabilities, which heeds small ones more",
    "openmax": "probability of an added “unknown” class, from how extreme the activities are for their classes",
    "nearest-mean": "distance to the nearest class mean",
    "mahalanobis": "distance to the nearest class mean, measured by how items spread within classes",
    "relative-mahalanobis": "as mahalanobis, minus the distance to the mean of all training items",
    "pooled": (
        "the ensemble with one classifier for all partitions and richer inputs: the probability of “novel” that it has "
        "learnt from likelihood ratios, distances and confidences"
    ),
    "plda": "how much likelier a class never seen is than the likeliest known class, both being normally distributed",
    "deep-knn": "distance to the k-th nearest training item, for features scaled to unit length",
    "lof": "local outlier factor: how much sparser training items lie around it than around its neighbours",
    "isolation-forest": "how few random splits set it apart from training items",
    "vim": "energy, and how much of the features lies outside the directions in which training items vary most",
    "knfst": "kernel null space: distance to the nearest class where each class's training items fall onto one point",
    "knn-1": "distance to the nearest training item, relative to how far that one is from its own nearest",
    "knn": "mean distance to the {k} nearest training items, relative to how far those are from theirs",
}
_VARIANTS = {
    "ratio": "with best over second-best confidence as a quotient, equation 3 of the paper to the letter",
    "features": "on feature vectors (“original” in the paper)",
    "confidences": "on the backbone's confidence vectors",
    "mean-score": "averaged over the set's items",
    "mean-vector": "taken of the set's mean vector",
}


def describe(method: str) -> str:
    """One line on a method for a reader who does not know the paper; empty for a method unknown here."""
    base, _, variant = method.partition("/")
    stem, _, k = base.rpartition("-")
    text = _DESCRIPTIONS.get(base) or _DESCRIPTIONS.get(stem, "").replace("{k}", k)
    text = f"as {base}" if variant == "ratio" and text else text
    line = ", ".join(filter(None, [text, _VARIANTS.get(variant)]))
    return f"{line[:1].upper()}{line[1:]}." if line else ""


def glossary(metrics: Metrics) -> dict[str, str]:
    """One line on each method, then on each ending of methods' names, so that no line is said twice."""
    names = [method.partition("/") for method in methods(metrics)]
    endings = {f"…/{variant}": _VARIANTS.get(variant, "") for _, _, variant in names if variant}
    return {base: describe(base) for base, _, _ in names} | {
        ending: f"The method before the stroke, {text}." if text else "" for ending, text in endings.items()
    }


MOST_SKIPPED = 200
"""So many of them are listed on the page."""

# --- the page --------------------------------------------------------------------------------------------


def html(
    metrics: Metrics,
    figures: Mapping[str, bytes],
    facts: Mapping[str, str],
    params_text: str,
    notes: Sequence[str],
    dataset: str,
    skipped: Sequence[Fault] = (),
    sections: Sequence[Section] = (),
) -> str:
    """The whole report as one page that needs no network.

    Figures are PNGs by name; those that no section asks for stand together in front.
    """
    shown = {name: (_caption(name), base64.b64encode(data).decode()) for name, data in figures.items()}
    taken = {name for part in sections for name in part.figures}
    page = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(TEMPLATE.read_text(encoding="utf-8"))
    return page.render(
        dataset=dataset,
        headline=headline(metrics),
        comparisons=comparisons(metrics),
        facts=facts,
        figures=[figure for name, figure in shown.items() if name not in taken],
        sections=[(part, [shown[name] for name in part.figures if name in shown]) for part in sections],
        papers_tables=results.papers_tables(metrics, dataset),
        full_table=results.full_table(metrics),
        glossary=glossary(metrics),
        papers_method=PAPERS_METHOD,
        measured=MEASURED,
        notes=notes,
        skipped=skipped[:MOST_SKIPPED],
        more_skipped=max(0, len(skipped) - MOST_SKIPPED),
        params_text=params_text,
    )


def _caption(figure: str) -> str:
    """A sentence for a figure's file stem; a stem unknown here is its own caption."""
    captions = {
        "auc": "AUC by set size: higher is better, 50 % is guessing. Bars: ± one standard deviation.",
        "eer": "Equal error rate by set size: lower is better, 0.5 is guessing. Bars: ± one standard deviation.",
    }
    captions |= {
        "rates": "A point is one novelty classifier h_l of one run. Above the dashed diagonal it calls classes that "
        "its network was never taught novel more often than those it was taught.",
        "partitions": "AUC if only so many of the partitions vote. Bands: ± one standard deviation between subsets.",
    }
    if size := re.fullmatch(r"roc-(\d+)", figure):
        return f"Mean ROC curves on {sets_of(int(size[1]))} (s = {size[1]}); the dashed diagonal is guessing."
    return captions.get(figure, figure)
