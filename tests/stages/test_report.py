import csv
import io
import re
import struct

import numpy as np
import pytest

from stages import figures, report, results
from stages.results import Cell, Column, Section, Table, methods

PIXEL = b"\x89PNG not really"


def cell(auc: float, eer: float, n: int = 6) -> dict:
    return {"auc": auc, "auc_std": 1.25, "eer": eer, "eer_std": 0.0104, "n": n}


@pytest.fixture
def metrics() -> dict:
    """Five methods at s = 1 and 5, with easy numbers; knn-2 is not in the paper, max-confidence lacks s = 5."""
    return {
        "ensemble-count": {"1": cell(65.94, 0.3861), "5": cell(87.5, 0.2)},
        "ensemble-margin": {"1": cell(67.1, 0.377), "5": cell(89.7, 0.186)},
        "threshold": {"1": cell(67.14, 0.3774), "5": cell(83.5, 0.25)},
        "max-confidence": {"1": cell(61.6, 0.41)},
        "knn-2/features": {"1": cell(55.0, 0.46), "5": cell(60.0, 0.43)},
        "backbone": {"accuracy": 0.66, "accuracy_std": 0.01, "n": 6},
    }


@pytest.fixture
def rocs(metrics: dict) -> dict:
    grid = np.linspace(0, 1, 5)
    return {m: {int(s): (grid, grid**0.5) for s in metrics[m]} for m in methods(metrics)}


def page(metrics: dict, **given) -> str:
    rest = {"figures": {"auc": PIXEL}, "facts": {"Data": "glyphs"}, "params_text": "seed: 0", "notes": ["one"]}
    return report.html(metrics, **{**rest, "dataset": "glyphs", **given})


def parse(markdown: str) -> list[dict[str, str]]:
    """The tables of a Markdown text as rows by column name (no name holds a bar in these)."""
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in markdown.splitlines() if "|" in line]
    head = [i for i, line in enumerate(lines) if line[0] == ":--"]
    rows = []
    for start, end in zip(head, [*(i - 1 for i in head[1:]), len(lines)], strict=True):
        rows += [dict(zip(lines[start - 1], line, strict=True)) for line in lines[start + 1 : end]]
    return rows


def find(rows: list[dict[str, str]], method: str) -> dict[str, str]:
    return next(row for row in rows if row["Method"] == method)


class TestPaperTables:
    def test_published_and_ours_side_by_side(self, metrics):
        text = report.paper_tables(metrics, "glyphs")
        first, second = text.split("### ")[1:]
        row = find(parse(first), "Our method `ensemble-count`")
        assert row["EER Cifar-100 (published)"] == "**0.38 ± 0.04**"
        assert row["AUC (%) Caltech-256 (published)"] == "**68 ± 1**"
        assert row["EER glyphs (measured here)"] == "0.386 ± 0.010"
        assert row["AUC (%) glyphs (measured here)"] == "65.9 ± 1.2"
        assert find(parse(second), "Our method `ensemble-count`")["AUC (%) Cifar-100 (published)"] == "**94 ± 2**"

    def test_a_spread_with_more_digits_is_kept(self, metrics):
        row = find(parse(report.paper_tables(metrics, "glyphs")), "OCSVM on original `ocsvm/features`")
        assert row["EER Caltech-256 (published)"] == "0.48 ± 0.004"

    def test_missing_here_and_not_available_there_differ(self, metrics):
        row = find(parse(report.paper_tables(metrics, "glyphs")), "KNFST `knfst/mean-score`")
        assert row["EER Cifar-100 (published)"] == "NA"
        assert row["EER glyphs (measured here)"] == "–"

    def test_methods_that_the_paper_lacks_follow_with_blank_published_cells(self, metrics):
        rows = parse(report.paper_tables(metrics, "glyphs").split("### ")[2])
        assert [row["Method"] for row in rows[10:]] == ["`ensemble-margin`", "`knn-2/features`"]
        assert rows[10]["AUC (%) Cifar-100 (published)"] == ""
        assert rows[10]["AUC (%) glyphs (measured here)"] == "**89.7 ± 1.2**"

    def test_says_that_the_data_set_is_another_one_unless_it_is_not(self, metrics):
        assert "another data set" in report.paper_tables(metrics, "glyphs")
        assert "another data set" not in report.paper_tables(metrics, "cifar100")

    def test_set_sizes_that_the_paper_lacks_leave_its_tables_standing(self):
        rows = parse(report.paper_tables({"threshold": {"3": cell(70, 0.3)}}, "glyphs"))
        assert len(rows) == 20
        assert {row["AUC (%) glyphs (measured here)"] for row in rows} == {"–"}

    def test_names_cannot_break_the_table(self, metrics):
        metrics["a|b`c"] = metrics.pop("knn-2/features")
        text = report.paper_tables(metrics, "my|set*<b>\n# x")
        assert "my\\|set\\*\\<b\\> # x (measured here)" in text
        assert "`a\\|b'c`" in text
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
        assert bars == {8}


