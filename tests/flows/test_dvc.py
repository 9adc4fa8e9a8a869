"""``dvc repro`` as a user runs it: the whole pipeline, then only what a change concerns."""

import json
import re

import pytest

pytestmark = pytest.mark.slow


def ran(output: str) -> list[str]:
    return sorted(re.findall(r"Running stage '(.+)':", output))


def test_it_ends_in_a_report(reference):
    metrics = json.loads((reference.root / "report/metrics.json").read_text())
    assert metrics["ensemble-count"]["1"]["n"] == 2
    assert set(metrics["knn-5/features"]) == {"1", "2", "3"}
    assert 0 < metrics["backbone"]["accuracy"] <= 1
    assert "<html" in (reference.root / "report/index.html").read_text()


def test_a_second_run_does_nothing(prepared):
    output = prepared.run("dvc", "repro")
    assert ran(output) == []
    assert "up to date" in output


def test_another_theta_refits_the_ensemble_and_retrains_nothing(prepared, api):
    before = prepared.digests("runs/partitions")
    prepared.set(**{"ensemble.theta": "ratio", "ensemble.confidence": "softmax"})
    assert ran(prepared.run("dvc", "repro", PREFECT_API_URL=api)) == ["ensemble@0-0", "ensemble@0-1", "evaluate"]
    assert prepared.digests("runs/partitions") == before


def test_another_fold_runs_only_what_is_new(prepared, api):
    prepared.set(folds=[0, 1, 2])
    stages = ("backbone", "baselines", "ensemble", "partitions", "pooled")
    assert ran(prepared.run("dvc", "repro", PREFECT_API_URL=api)) == sorted([*(f"{s}@0-2" for s in stages), "evaluate"])
    assert json.loads((prepared.root / "report/metrics.json").read_text())["threshold"]["1"]["n"] == 3


def test_another_repetition_runs_only_what_is_new(prepared, api, reference):
    prepared.set(repetitions=[0, 1], folds=[0])
    stages = ("backbone", "baselines", "ensemble", "partitions", "pooled")
    output = prepared.run("dvc", "repro", PREFECT_API_URL=api)
    assert ran(output) == sorted(["split@1", *(f"{stage}@1-0" for stage in stages), "evaluate"])
    old = {name: digest for name, digest in prepared.digests("runs").items() if "/r0-" in name}
    assert old == reference.digests("runs")


def test_more_partitions_keep_the_chunks_that_are_finished(prepared, api):
    prepared.set(**{"split.partitions": 6})
    output = prepared.run("dvc", "repro", "partitions@0-0", PREFECT_API_URL=api)
    assert output.count("kept from an earlier run") == 2
    assert output.count("trained in") == 1


def test_a_corrupted_table_is_named_with_what_to_do(prepared):
    (prepared.root / "features/hog.parquet").write_bytes(b"PAR1 no table PAR1")
    output = prepared.python("stages.backbone", "--repetition", "0", "--fold", "0", check=False)
    assert "features/hog.parquet: not a readable Parquet file" in output
    assert "dvc repro" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("split.set_sizes", [1, 7], "split: set_sizes has 7, but items.calibration = 6"),
        ("split.novel_classes", 12, "split.novel_classes = 12, but there are 12 classes"),
        ("ensemble.tetha", "ratio", "ensemble.tetha: unknown parameter; did you mean theta?"),
    ],
)
def test_bad_parameters_are_named_and_leave_nothing_half_written(prepared, key, value, message):
    before = prepared.digests("runs")
    prepared.set(**{key: value})
    output = prepared.run("dvc", "repro", check=False)
    assert message in output
    assert "Traceback" not in output
    assert prepared.leftovers() == []
    assert prepared.digests("runs").items() <= before.items()  # DVC itself takes the old output away first
