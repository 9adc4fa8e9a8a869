"""The numbers of the paper's own analysis, recomputed from the stored tables one set and one partition at a time."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from outclass.confidence import theta
from stages import analysis, analysis_figures, evaluate, paths


@pytest.fixture
def found(project) -> dict:
    return json.loads((paths.REPORT / "metrics.json").read_text())["analysis"]


def votes(fold: int, s: int) -> pd.DataFrame:
    rows = pd.read_parquet(paths.run("ensemble", 0, fold) / "votes.parquet")
    return rows[(rows["method"] == "ensemble") & (rows["s"] == s)]


def scores(fold: int, s: int, method: str) -> pd.DataFrame:
    rows = pd.read_parquet(paths.run("ensemble", 0, fold) / "scores.parquet")
    return rows[(rows["method"] == method) & (rows["s"] == s)].set_index("set").sort_index()


def classifiers(fold: int, s: int) -> pd.DataFrame:
    rows = pd.read_parquet(paths.run("ensemble", 0, fold) / "classifiers.parquet")
    return rows[(rows["method"] == "ensemble") & (rows["s"] == s)].set_index("l")


def presumed(fold: int) -> dict[int, set[str]]:
    rows = pd.read_parquet(paths.split(0, "partitions"))
    rows = rows[(rows["f"] == fold) & (rows["role"] == "novel")]
    return {part: set(of["class"]) for part, of in rows.groupby("l")}


def mean(of_fold) -> float:
    return float(np.mean([of_fold(f) for f in (0, 1)]))


@pytest.mark.parametrize("s", [1, 2, 3])
class TestNumbers:
    def test_rates(self, found, s):
        h = pd.concat([classifiers(f, s) for f in (0, 1)])
        expected = {"p": h["p"].mean(), "q": h["q"].mean(), "p_above_q": (h["p"] > h["q"]).mean()}
        assert found[str(s)]["rates"] == pytest.approx(expected, abs=1e-5)

    def test_own_votes_give_p_and_q(self, found, s):
        """The stored votes under the simplification are those that p_l and q_l were counted from."""
        sets = scores(0, s, "threshold")
        for part, rows in votes(0, s).groupby("l"):
            called = rows.set_index("set")["own_vote"] > 0
            untaught = sets["novel"] | sets["class"].isin(presumed(0)[part])
            assert called[untaught[untaught].index].mean() == pytest.approx(classifiers(0, s)["p"][part])
            assert called[untaught[~untaught].index].mean() == pytest.approx(classifiers(0, s)["q"][part])

    def test_bound_under_the_simplification(self, found, s):
        """mu_known class by class from psi, then equation 5 and 6 with delta as the paper writes it."""

        def of_fold(f: int) -> list[float]:
            h, sets, absent = classifiers(f, s), scores(f, s, "threshold"), presumed(f)
            known = sets[~sets["novel"]]["class"].unique()
            psi = [[h["p"][part] if c in absent[part] else h["q"][part] for part in h.index] for c in known]
            mu_known, mu_novel = np.mean([sum(row) for row in psi]), sum(h["p"])
            threshold = (mu_known + mu_novel) / 2
            up, down = threshold / mu_known - 1, 1 - threshold / mu_novel
            counts = votes(f, s).assign(own=lambda v: v["own_vote"] > 0).groupby("set")["own"].sum()
            false_alarms = np.mean([counts[number] >= threshold for number in sets[~sets["novel"]].index])
            misses = np.mean([counts[number] < threshold for number in sets[sets["novel"]].index])
            return [
                *(mu_known, mu_novel, threshold),
                *((np.exp(up) / (1 + up) ** (1 + up)) ** mu_known, false_alarms),
                *((np.exp(-down) / (1 - down) ** (1 - down)) ** mu_novel, misses),
            ]

        names = ["mu_known", "mu_novel", "threshold", "known_bound", "known_error", "novel_bound", "novel_error"]
        expected = np.mean([of_fold(0), of_fold(1)], axis=0)
        assert [found[str(s)]["simplified"][name] for name in names] == pytest.approx(expected, abs=2e-5)

    def test_as_used_it_is_about_the_count_that_is_scored(self, found, s):
        def of_fold(f: int) -> list[float]:
            rows = scores(f, s, "ensemble-count")
            known, novel = rows[~rows["novel"]]["novelty"], rows[rows["novel"]]["novelty"]
            half_way = (known.mean() + novel.mean()) / 2
            return [known.mean(), novel.mean(), (known >= half_way).mean(), (novel < half_way).mean()]

        expected = np.mean([of_fold(0), of_fold(1)], axis=0)
        names = ["mu_known", "mu_novel", "known_error", "novel_error"]
        assert [found[str(s)]["as_used"][name] for name in names] == pytest.approx(expected, abs=2e-5)

    def test_distances_of_theta(self, found, s):
        def backbone(f: int) -> float:
            rows = scores(f, s, "threshold")
            return ks_2samp(rows[rows["novel"]]["novelty"], rows[~rows["novel"]]["novelty"], method="asymp").statistic

        def networks(f: int, presumed_novel: bool) -> float:
            seen = pd.read_parquet(paths.run("partitions", 0, f) / "sets.parquet")
            seen = seen[(seen["confidence"] == "activation") & (seen["s"] == s)]
            sets, each = scores(f, s, "threshold"), []
            for part, rows in seen.groupby("l"):
                of_set = rows.set_index("set").loc[sets.index]
                values = theta(of_set["u1"].astype(float), of_set["u2"].astype(float), 0.0, "difference")
                chosen = (sets["class"].isin(presumed(f)[part]) == presumed_novel) & ~sets["novel"]
                each.append(ks_2samp(values[chosen], values[sets["novel"]], method="asymp").statistic)
            return float(np.mean(each))

        assert found[str(s)]["theta"] == {
            "known_from_novel": pytest.approx(mean(backbone), abs=1e-5),
            "presumed_novel_from_novel": pytest.approx(mean(lambda f: networks(f, True)), abs=1e-5),
            "presumed_known_from_novel": pytest.approx(mean(lambda f: networks(f, False)), abs=1e-5),
        }

    def test_all_partitions_reach_the_auc_of_the_count_and_single_ones_their_own(self, found, s):
        def whole(f: int) -> float:
            rows = scores(f, s, "ensemble-count")
            return 100 * roc_auc_score(rows["novel"], rows["novelty"])

        by_count = found[str(s)]["partitions"]
        assert list(by_count) == ["1", "2", "3", "4"]
        assert by_count["4"] == {"auc": pytest.approx(mean(whole), abs=1e-4), "auc_std": 0.0}
        novel = [scores(f, s, "threshold")["novel"] for f in (0, 1)]
        alone = [
            100 * roc_auc_score(novel[f], (rows.set_index("set")["vote"] > 0).loc[novel[f].index])
            for f in (0, 1)
            for _, rows in votes(f, s).groupby("l")
        ]
        assert min(alone) <= by_count["1"]["auc"] <= max(alone)


class TestReading:
    def test_every_row_fills_every_column(self, found):
        for table in analysis.section({"analysis": found}).tables:
            assert {len(row) for row in table.rows} == {len(table.columns)}

    def test_what_cannot_be_told_is_a_dash(self, found):
        found["3"]["theta"]["presumed_novel_from_novel"] = None
        assert analysis.requirements_table(found).rows[2][5].text == "–"
        assert "lie – from" in analysis.finding(found)

    def test_the_finding_speaks_of_the_largest_sets(self, found):
        text = analysis.finding(found)
        assert "on sets of 3 items" in text
        assert f"3 of the 4 partitions reach an AUC of {found['3']['partitions']['3']['auc']:.1f}\u00a0%" in text

    def test_one_partition_alone_is_fine(self, found):
        found["3"]["partitions"] = {"1": found["3"]["partitions"]["1"]}
        assert "1 of the 1 partitions" in analysis.finding(found)

    def test_a_point_for_each_classifier_and_a_line_for_each_size(self, found):
        points = analysis.rate_points(analysis.read_rates([(0, 0), (0, 1)]))
        assert {s: len(p) for s, (_, p) in points.items()} == {1: 8, 2: 8, 3: 8}
        (axes,) = analysis_figures.rates(points).axes
        assert [len(drawn.get_offsets()) for drawn in axes.collections] == [8, 8, 8]
        np.testing.assert_allclose(axes.collections[0].get_offsets().T, points[1])
        (axes,) = analysis_figures.partitions(found).axes
        assert [line.get_xdata().tolist() for line in axes.get_lines()] == [[1, 2, 3, 4]] * 3
        assert axes.get_lines()[2].get_ydata()[-1] == found["3"]["partitions"]["4"]["auc"]


def test_metrics_are_strict_json(project):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    evaluate.run()
    json.loads((paths.REPORT / "metrics.json").read_text(), parse_constant=refuse)
