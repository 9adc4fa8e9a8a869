from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from stages import ensemble, paths

LARGEST_RATIO = 1e6


def scores(fold: int = 0, stage: str = "ensemble") -> pd.Series:
    frame = pd.read_parquet(paths.run(stage, 0, fold) / "scores.parquet")
    return frame.astype({"method": str}).set_index(["method", "s", "set"])["novelty"].sort_index()


def all_scores(fold: int) -> dict:
    return {key: value for stage in ("ensemble", "pooled", "baselines") for key, value in scores(fold, stage).items()}


def theta(u1: float, u2: float, lowest: float, kind: str) -> float:
    """Equation 3 for one vector, by hand."""
    if kind == "difference":
        return u1 - u2
    if lowest < 0:
        u1, u2 = u1 - lowest, u2 - lowest
    ratio = (1.0 if u1 == 0 else LARGEST_RATIO) if u2 == 0 else min(u1 / u2, LARGEST_RATIO)
    return ratio if kind == "ratio" else float(np.log(ratio))


def softmax(u: list[float]) -> list[float]:
    powers = [np.exp(x - max(u)) for x in u]
    return [float(x / sum(powers)) for x in powers]


class Literal:
    """Algorithms 1 and 2 word by word, from the stored tables: one set, one partition, one number at a time."""

    def __init__(self, fold: int, confidence: str, kind: str, source: str) -> None:
        self.kind = kind
        roles = pd.read_parquet(paths.split(0, "classes"))
        self.novel = set(roles[(roles["f"] == fold) & (roles["role"] == "novel")]["class"])
        presumed = pd.read_parquet(paths.split(0, "partitions"))
        self.presumed_known = defaultdict(set)
        for row in presumed[(presumed["f"] == fold) & (presumed["role"] == "known")].to_dict("records"):
            self.presumed_known[row["l"]].add(row["class"])

        folder = paths.run("partitions", 0, fold)
        self.theta_set, self.chosen = {}, {}
        for row in pd.read_parquet(folder / "sets.parquet").to_dict("records"):
            if row["confidence"] == confidence:
                key = row["l"], row["s"], row["set"]
                self.theta_set[key] = theta(row["u1"], row["u2"], row["u_min"], kind)
                self.chosen[key] = row["top"]
        self.theta_class = {}
        for row in pd.read_parquet(folder / "classes.parquet").to_dict("records"):
            if row["confidence"] == confidence and row["source"] == source:
                self.theta_class[row["l"], row["class"]] = theta(row["u1"], row["u2"], row["u_min"], kind)

        self.members, self.label, self.role = defaultdict(list), {}, {}
        for row in pd.read_parquet(paths.split(0, "sets")).to_dict("records"):
            key = row["s"], row["set"]
            self.members[key].append(row["item"])
            self.label[key], self.role[key] = row["class"], row["role"]

        backbone = paths.run("backbone", 0, fold)
        columns = pd.read_parquet(backbone / "columns.parquet").sort_values("column")["class"].tolist()
        self.columns = columns
        self.u = {}
        for row in pd.read_parquet(backbone / "confidences.parquet").to_dict("records"):
            u = [float(x) for x in row["confidences"]]
            self.u[row["item"]] = u if confidence == "activation" else softmax(u)

    def backbone_mean(self, key: tuple[int, int]) -> list[float]:
        vectors = [self.u[item] for item in self.members[key]]
        return [sum(v[c] for v in vectors) / len(vectors) for c in range(len(self.columns))]

    def threshold(self, key: tuple[int, int]) -> float:
        lowest, *_, u2, u1 = sorted(self.backbone_mean(key))
        return -theta(u1, u2, lowest, self.kind)

    def algorithm_1(self, part: int, s: int) -> tuple[float, float, float]:
        points, is_novel = [], []
        for key, role in sorted(self.role.items()):
            if role == "calibration" and key[0] == s and self.label[key] not in self.novel:
                o = self.chosen[(part, *key)]
                points.append([self.theta_set[(part, *key)], self.theta_class[part, o]])
                is_novel.append(self.label[key] not in self.presumed_known[part])
        scaler = StandardScaler().fit(points)
        svm = LinearSVC(class_weight="balanced", dual=False).fit(scaler.transform(points), is_novel)
        w = svm.coef_[0] / scaler.scale_
        return w[0], w[1], svm.intercept_[0] - w @ scaler.mean_

    def algorithm_2(self, key: tuple[int, int], h: dict[int, tuple[float, float, float]]) -> int:
        mean = self.backbone_mean(key)
        o = self.columns[mean.index(max(mean))]
        votes = []
        for part, (w_set, w_class, b) in h.items():
            if o in self.presumed_known[part]:
                votes.append(np.sign(w_set * self.theta_set[(part, *key)] + w_class * self.theta_class[part, o] + b))
            else:
                votes.append(0)
        return votes.count(1)