class TestFullTable:
    def test_every_method_and_size(self, metrics):
        rows = parse(report.full_table(metrics))
        assert list(rows[0]) == ["Method", "AUC (%) s = 1", "AUC (%) s = 5", "EER s = 1", "EER s = 5"]
        assert rows[0]["Method"] == "`ensemble-margin`"  # the best at the largest s comes first
        assert rows[-1] == {
            "Method": "`max-confidence`",
            "AUC (%) s = 1": "61.6 ± 1.2",
            "AUC (%) s = 5": "–",
            "EER s = 1": "0.410 ± 0.010",
            "EER s = 5": "–",
        }

    def test_best_is_highest_auc_and_lowest_eer(self, metrics):
        rows = parse(report.full_table(metrics))
        bold = {(row["Method"], column) for row in rows for column, text in row.items() if text.startswith("**")}
        # 67.14 and 67.1 print alike, so both are best at s = 1; so do 0.3774 and 0.377.
        assert bold == {
            ("`ensemble-margin`", "AUC (%) s = 1"),
            ("`threshold`", "AUC (%) s = 1"),
            ("`ensemble-margin`", "AUC (%) s = 5"),
            ("`ensemble-margin`", "EER s = 1"),
            ("`threshold`", "EER s = 1"),
            ("`ensemble-margin`", "EER s = 5"),
        }

    def test_says_over_how_many_runs(self, metrics):
        assert "over 6 runs" in report.full_table(metrics)
        metrics["threshold"]["5"]["n"] = 4
        assert "over 4 to 6 runs" in report.full_table(metrics)

    def test_one_run_is_said_and_shows_no_spread(self):
        text = report.full_table({"threshold": {"1": cell(70, 0.3, n=1)}})
        assert "single run" in text
        assert "±" not in text


class TestCsv:
    @pytest.mark.parametrize("measure", ["auc", "eer"])
    def test_parses_back_to_the_same_numbers(self, metrics, measure):
        rows = list(csv.DictReader(io.StringIO(report.curves_csv(metrics, measure))))
        assert [row["s"] for row in rows] == ["1", "5"]
        for row in rows:
            for method in methods(metrics):
                given = metrics[method].get(row["s"])
                assert row[method] == ("" if given is None else str(given[measure]))


