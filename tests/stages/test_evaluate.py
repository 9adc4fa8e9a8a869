import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from outclass.baselines.registry import METHODS as BY_NAME
from outclass.errors import OutclassError
from stages import evaluate, paths, tables
from stages.results import methods

METHODS = {
    *("ensemble-count", "ensemble-margin", "ensemble-probability", "ensemble-count/ratio", "pooled"),
    *("threshold", "threshold/ratio", "max-confidence", "ocsvm/confidences", "ocsvm/features"),
    *(f"knn-{k}/{of}" for k in (1, 2, 5) for of in ("confidences", "features")),
    *(f"{name}/{way}" for name in BY_NAME for way in ("mean-score", "mean-vector")),
}


def metrics() -> dict:
    return json.loads((paths.REPORT / "metrics.json").read_text())


def run_scores(fold: int, novelty: list[float], novel: list[bool], method: str = "m", size: int = 1) -> pd.DataFrame:
    columns = {"method": method, "s": size, "set": range(len(novel)), "novel": novel, "novelty": novelty}
    return pd.DataFrame({**columns, "class": "c", "r": 0, "f": fold})


def curves_of(scores: pd.DataFrame) -> evaluate.Curves:
    curves: evaluate.Curves = {}
    evaluate.add_curves(curves, scores)
    return curves


class TestNumbers:
    """Fold 0 separates perfectly. Fold 1 ranks one novel set above both known ones and one below: AUC and EER 1/2."""

    scores = pd.concat(
        [
            run_scores(0, [1, 2, 3, 4], [False, False, True, True]),
            run_scores(1, [1, 2, 3, 4], [True, False, False, True]),
            run_scores(1, [5, 5, 5, 5], [True, False, False, True], "constant", 10),
        ]
    )

    def test_are_mean_and_sample_deviation_over_runs_with_auc_in_percent_and_eer_not(self):
        found = evaluate.summarise(curves_of(self.scores))["m"]["1"]
        assert found == {
            "auc": 75.0,
            "auc_std": pytest.approx(50 / math.sqrt(2), abs=1e-3),
            "eer": 0.25,
            "eer_std": pytest.approx(0.5 / math.sqrt(2), abs=1e-5),
            "n": 2,
        }

    def test_of_a_single_run_have_no_spread(self):
        found = evaluate.summarise(curves_of(self.scores))["constant"]["10"]
        assert found == {"auc": 50.0, "auc_std": 0.0, "eer": 0.5, "eer_std": 0.0, "n": 1}

    def test_are_not_those_of_the_runs_thrown_together(self):
        shifted = pd.concat(
            [
                run_scores(0, [1, 2, 3, 4], [False, False, True, True]),
                run_scores(1, [101, 102, 103, 104], [False, False, True, True]),
            ]
        )
        assert evaluate.summarise(curves_of(shifted))["m"]["1"]["auc"] == 100.0


def test_auc_by_run_keeps_runs_in_line_and_marks_what_was_not_measured():
    found = evaluate.auc_by_run(curves_of(TestNumbers.scores))
    assert list(found.index) == [(0, 0), (0, 1)]
    assert found[1, "m"].tolist() == [100.0, 50.0]
    assert math.isnan(found[10, "constant"].iloc[0])
    assert found[10, "constant"].iloc[1] == 50.0


