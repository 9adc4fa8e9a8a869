import numpy as np
import pandas as pd
import pytest

from stages import comparisons


def table_of(runs: int, sizes=(1, 5), **given: list[float]) -> pd.DataFrame:
    """The same AUCs at every size, with names spelt with underscores."""
    columns = {(s, name.replace("_", "-")): values[:runs] for s in sizes for name, values in given.items()}
    index = pd.MultiIndex.from_tuples([(0, f) for f in range(runs)], names=["r", "f"])
    return pd.DataFrame(columns, index=index).rename_axis(columns=["s", "method"])


THREE = {"ensemble_count": [70.0, 80.0, 60.0], "vim": [71.0, 82.0, 63.0], "threshold": [71.0, 70.0, 50.0]}


@pytest.fixture
def areas() -> pd.DataFrame:
    return table_of(3, **THREE)


def cells(table, method: str) -> list[str]:
    return next([cell.text for cell in row[1:]] for row in table.rows if row[0].code == method)


class TestPairs:
    def test_every_method_against_the_best_and_the_papers_at_both_ends(self):
        rows = comparisons.pair_rows(table_of(3, (1, 2, 5), **THREE))
        assert set(zip(rows["s"], rows["reference"], rows["method"], strict=True)) == {
            (s, reference, method)
            for s in (1, 5)
            for reference in ("vim", "ensemble-count")
            for method in ("vim", "ensemble-count", "threshold")
            if method != reference
        }

    def test_by_hand(self, areas):
        """Differences of vim and the count: 1, 2, 3. Mean 2, t with 2 degrees of freedom 4.303, error 1 / sqrt 3."""
        rows = comparisons.pair_rows(areas).set_index(["s", "reference", "method"])
        found = rows.loc[(5, "ensemble-count", "vim")]
        reach = 4.302653 / np.sqrt(3)
        assert [found["difference"], found["low"], found["high"]] == pytest.approx([2, 2 - reach, 2 + reach], abs=1e-5)
        assert found["runs"] == 3

    def test_pooled_is_a_reference_where_it_was_measured(self, areas):
        areas[5, "pooled"] = [60.0, 60.0, 60.0]
        rows = comparisons.pair_rows(areas)
        assert "pooled" in set(rows[rows["s"] == 5]["reference"])
        assert "pooled" not in set(rows[rows["s"] == 1]["reference"])

    def test_only_runs_that_both_have_count(self, areas):
        areas.loc[(0, 0), (5, "ensemble-count")] = np.nan
        rows = comparisons.pair_rows(areas).set_index(["s", "reference", "method"])
        assert rows.loc[(5, "ensemble-count", "vim"), ["difference", "runs"]].tolist() == [2.5, 2]

    def test_table_signs_and_bold(self, areas):
        areas[5, "certain"] = areas[5, "vim"] - 1
        table = list(comparisons.pair_tables(areas, comparisons.pair_rows(areas)))[1]
        assert [row[0].code for row in table.rows] == ["vim", "certain", "ensemble-count", "threshold"]
        assert cells(table, "certain")[1] == "−1.0 (−1.0 to −1.0)"
        assert cells(table, "vim") == ["72.0", "·", "+2.0 (−0.5 to +4.5)"]
        bold = {(row[0].code, i) for row in table.rows for i, cell in enumerate(row) if cell.best}
        assert bold == {("certain", 2)}

    def test_an_interval_that_reads_zero_at_its_end_is_not_clear(self):
        """Differences 0.6055, 1, 1.3945: the reach is 4.303 * 0.3945 / sqrt 3 = 0.98, the lower end 0.02."""
        areas = table_of(3, ensemble_count=[50.0] * 3, vim=[50.6055, 51.0, 51.3945])
        table = next(comparisons.pair_tables(areas, comparisons.pair_rows(areas)))
        cell = next(row for row in table.rows if row[0].code == "vim")[-1]
        assert cell == ("+1.0 (0.0 to +2.0)", "", False)


class TestRanks:
    def test_by_hand(self, areas):
        """Run 1: vim = threshold (1.5) before the count (3); then vim, the count, threshold twice."""
        rows = comparisons.rank_rows(areas)
        found = rows[rows["s"] == 1].set_index("method")
        assert found.index.tolist() == ["vim", "ensemble-count", "threshold"]
        assert found["rank"].tolist() == pytest.approx([3.5 / 3, 7 / 3, 7.5 / 3])
        assert found["best"].tolist() == [3, 0, 1]

    def test_a_method_that_lacks_a_run_has_no_rank_there(self, areas):
        areas.loc[(0, 1), (5, "threshold")] = np.nan
        table = comparisons.rank_table(comparisons.rank_rows(areas))
        assert cells(table, "threshold") == ["2.5", "–", "1", "–"]
        assert cells(table, "vim") == ["1.2", "1.0", "3", "3"]


class TestSection:
    def test_says_what_the_intervals_are_worth(self, areas):
        text = " ".join(comparisons.section(areas).text)
        assert "over 3 runs" in text
        assert "approximate" in text

    def test_one_run_has_no_interval_and_says_so(self):
        section = comparisons.section(table_of(1, **THREE))
        assert "no intervals" in " ".join(section.text)
        ranks, *pairs = section.tables
        assert "a single run" in ranks.note
        assert cells(pairs[0], "vim") == ["71.0", "·", "+1.0"]
        assert cells(pairs[0], "threshold") == ["71.0", "0.0", "+1.0"]
        assert not any(cell.best for table in pairs for row in table.rows for cell in row)

    def test_with_many_methods_the_best_of_each_kind_and_the_references_are_shown(self):
        ways = {f"kind{chr(97 + i)}/{way}": [90.0 - i - w] for i in range(12) for w, way in enumerate("ab")}
        areas = table_of(1, **ways, **{"ensemble_margin": [60.0], "ensemble_count": [55.0], "pooled": [50.0]})
        for table in comparisons.section(areas).tables:
            names = [row[0].code for row in table.rows]
            assert names == [
                *(f"kind{chr(97 + i)}/a" for i in range(12)),
                "ensemble-margin",
                "ensemble-count",
                "pooled",
            ]
            assert "Of 27 methods" in table.note
