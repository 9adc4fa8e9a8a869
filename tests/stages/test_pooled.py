import numpy as np
import pandas as pd
import pytest

from outclass.errors import OutclassError
from outclass.pooled import PooledSettings, input_names
from stages import folds, paths, pooled, tables


def read(name: str, fold: int = 0) -> pd.DataFrame:
    schema = {"scores": tables.SCORES, "classifiers": tables.POOLED}[name]
    return tables.read_frame(paths.run("pooled", 0, fold) / f"{name}.parquet", schema)


def test_every_test_set_has_a_probability(project):
    scores, data = read("scores"), folds.load_fold(0, 0)
    sets = folds.load_sets(0, data, "test")
    assert set(scores["method"]) == {"pooled"}
    for size, rows in scores.groupby("s"):
        assert rows["set"].tolist() == sets[size].numbers.tolist()
        assert rows["novel"].tolist() == (sets[size].codes < 0).tolist()
    assert scores["novelty"].between(0, 1).all()
    assert scores["novelty"].nunique() > 0.9 * len(scores)


def test_every_input_has_a_weight_for_every_size(project, tiny):
    classifiers = read("classifiers")
    chosen = {k: v for k, v in tiny["pooled"].items() if k not in ("input", "most_features", "most_kernel_items")}
    names = [*input_names(PooledSettings(**chosen), kernel=True), "bias"]
    for size in (1, 2, 3):
        assert classifiers[classifiers["s"] == size]["input"].tolist() == names
    alone = classifiers[(classifiers["s"] == 1) & (classifiers["input"] == "spread")]
    assert alone["weight"].item() == pytest.approx(0, abs=1e-9)  # a single item has none


def test_the_classifier_learns_from_calibration_sets_as_the_partitions_label_them(project, monkeypatch):
    taken = []
    fit = pooled.pooled.fit
    monkeypatch.setattr(
        pooled.pooled, "fit", lambda rows, novel, penalty: taken.append(novel) or fit(rows, novel, penalty)
    )
    pooled.run(0, 0)
    data = folds.load_fold(0, 0)
    presumed = folds.load_presumed_novel(0, 0, data.known)
    for (_, sets), novel in zip(folds.load_sets(0, data, "calibration").items(), taken, strict=True):
        expected = [bool(presumed[number][code]) for number in range(4) for code in sets.codes]
        assert novel.tolist() == expected


def test_the_same_twice(project):
    before = {path.name: path.read_bytes() for path in paths.run("pooled", 0, 0).iterdir()}
    pooled.run(0, 0)
    assert {path.name: path.read_bytes() for path in paths.run("pooled", 0, 0).iterdir()} == before


def test_wide_features_are_projected_first(project, configure):
    before = read("scores")["novelty"].to_numpy()
    configure("pooled.most_features", 20)
    pooled.run(0, 0)
    after = read("scores")["novelty"].to_numpy()
    assert (after != before).mean() > 0.9
    assert np.corrcoef(after, before)[0, 1] > 0.3


def test_covariances_that_cannot_be_had_are_named(project, configure):
    configure("pooled.shrinkage", 0.0)  # 108 train items of 144 features
    before = (paths.run("pooled", 0, 0) / "scores.parquet").read_bytes()
    with pytest.raises(OutclassError, match=r"pooled: .*raise the shrinkage"):
        pooled.run(0, 0)
    assert (paths.run("pooled", 0, 0) / "scores.parquet").read_bytes() == before


def test_a_kernel_of_too_many_items_is_done_without(project, configure):
    configure("pooled.most_kernel_items", 9 * 12 - 1)
    assert pooled.run(0, 0).startswith("one novelty classifier of 18 inputs")
    configure("pooled.most_kernel_items", 9 * 12)
    assert pooled.run(0, 0).startswith("one novelty classifier of 20 inputs")