class TestReport:
    def test_has_every_method_at_every_set_size(self, project):
        found = metrics()
        assert set(found) == METHODS | {"backbone", "analysis"}
        for method in METHODS:
            assert list(found[method]) == ["1", "2", "3"]
            for cell in found[method].values():
                assert set(cell) == {"auc", "auc_std", "eer", "eer_std", "n"}
                assert cell["n"] == 2
                assert 0 <= cell["eer"] <= 1

    def test_is_better_than_chance_on_average_and_in_percent(self, project):
        areas = [cell["auc"] for name in methods(metrics()) for cell in metrics()[name].values()]
        assert 50 < np.mean(areas) <= 100

    def test_gives_the_accuracy_of_the_backbones(self, project):
        each = [json.loads((paths.run("backbone", 0, f) / "accuracy.json").read_text())["accuracy"] for f in (0, 1)]
        assert metrics()["backbone"] == {
            "accuracy": pytest.approx(np.mean(each), abs=1e-5),
            "accuracy_std": pytest.approx(np.std(each, ddof=1), abs=1e-5),
            "n": 2,
        }

    def test_accuracy_is_that_of_test_items_of_known_classes(self, project):
        columns = pd.read_parquet(paths.run("backbone", 0, 0) / "columns.parquet")["class"].tolist()
        frame = pd.read_parquet(paths.run("backbone", 0, 0) / "confidences.parquet")
        frame = frame[(frame["role"] == "test") & frame["class"].isin(columns)]
        right = [columns[int(np.argmax(u))] == c for u, c in zip(frame["confidences"], frame["class"], strict=True)]
        stored = json.loads((paths.run("backbone", 0, 0) / "accuracy.json").read_text())["accuracy"]
        assert stored == pytest.approx(np.mean(right))
        assert len(right) == 9 * 6

    def test_keeps_every_sets_score_by_every_method_in_every_run(self, project):
        scores = tables.read_frame(paths.REPORT / "scores.parquet", tables.REPORT_SCORES)
        sets = pd.read_parquet(paths.split(0, "sets"))
        sets = sets[sets["role"] == "test"].drop_duplicates(["s", "set"])
        assert set(scores["method"]) == METHODS
        assert len(scores) == len(METHODS) * 2 * len(sets)
        assert not scores.duplicated(["method", "r", "f", "s", "set"]).any()
        for f in (0, 1):
            for stage in ("ensemble", "pooled", "baselines"):
                stored = pd.read_parquet(paths.run(stage, 0, f) / "scores.parquet")
                merged = stored.merge(scores[scores["f"] == f], on=["method", "s", "set", "class", "novel"])
                assert len(merged) == len(stored)
                assert (merged["novelty_x"] == merged["novelty_y"]).all()

    def test_shows_the_parameters_and_the_numbers(self, project):
        page = (paths.REPORT / "index.html").read_text()
        assert "288 items of 12 classes" in page
        assert "presumed_novel_classes: 2" in page
        table = (paths.REPORT / "tables.md").read_text()
        assert f"{metrics()['ensemble-count']['3']['auc']:.1f}" in table

    def test_compares_every_method_in_pairs_and_by_rank(self, project):
        """Recomputed from the stored scores with scikit-learn."""
        scores = tables.read_frame(paths.REPORT / "scores.parquet", tables.REPORT_SCORES)
        area = {
            key: 100 * roc_auc_score(rows["novel"], rows["novelty"])
            for key, rows in scores.groupby(["method", "s", "f"])
        }
        pairs = tables.read_frame(paths.REPORT / "pairs.parquet", tables.REPORT_PAIRS)
        assert set(pairs["s"]) == {1, 3}
        for s, rows in pairs.groupby("s"):
            mean = {m: area[m, s, 0] + area[m, s, 1] for m in METHODS}
            assert {"pooled", "ensemble-count"} <= set(rows["reference"])
            assert mean[rows["reference"].iloc[0]] == pytest.approx(max(mean.values()))  # equals may be the best
            assert len(rows) == rows["reference"].nunique() * (len(METHODS) - 1)
        for row in pairs.itertuples():
            apart = [area[row.method, row.s, f] - area[row.reference, row.s, f] for f in (0, 1)]
            assert row.difference == pytest.approx(np.mean(apart), abs=1e-6)
            assert row.low <= row.difference <= row.high
        ranks = tables.read_frame(paths.REPORT / "ranks.parquet", tables.REPORT_RANKS)
        for s, rows in ranks.groupby("s"):
            assert rows["rank"].is_monotonic_increasing
            assert rows["rank"].sum() == pytest.approx(len(METHODS) * (len(METHODS) + 1) / 2)
            highest = [max(area[m, s, f] for m in METHODS) for f in (0, 1)]
            times = {m: sum(area[m, s, f] > highest[f] - 1e-9 for f in (0, 1)) for m in METHODS}
            assert dict(zip(rows["method"], rows["best"], strict=True)) == times

    def test_has_the_comparison_the_analysis_and_the_choices_on_the_page_and_in_markdown(self, project):
        for name in ("index.html", "tables.md"):
            text = (paths.REPORT / name).read_text()
            assert "Which differences count" in text
            assert "Why it works: the paper" in text
            assert "Hyper-parameters that were chosen" in text
        assert {path.name for path in (paths.REPORT / "figures").iterdir()} == {
            *("auc.png", "eer.png", "roc-1.png", "roc-3.png", "rates.png", "partitions.png")
        }

    def test_is_the_same_when_made_again(self, project):
        before = {path: path.read_bytes() for path in paths.REPORT.rglob("*") if path.is_file()}
        evaluate.run()
        assert {path: path.read_bytes() for path in paths.REPORT.rglob("*") if path.is_file()} == before


class TestRuns:
    def test_that_are_not_listed_are_not_mixed_in(self, project, configure):
        shutil.copytree(paths.run("ensemble", 0, 0), paths.run("ensemble", 0, 2))
        shutil.copytree(paths.run("ensemble", 0, 0), paths.run("ensemble", 7, 0))
        (paths.run("baselines", 0, 2)).mkdir()
        (paths.run("baselines", 0, 2) / "scores.parquet").write_bytes(b"stale")
        configure("folds", [1])
        evaluate.run()
        scores = tables.read_frame(paths.REPORT / "scores.parquet", tables.REPORT_SCORES)
        assert set(zip(scores["r"], scores["f"], strict=True)) == {(0, 1)}
        assert {cell["n"] for name in methods(metrics()) for cell in metrics()[name].values()} == {1}
        accuracy = json.loads((paths.run("backbone", 0, 1) / "accuracy.json").read_text())["accuracy"]
        assert metrics()["backbone"] == {"accuracy": round(accuracy, 5), "accuracy_std": 0.0, "n": 1}

    @pytest.mark.parametrize(
        "lost",
        [
            *(f"{stage}/r0-f1/scores.parquet" for stage in ("ensemble", "pooled", "baselines")),
            *("ensemble/r0-f0/votes.parquet", "baselines/r0-f0/chosen.parquet"),
        ],
    )
    def test_that_are_listed_must_be_there(self, project, lost):
        before = (paths.REPORT / "metrics.json").read_bytes()
        Path("runs", lost).unlink()
        with pytest.raises(OutclassError, match=f"runs/{lost}: not found; run `dvc repro`"):
            evaluate.run()
        assert (paths.REPORT / "metrics.json").read_bytes() == before

    @pytest.mark.parametrize(
        "text",
        [
            *("", "{}", "[]", '{"accuracy": "high"}'),
        ],
    )
    def test_with_a_broken_accuracy_are_refused(self, project, text):
        (paths.run("backbone", 0, 1) / "accuracy.json").write_text(text)
        with pytest.raises(OutclassError, match=r"runs/backbone/r0-f1/accuracy\.json: not readable"):
            evaluate.run()


def test_runs_on_different_devices_are_noted_in_the_report(project):
    path = paths.run("backbone", 0, 1) / "accuracy.json"
    path.write_text(path.read_text().replace('"cpu"', '"cuda"'))
    evaluate.run()
    assert "Runs on different devices (cpu, cuda) are mixed here." in (paths.REPORT / "index.html").read_text()
