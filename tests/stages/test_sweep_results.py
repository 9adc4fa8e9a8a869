"""The comparison of a sweep's points."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from stages import params, sweep_results
from stages.points import Point, name

PARAMS = params.Params.model_construct()


def point(**values):
    full = {key.replace("__", "."): value for key, value in values.items()}
    return Point(name(full), full, PARAMS)


CELL = {"auc": 95.0, "auc_std": 1.0, "eer": 0.2, "eer_std": 0.01, "n": 2}


def metrics(ensemble, other, runs=2):
    def cell(auc):
        return {"auc": auc, "auc_std": 1.0, "eer": 0.2, "eer_std": 0.01, "n": runs}

    return {
        "backbone": {"accuracy": 0.5, "accuracy_std": 0.1, "n": runs},
        "analysis": {},
        "ensemble-count": {"1": cell(ensemble - 20), "3": cell(ensemble)},
        "new/method": {"1": cell(other - 20), "3": cell(other)},
        "worst": {"1": cell(30.0), "3": cell(31.0)},
    }


@pytest.fixture
def points():
    return [point(ensemble__theta=theta, folds=[0, 1]) for theta in ("difference", "ratio", "log_ratio")]


@pytest.fixture
def found(points):
    return {points[0].name: metrics(80.0, 90.0), points[1].name: metrics(85.0, 60.0)}


def test_the_table_has_every_method_and_size_of_every_finished_point(tmp_path, points, found):
    sweep_results.write(tmp_path, "test", points, found)
    frame = pq.read_table(tmp_path / "table.parquet").to_pandas()
    assert len(frame) == 2 * 3 * 2
    row = frame[(frame["ensemble.theta"] == "ratio") & (frame["method"] == "ensemble-count") & (frame["s"] == 3)]
    assert row[["auc", "auc_std", "eer", "runs"]].to_numpy().tolist() == [[85.0, 1.0, 0.2, 2]]
    assert row["folds"].item() == "[0, 1]"
    assert pd.read_csv(tmp_path / "table.csv").shape == frame.shape
    assert (tmp_path / "auc.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_shown_is_the_papers_story_and_the_winner(found):
    assert sweep_results.shown(found) == ["ensemble-count", "new/method"]


def test_of_many_winners_those_are_shown_that_won_at_most_points(tmp_path):
    """A figure has only so many styles, and a table so much room."""
    points = [point(seed=seed) for seed in range(14)]
    winners = [f"new/{seed}" for seed in range(12)] + ["new/11", "new/11"]
    found = {
        each.name: {**metrics(80.0, 60.0), winner: {"1": CELL, "3": CELL}}
        for each, winner in zip(points, winners, strict=True)
    }
    sweep_results.write(tmp_path, "test", points, found)
    assert sweep_results.shown(found) == ["ensemble-count", "new/11", "new/0", "new/1", "new/2"]


def test_points_may_differ_in_their_set_sizes(tmp_path, points, found):
    smaller = {key: {"1": value["1"]} if "1" in value else value for key, value in found[points[1].name].items()}
    sweep_results.write(tmp_path, "test", points, {**found, points[1].name: smaller})
    text = (tmp_path / "table.md").read_text()
    assert "| `theta=ratio,folds=0+1` | **65.0 ± 1.0** | – | 40.0 ± 1.0 | – |" in text


def test_the_summary_marks_the_best_point_and_names_those_not_finished(points, found):
    text = sweep_results.markdown("test", points, found)
    assert "2 of 3 points are finished; not theta=log\\_ratio,folds=0+1." in text
    assert "| `theta=difference,folds=0+1` | 60.0 ± 1.0 | 80.0 ± 1.0 | **70.0 ± 1.0** | **90.0 ± 1.0** |" in text
    assert "| `theta=ratio,folds=0+1` | **65.0 ± 1.0** | **85.0 ± 1.0** | 40.0 ± 1.0 | 60.0 ± 1.0 |" in text


def test_the_table_of_the_ui_is_narrow(points, found):
    rows = sweep_results.short(points, found)
    assert len(rows) == 2 * 2  # finished points, shown methods
    name = points[0].name
    assert rows[1] == {"point": name, "method": "new/method", "AUC, s = 1": "70.0 ± 1.0", "AUC, s = 3": "90.0 ± 1.0"}


def test_labels_leave_out_what_all_points_share(points):
    assert list(sweep_results.labels(points).values()) == ["theta = difference", "theta = ratio", "theta = log_ratio"]
    assert sweep_results.labels(points[:1]) == {points[0].name: points[0].name}


def test_one_set_size_and_one_point_are_enough(tmp_path, points):
    alone = {key: {"3": value["3"]} if "3" in value else value for key, value in metrics(80.0, 90.0, 1).items()}
    sweep_results.write(tmp_path, "test", points[:1], {points[0].name: alone})
    assert "| 80.0 |" in (tmp_path / "table.md").read_text().replace("**", "")