class TestWords:
    def test_headline_names_the_best_at_the_largest_size(self, metrics):
        assert report.headline(metrics).replace("\u00a0", " ") == (
            "ensemble-margin tells novel classes from known ones best: AUC 89.7 ± 1.2 % on sets of 5 items"
        )

    def test_the_count_against_its_rivals_in_both_directions(self, metrics):
        large, small = (sentence.replace("\u00a0", " ") for sentence in report.comparisons(metrics))
        assert large.endswith("reaches an AUC of 87.5 ± 1.2 %: 4.0 points above threshold (83.5 %).")
        assert "1.2 points below threshold (67.1 %) and 4.3 points above max-confidence (61.6 %)" in small

    def test_equals_are_level(self, metrics):
        metrics["threshold"]["5"]["auc"] = 87.46
        assert "level with threshold" in report.comparisons(metrics)[0]

    def test_nothing_measured(self):
        assert report.headline({"backbone": {}}) == "Nothing was measured"
        assert report.comparisons({}) == []
        assert ">Nothing<" in page({})

    @pytest.mark.parametrize(
        ("method", "words"),
        [
            ("ensemble-count", ["paper's method"]),
            ("ensemble-count/ratio", ["As ensemble-count", "equation 3"]),
            ("knn-7/features", ["7 nearest", "feature vectors"]),
            ("knn-1/confidences", ["nearest training item,", "confidence vectors"]),
            ("ocsvm/features", ["One-class SVM", "feature vectors"]),
            ("plda/mean-vector", ["likeliest known class", "mean vector"]),
            ("deep-knn/mean-score", ["k-th nearest training item", "averaged over the set's items"]),
        ],
    )
    def test_descriptions(self, method, words):
        assert all(word in report.describe(method) for word in words)

    def test_an_unknown_method_is_not_made_up(self, metrics):
        assert report.describe("odin") == ""
        assert "Not described here yet." in page({**metrics, "odin": {"1": cell(70, 0.3)}})

    def test_the_glossary_says_nothing_twice(self):
        names = ["plda/mean-score", "plda/mean-vector", "energy/mean-score", "threshold/ratio", "threshold", "odin/x"]
        found = report.glossary({name: {"1": cell(70, 0.3)} for name in names})
        assert list(found) == ["plda", "energy", "threshold", "odin", "…/mean-score", "…/mean-vector", "…/ratio", "…/x"]
        assert found["plda"] == report.describe("plda")
        assert "averaged over the set's items" in found["…/mean-score"]
        assert found["odin"] == found["…/x"] == ""


class TestSections:
    part = Section(
        "Why & how",
        ["First <words>."],
        [Table("Small", "A note.", [Column("Method"), Column("n", "group")], [(Cell("", "a"), Cell("7", best=True))])],
        ("rates",),
    )

    def test_on_the_page_with_their_own_figures(self, metrics):
        text = page(metrics, figures={"auc": PIXEL, "rates": PIXEL}, sections=[self.part])
        curves, section = text.index("<h2>Curves</h2>"), text.index("<h2>Why &amp; how</h2>")
        assert curves < text.index("AUC by set size") < section < text.index("A point is one novelty classifier")
        assert text.count("data:image/png;base64,") == 2
        assert "<p>First &lt;words&gt;.</p>" in text
        assert "<b>7</b>" in text

    def test_in_markdown(self):
        text = report.section(self.part)
        assert text.startswith("## Why \\& how\n\nFirst \\<words\\>.\n\n### Small\n\nA note.\n")
        assert parse(text) == [{"Method": "`a`", "group n": "**7**"}]


class TestHtml:
    def test_holds_the_tables_of_the_markdown(self, metrics):
        text = page(metrics)
        assert "<b>89.7 ± 1.2</b>" in text
        assert "<b>0.38 ± 0.04</b>" in text
        assert "0.48 ± 0.004" in text
        assert text.count("<table>") == 3

    def test_needs_no_network(self, metrics):
        text = page(metrics, figures={"auc": PIXEL, "roc-5": PIXEL})
        assert not re.search(r"https?://|@import|url\(|<script|//[a-z]", text)
        links = re.findall(r"(?:src|href)=[\"']?([^\"'> ]*)", text)
        assert len(links) == 3
        assert all(link.startswith("data:") for link in links)

    def test_says_what_is_positive(self, metrics):
        assert "Novel is the positive class; a higher score means more novel." in page(metrics)

    def test_everything_from_outside_is_escaped(self, metrics):
        evil = '<img src=x onerror="a">'
        metrics[f"ensemble-{evil}"] = {"1": cell(99, 0.01), "5": cell(99, 0.01)}
        text = page(
            metrics,
            figures={evil: PIXEL},
            facts={evil: evil},
            params_text=evil,
            notes=[evil],
            dataset=evil,
        )
        assert "<img src=x" not in text
        assert 'onerror="' not in text
        assert "&lt;img" in text

    def test_params_notes_and_facts_are_there(self, metrics):
        text = page(metrics, facts={"Runs": "33"}, params_text="a:\n  b: 1", notes=["12 sets"])
        assert "<dt>Runs</dt><dd>33</dd>" in text
        assert "<pre>a:\n  b: 1</pre>" in text
        assert "<li>12 sets</li>" in text

    def test_no_notes_no_heading(self, metrics):
        assert "What to know" not in page(metrics, notes=[])

    def test_figures_are_embedded_with_captions(self, metrics):
        text = page(metrics, figures={"auc": PIXEL, "roc-5": PIXEL, "loss": PIXEL})
        assert text.count("data:image/png;base64,") == 3
        assert "<figcaption>AUC by set size" in text
        assert "<figcaption>Mean ROC curves on sets of 5 items" in text
        assert "<figcaption>loss</figcaption>" in text

    def test_groups_span_their_columns(self, metrics):
        text = page(metrics)
        assert text.count('colspan="3" scope="colgroup" class="group">EER') == 2
        assert text.count('colspan="2" scope="colgroup" class="group">EER') == 1

    def test_the_same_twice(self, metrics):
        assert page(metrics) == page(metrics)