READINGS = [
    ("activation", "difference", "train"),
    ("activation", "ratio", "calibration"),
    ("softmax", "log_ratio", "train"),
    ("softmax", "difference", "calibration"),
]


@pytest.mark.parametrize(("confidence", "kind", "source"), READINGS)
@pytest.mark.parametrize("fold", [0, 1])
def test_scores_are_those_of_the_algorithms_taken_literally(project, configure, fold, confidence, kind, source):
    for key, value in (("confidence", confidence), ("theta", kind), ("theta_i_from", source)):
        configure(f"ensemble.{key}", value)
    ensemble.run(0, fold)
    found = scores(fold)
    fitted = pd.read_parquet(paths.run("ensemble", 0, fold) / "classifiers.parquet")
    for suffix, literal in (
        ("", Literal(fold, confidence, kind, source)),
        ("/ratio", Literal(fold, "activation", "ratio", source)),
    ):
        rows = fitted[fitted["method"] == f"ensemble{suffix}"].set_index(["s", "l"])[["w_set", "w_class", "b"]]
        test_sets = [key for key, role in literal.role.items() if role == "test"]
        assert len(test_sets) == len(found.xs(f"ensemble-count{suffix}")) == 12 * (6 + 3 + 2)
        for s in (1, 2, 3):
            h = {part: tuple(rows.loc[(s, part)]) for part in range(4)}
            for part, fit in h.items():
                np.testing.assert_allclose(fit, literal.algorithm_1(part, s), rtol=1e-7, atol=1e-9)
            for key in (key for key in test_sets if key[0] == s):
                assert found[(f"ensemble-count{suffix}", *key)] == literal.algorithm_2(key, h)
                assert found[(f"threshold{suffix}", *key)] == pytest.approx(literal.threshold(key), rel=1e-9)


def test_margin_and_probability_are_means_over_the_partitions_that_have_a_say(project):
    votes = pd.read_parquet(paths.run("ensemble", 0, 0) / "votes.parquet")
    h = pd.read_parquet(paths.run("ensemble", 0, 0) / "classifiers.parquet")
    h = h[h["method"] == "ensemble"].set_index(["l", "s"])
    found = scores()
    for (s, number), rows in votes[(votes["method"] == "ensemble")].groupby(["s", "set"]):
        having = rows[rows["vote"] != 0]
        assert (np.sign(having["margin"]) == having["vote"]).all()
        assert rows["margin"].isna().tolist() == (rows["vote"] == 0).tolist()
        chances = [
            1 / (1 + np.exp(-(h.loc[(row.l, s), "slope"] * row.margin + h.loc[(row.l, s), "offset"])))
            for row in having.itertuples()
        ]
        assert found["ensemble-count", s, number] == (rows["vote"] == 1).sum()
        if len(having):
            assert found["ensemble-margin", s, number] == pytest.approx(having["margin"].mean())
            assert found["ensemble-probability", s, number] == pytest.approx(np.mean(chances))


