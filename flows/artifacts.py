"""What a finished run shows in the Prefect UI: the tables, the curves, and where the report is."""

import base64
import json
import re
from pathlib import Path

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows import server
from stages import paper, params, paths, results
from stages.results import MEASURES, Cell, Metrics, Table

CURVES = {"auc": "AUC by set size", "eer": "Equal error rate by set size"}


def publish(point: str | None) -> None:
    """All of the run's results; in the copy for a sweep's point, which is soon gone, under keys of its own."""
    metrics = json.loads((paths.REPORT / "metrics.json").read_text())
    for_point = f" {point}" if point else ""
    create_table_artifact(
        table(metrics), key=key(f"results{for_point}"), description="AUC (%) and EER, mean ± standard deviation"
    )
    beside = results.papers_tables(metrics, params.load().download.source)
    for size, shown in zip(paper.TABLES, beside, strict=True):
        words = f"{shown.title}. {shown.note}"
        create_table_artifact(records(shown), key=key(f"paper s {size}{for_point}"), description=words)
    figures = curves(paths.REPORT / "figures")
    create_markdown_artifact(figures, key=key(f"curves{for_point}"), description="AUC and EER by set size")
    if not point:
        create_link_artifact(report_address(), "report/index.html", key="report", description="The report as one page")


def key(words: str) -> str:
    """What Prefect takes for an artifact's key."""
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")


def table(metrics: Metrics) -> list[dict[str, str]]:
    """A row a method, those of the paper's story first, then the others, the best at the largest sets first."""
    from stages.figures import TOLD  # here, because matplotlib takes longer to load than the flow to start

    sizes = results.set_sizes(metrics)
    best_first = results.ranked(metrics, sizes[-1])
    names = [name for name in TOLD if name in best_first] + [name for name in best_first if name not in TOLD]
    return [{"method": name} | _numbers(metrics, name, sizes) for name in names]


def records(table: Table) -> list[dict[str, str]]:
    """A table of the report as one of the UI's own, which scroll: in a text it would run over what is beside it."""
    headings = [column.heading for column in table.columns]
    return [dict(zip(headings, map(_text, row), strict=True)) for row in table.rows]


def _text(cell: Cell) -> str:
    return f"{cell.text} ({cell.code})" if cell.text and cell.code else cell.text or cell.code


def _numbers(metrics: Metrics, method: str, sizes: list[int]) -> dict[str, str]:
    return {
        f"{measure.upper()}, s = {s}": results.show(value, MEASURES[measure].digits) if value else results.MISSING
        for measure in MEASURES
        for s in sizes
        for value in [results.value(metrics, method, s, measure)]
    }


def curves(folder: Path) -> str:
    """Markdown with the pictures in it: the Prefect server cannot reach the workspace's files."""
    shown = {words: folder / f"{name}.png" for name, words in CURVES.items()}
    return "\n\n".join(
        f"## {words}\n\n![{words}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})"
        for words, path in shown.items()
    )


def report_address() -> str:
    """Where ``make ui`` serves the report; a browser on this machine can also open the file."""
    served = server.report_address()
    return f"{served}/index.html" if served else (paths.REPORT / "index.html").absolute().as_uri()
