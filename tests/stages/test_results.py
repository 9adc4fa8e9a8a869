import pytest

from stages import results
from stages.results import Cell


def cell(auc: float | None, eer: float | None = 0.3, n: int = 6) -> dict:
    return {"auc": auc, "auc_std": 1.25, "eer": eer, "eer_std": 0.0104, "n": n}


@pytest.fixture
def metrics() -> dict:
    """Their order at s = 1 is not that at s = 5, where max-confidence is lacking; vim is not in the paper."""
    return {
        "vim": {"1": cell(67.1), "5": cell(89.7)},
        "threshold": {"1": cell(67.14), "5": cell(83.5)},
        "max-confidence": {"1": cell(61.6)},
        "backbone": {"accuracy": 0.66, "accuracy_std": 0.01, "n": 6},
    }


class TestReading:
    def test_backbone_and_analysis_are_no_methods(self, metrics):
        metrics["analysis"] = {"1": {"rates": {"p": 0.8}}}
        assert results.methods(metrics) == ["vim", "threshold", "max-confidence"]

    def test_sizes_are_ordered_as_numbers(self):
        assert results.set_sizes({"a": {"10": cell(1), "2": cell(1)}, "b": {"1": cell(1)}}) == [1, 2, 10]

    def test_ranked_by_auc_at_that_size_and_without_the_unmeasured(self, metrics):
        assert results.ranked(metrics, 1) == ["threshold", "vim", "max-confidence"]
        assert results.ranked(metrics, 5) == ["vim", "threshold"]

    def test_equals_keep_their_order(self):
        assert results.ranked({name: {"1": cell(70)} for name in "bca"}, 1) == ["b", "c", "a"]

    def test_a_single_run_has_no_spread(self):
        assert results.value({"a": {"1": cell(70, n=1)}}, "a", 1, "auc") == (70, None)

    @pytest.mark.parametrize("lost", [None, float("nan")])
    def test_an_undefined_mean_is_missing(self, lost):
        assert results.value({"a": {"1": {"auc": lost, "auc_std": lost, "n": 3}}}, "a", 1, "auc") is None


class TestTables:
    def test_every_row_fills_every_column(self, metrics):
        for table in [*results.papers_tables(metrics, "glyphs"), results.full_table(metrics)]:
            assert {len(row) for row in table.rows} == {len(table.columns)}
            assert sum(span for _, span in table.groups) == len(table.columns)

    def test_groups_are_the_measures(self, metrics):
        first, second = results.papers_tables(metrics, "glyphs")
        assert first.groups == second.groups == [("", 1), ("EER", 3), ("AUC (%)", 3)]
        assert results.full_table(metrics).groups == [("", 1), ("AUC (%)", 2), ("EER", 2)]

    def test_names_of_ours_are_told_from_the_papers_wording(self, metrics):
        names = [row[0] for row in results.papers_tables(metrics, "glyphs")[0].rows]
        assert Cell("Simple threshold", code="threshold") in names
        assert Cell("KNFST", "knfst/mean-score") in names
        assert names[-1] == Cell("", code="vim")

    def test_of_methods_that_the_paper_lacks_the_best_of_each_kind_are_shown_but_not_all(self):
        kinds = ("odin", "vim", "lof", "gen", "plda", "energy")
        names = [f"{kind}/{way}" for kind in kinds for way in ("mean-vector", "mean-score")]
        metrics = {name: {"1": cell(90 - i)} for i, name in enumerate(names)}
        rows = results.papers_tables(metrics, "glyphs")[0].rows
        assert [row[0].code for row in rows[10:]] == [f"{kind}/mean-vector" for kind in kinds[:5]]

    def test_best_is_judged_on_what_is_printed(self, metrics):
        column = {row[0].code: row[1] for row in results.full_table(metrics).rows}
        assert column == {
            "vim": Cell("67.1 ± 1.2", best=True),
            "threshold": Cell("67.1 ± 1.2", best=True),
            "max-confidence": Cell("61.6 ± 1.2"),
        }
