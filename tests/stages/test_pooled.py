import numpy as np
import pandas as pd
import pytest

from outclass.errors import OutclassError
from outclass.pooled import PooledSettings, input_names
from stages import folds, params, partitions, paths, pooled, tables

NOT_SETTINGS = ("input", "most_features", "most_kernel_items")


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
    chosen = {k: v for k, v in tiny["pooled"].items() if k not in NOT_SETTINGS}
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


def inputs(fold: int = 0) -> tuple[dict[str, dict[int, folds.Sets]], pooled.Rows]:
    """The fold's sets, and every partition's inputs for them."""
    chosen, data = params.load(), folds.load_fold(0, fold)
    taught = ~folds.load_presumed_novel(0, fold, data.known)
    sets = {role: folds.load_sets(0, data, role) for role in ("calibration", "test")}
    settings = PooledSettings(**chosen.pooled.model_dump(exclude=set(NOT_SETTINGS)))
    return sets, pooled._inputs(chosen, settings, 0, fold, data, sets, taught)


def test_a_partition_knows_nothing_of_the_train_items_of_its_presumed_novel_classes(project, corrupt):
    before = inputs()[1]
    roles = pd.read_parquet(paths.split(0, "partitions"))
    novel = roles[(roles["f"] == 0) & (roles["l"] == 0) & (roles["role"] == "novel")]["class"]
    items = pd.read_parquet(paths.split(0, "items"))
    corrupt(items[items["class"].isin(novel) & (items["role"] == "train")]["item"])
    partitions.run(0, 0)
    after = inputs()[1]
    for place, rows in before.items():
        np.testing.assert_allclose(after[place][0], rows[0], rtol=1e-6, atol=1e-6)
        assert np.abs(after[place][1] - rows[1]).max() > 1e-3


def test_every_set_has_its_own_confidences(project):
    sets, rows = inputs()
    frame = pd.read_parquet(paths.run("partitions", 0, 0) / "sets.parquet").astype({"confidence": str})
    names = input_names(PooledSettings(), kernel=True)
    first, energy, theta, certainty = (names.index(n) for n in ("activity", "energy", "theta", "certainty"))
    for (role, size), of_partitions in rows.items():
        for number, found in enumerate(of_partitions):
            mine = frame[(frame["l"] == number) & (frame["s"] == size)].set_index(["confidence", "set"])
            activation = mine.loc["activation"].loc[sets[role][size].numbers]
            np.testing.assert_allclose(found[:, first], activation["u1"])
            np.testing.assert_allclose(found[:, energy], activation["energy"])
            np.testing.assert_allclose(found[:, theta], activation["u1"].astype(float) - activation["u2"].astype(float))
            np.testing.assert_allclose(found[:, certainty], mine.loc["softmax"].loc[sets[role][size].numbers]["u1"])


def test_a_kernel_without_a_ridge_to_speak_of_is_named(project, configure):
    frame, features = tables.read_vectors(paths.features("hog"), tables.FEATURES, "features")
    data = folds.load_fold(0, 0)
    twins = data.items[data.where("train") & (data.codes == 0)][:2]
    features = features.copy()
    features[frame["item"] == twins[0]] = features[frame["item"] == twins[1]]
    tables.write(paths.features("hog"), tables.FEATURES, {**frame, "features": features})
    configure("pooled.ridge", 1e-17)
    with pytest.raises(OutclassError, match=r"pooled: .*raise pooled\.ridge"):
        pooled.run(0, 0)


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