def line(axes, name: str):
    return next(ln for ln in axes.get_lines() if str(ln.get_label()).endswith(name))


class TestCurves:
    @pytest.mark.parametrize("measure", ["auc", "eer"])
    def test_draws_the_given_values(self, metrics, measure):
        (axes,) = figures.curves(metrics, measure).axes
        for method in figures.chosen(metrics):
            given = [by_size[measure] for by_size in metrics[method].values()]
            np.testing.assert_array_equal(line(axes, method).get_ydata(), given)

    def test_bars_reach_one_standard_deviation_up_and_down(self, metrics):
        (axes,) = figures.curves(metrics, "auc").axes
        bars = [segment[:, 1] for c in axes.collections for segment in c.get_segments()]
        assert any(np.allclose(bar, [87.5 - 1.25, 87.5 + 1.25]) for bar in bars)

    def test_ticks_are_the_set_sizes(self):
        odd = {"threshold": {s: cell(60, 0.4) for s in ("2", "10", "50")}}
        (axes,) = figures.curves(odd, "auc").axes
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "10", "50"]
        np.testing.assert_allclose(line(axes, "threshold").get_xdata(), [0, 1, 2])

    def test_every_line_is_named_and_the_papers_stands_out(self, metrics):
        (axes,) = figures.curves(metrics, "auc").axes
        assert {text.get_text() for text in axes.texts} == set(figures.chosen(metrics)) - {""}
        widths = {str(ln.get_label()): ln.get_linewidth() for ln in axes.get_lines()}
        assert max(widths, key=lambda name: widths[name]) == "ensemble-count"

    def test_labels_keep_apart_in_order_and_stay_near(self):
        places = figures.spread_out([1.0, 1.0, 1.1, 5.0], gap=1.0)
        assert np.all(np.diff(places) >= 1 - 1e-9)
        assert places[3] == 5.0
        assert np.mean(places[:3]) == pytest.approx(np.mean([1.0, 1.0, 1.1]))
        assert figures.spread_out([], gap=1.0) == []

    def test_nothing_to_draw(self):
        assert figures.png(figures.curves({}, "auc")).startswith(b"\x89PNG")