def test_p_and_q_are_how_often_novel_and_known_test_sets_are_called_novel(project):
    literal = Literal(0, "activation", "difference", "train")
    h = pd.read_parquet(paths.run("ensemble", 0, 0) / "classifiers.parquet")
    for row in h[h["method"] == "ensemble"].to_dict("records"):
        answers: dict[bool, list[bool]] = {True: [], False: []}
        for key, role in literal.role.items():
            if role == "test" and key[0] == row["s"]:
                place = (row["l"], *key)
                of_class = literal.theta_class[row["l"], literal.chosen[place]]
                margin = row["w_set"] * literal.theta_set[place] + row["w_class"] * of_class + row["b"]
                answers[literal.label[key] not in literal.presumed_known[row["l"]]].append(margin > 0)
        assert row["p"] == pytest.approx(np.mean(answers[True]))
        assert row["q"] == pytest.approx(np.mean(answers[False]))


def test_the_literal_ratio_is_reported_whatever_is_configured(project, configure):
    names = ["ensemble-count/ratio", "threshold/ratio"]
    before = scores()[names]
    for confidence, kind in (("softmax", "difference"), ("softmax", "log_ratio"), ("activation", "log_ratio")):
        configure("ensemble.confidence", confidence)
        configure("ensemble.theta", kind)
        ensemble.run(0, 0)
        pd.testing.assert_series_equal(scores()[names], before)


def test_the_ratio_as_configured_is_the_literal_one(project, configure):
    configure("ensemble.theta", "ratio")
    ensemble.run(0, 0)
    found = scores()
    for name in ("ensemble-count", "threshold"):
        pd.testing.assert_series_equal(found[name], found[f"{name}/ratio"], check_names=False)


def test_novel_sets_are_those_of_the_folds_novel_classes(project):
    roles = pd.read_parquet(paths.split(0, "classes"))
    for fold in (0, 1):
        novel = roles[(roles["f"] == fold) & (roles["role"] == "novel")]["class"]
        for stage in ("ensemble", "pooled", "baselines"):
            frame = pd.read_parquet(paths.run(stage, 0, fold) / "scores.parquet")
            assert (frame["novel"] == frame["class"].isin(novel)).all()
            assert frame["novel"].any()


class TestNoLeak:
    def test_only_test_items_of_novel_classes_reach_a_score(self, project, corrupt, run_fold):
        before = all_scores(0)
        roles = pd.read_parquet(paths.split(0, "classes"))
        novel = roles[(roles["f"] == 0) & (roles["role"] == "novel")]["class"]
        items = pd.read_parquet(paths.split(0, "items"))
        of_novel = items["class"].isin(novel)
        corrupt(items[of_novel & (items["role"] != "test")]["item"])
        run_fold(0)
        assert all_scores(0) == before
        corrupt(items[of_novel & (items["role"] == "test")]["item"])
        run_fold(0)
        assert all_scores(0) != before

    def test_a_set_is_scored_without_a_look_at_other_test_items(self, project, corrupt, run_fold):
        items = pd.read_parquet(paths.split(0, "items"))
        sets = pd.read_parquet(paths.split(0, "sets"))
        name = items["class"][0]
        chosen = sets[(sets["role"] == "test") & (sets["class"] == name)]
        mine = set(zip(chosen["s"], chosen["set"], strict=True))
        before = all_scores(0)
        corrupt(items[(items["role"] == "test") & (items["class"] != name)]["item"])
        run_fold(0)
        after = all_scores(0)
        assert {key for key in before if before[key] == after[key]} >= {key for key in before if key[1:] in mine}
        assert len(mine) == 6 + 3 + 2
        assert before != after

    def test_another_fold_is_not_touched(self, project, run_fold):
        before = {path: path.read_bytes() for path in project.glob("runs/*/r0-f1/*")}
        run_fold(0)
        assert {path: path.read_bytes() for path in project.glob("runs/*/r0-f1/*")} == before