class TestChoice:
    METHODS = (
        *("ensemble-count", "ensemble-margin", "ensemble-probability", "ensemble-count/ratio"),
        *("threshold", "threshold/ratio", "max-confidence", "ocsvm/confidences", "ocsvm/features"),
        *("knn-1/confidences", "knn-2/confidences", "knn-5/confidences"),
        *("knn-5/features", "knn-1/features", "knn-2/features"),
    )

    def choose(self, **best: float) -> list[str]:
        """The choice when AUC falls in the order of METHODS, but for those given."""
        aucs = {m: 90.0 - i for i, m in enumerate(self.METHODS)} | best
        return figures.chosen({m: {"1": cell(50, 0.5), "5": cell(auc, 0.3)} for m, auc in aucs.items()})

    def test_the_papers_story_then_the_best_of_each_kind_then_of_each_family(self):
        weak_ocsvm = {"ocsvm/confidences": 55.0, "ocsvm/features": 50.0}
        assert self.choose(**weak_ocsvm) == [
            "ensemble-count",
            "ensemble-count/ratio",
            "threshold",
            "max-confidence",
            "knn-1/confidences",
            "ocsvm/confidences",
            "knn-5/features",
            "ocsvm/features",
        ]

    def test_a_new_method_that_wins_is_drawn_in_its_own_colour(self):
        assert "odin" in self.choose(odin=99.0)
        metrics = {"threshold": {"1": cell(60, 0.4)}, "odin": {"1": cell(70, 0.3)}}
        assert figures.styles(metrics)["odin"] == figures.WINNER

    def test_pooled_is_always_drawn(self):
        assert "pooled" in self.choose(pooled=51.0)

    def test_a_winning_variant_of_a_family_already_shown_is_drawn(self):
        assert "ensemble-probability" in self.choose(**{"ensemble-probability": 99.0})

    def test_never_more_than_eight_however_many_methods(self):
        many = {f"new{chr(97 + i)}": {"1": cell(60 + i, 0.4)} for i in range(20)}
        assert figures.chosen(many) == [f"new{chr(97 + i)}" for i in range(19, 11, -1)]
        assert len({str(style) for style in figures.styles(many).values()}) == 8

    @pytest.mark.parametrize(
        ("method", "family"),
        [
            ("knn-5/features", "knn/features"),
            ("ensemble-count/ratio", "ensemble"),
            ("threshold/ratio", "threshold"),
            ("max-confidence", "max-confidence"),
            ("ocsvm/features", "ocsvm/features"),
        ],
    )
    def test_families(self, method, family):
        assert results.family(method) == family

    def test_ways_of_treating_sets_are_one_kind(self):
        names = ["plda/mean-score", "plda/mean-vector", "knn-5/features", "knn-1/confidences"]
        assert [results.kind(name) for name in names] == ["plda", "plda", "knn", "knn"]


class TestRoc:
    def test_draws_curves_diagonal_and_auc(self, metrics, rocs):
        (axes,) = figures.roc(rocs, metrics, 5).axes
        np.testing.assert_array_equal(line(axes, "ensemble-count").get_ydata(), np.linspace(0, 1, 5) ** 0.5)
        np.testing.assert_array_equal(line(axes, "_diagonal").get_xydata(), [[0, 0], [1, 1]])
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        assert legend == ["89.7  ensemble-margin", "87.5  ensemble-count", "83.5  threshold", "60.0  knn-2/features"]

    def test_every_figure_by_name(self, metrics, rocs):
        assert list(figures.every(metrics, rocs)) == ["auc", "eer", "roc-1", "roc-5"]
        one = {m: {3: curve[1]} for m, curve in rocs.items()}  # a size that metrics lack: no curve, no crash
        assert list(figures.every(metrics, one)) == ["auc", "eer", "roc-3"]


class TestPng:
    def chunks(self, data: bytes) -> set[bytes]:
        kinds, at = set(), 8
        while at < len(data):
            (length,) = struct.unpack(">I", data[at : at + 4])
            kinds.add(data[at + 4 : at + 8])
            at += length + 12
        return kinds

    def test_same_bytes_every_time(self, metrics, rocs):
        first, second = (figures.every(metrics, rocs) for _ in range(2))
        assert {name: figures.png(f) for name, f in first.items()} == {
            name: figures.png(f) for name, f in second.items()
        }

    def test_no_text_no_time_in_it(self, metrics):
        data = figures.png(figures.curves(metrics, "auc"))
        assert self.chunks(data) <= {b"IHDR", b"pHYs", b"IDAT", b"IEND"}

    def test_a_dollar_sign_is_no_formula(self, rocs):
        metrics = {r"cost$\bad$": {"1": cell(60, 0.4)}}
        grid = np.linspace(0, 1, 3)
        drawn = figures.every(metrics, {r"cost$\bad$": {1: (grid, grid)}})
        assert all(figures.png(figure) for figure in drawn.values())
