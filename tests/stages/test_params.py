import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from outclass.errors import OutclassError
from stages import params

ROOT = Path(__file__).resolve().parents[2]
PRESETS = [ROOT / "params.yaml", *sorted((ROOT / "presets").glob("*.yaml"))]

NIN = {
    **{"width": 8, "blocks": 3, "pointwise": 1, "epochs": 1, "batch": 16, "learning_rate": 0.05, "momentum": 0.9},
    **{"weight_decay": 0.0, "dropout": 0.0, "flip": False, "shift": 0, "whitening": None},
}


def parsed(values: dict[str, Any], key: str, value: Any) -> params.Params:
    *groups, name = key.split(".")
    group = values
    for part in groups:
        group = group[part]
    group[name] = value
    return params.parse(values, "params.yaml")


def leaf_lines(node: yaml.Node) -> Iterator[int]:
    """The lines (from 0) on which a value stands; a list is one value, a class left out has its reason beside it."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value != "leave_out":
                yield from leaf_lines(value)
    else:
        yield node.start_mark.line


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_a_committed_file_parses(path):
    assert params.load(path).split.set_sizes


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_every_value_has_a_comment(path):
    text = path.read_text()
    lines = text.splitlines()
    assert [lines[number] for number in leaf_lines(yaml.compose(text)) if " # " not in lines[number]] == []


def test_the_default_is_the_one_the_stages_read(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(tiny))
    assert params.load() == params.parse(tiny, "here")


@pytest.mark.parametrize(
    ("key", "meant"),
    [("split.novel_clases", "novel_classes"), ("split.items.calibrate", "calibration"), ("sed", "seed")],
)
def test_an_unknown_parameter_is_named_with_what_was_probably_meant(tiny, key, meant):
    with pytest.raises(OutclassError, match=re.escape(f"params.yaml: {key}: unknown parameter; did you mean {meant}?")):
        parsed(tiny, key, 3)


def test_an_unknown_parameter_unlike_any_other_is_to_be_removed(tiny):
    with pytest.raises(OutclassError, match=r"baselines\.knn\.zzz: unknown parameter; remove it"):
        parsed(tiny, "baselines.knn.zzz", 3)


def test_a_missing_parameter_is_named(tiny):
    del tiny["split"]["items"]["test"]
    with pytest.raises(OutclassError, match=r"split\.items\.test: missing; add it"):
        params.parse(tiny, "params.yaml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "zero"),
        ("folds", 0),
        ("split.items", 3),
        ("split.items.test", "rest"),
        ("split.set_sizes", [1, "two"]),
        ("backbone.flat.steps", 1.5),
        ("embed", None),
    ],
)
def test_a_value_of_the_wrong_type_is_named(tiny, key, value):
    with pytest.raises(OutclassError, match=rf"^params\.yaml: {re.escape(key)}"):
        parsed(tiny, key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", -1),
        ("repetitions", []),
        ("folds", [-1]),
        ("download.glyphs.classes", 101),
        ("download.glyphs.classes", 3),
        ("split.novel_classes", 0),
        ("split.items.calibration", 0),
        ("split.set_sizes", []),
        ("split.set_sizes", [0]),
        ("backbone.flat.learning_rate", 0),
        ("backbone.flat.dropout", 1.0),
        ("partitions.chunk", 0),
        ("ensemble.theta", "quotient"),
        ("ensemble.theta_i_from", "test"),
        ("ensemble.cost", 0),
        ("baselines.ocsvm.nu", 1.1),
        ("baselines.ocsvm.gamma", 0),
        ("baselines.knn.neighbours", [0]),
    ],
)
def test_a_value_out_of_range_is_named(tiny, key, value):
    with pytest.raises(OutclassError, match=rf"^params\.yaml: {re.escape(key)}.*it is"):
        parsed(tiny, key, value)


def test_all_that_is_wrong_is_said_at_once(tiny):
    tiny["seed"] = -1
    with pytest.raises(OutclassError) as caught:
        parsed(tiny, "ensemble.cost", -1)
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["seed", "ensemble.cost"]


def test_all_other_test_items_may_be_asked_for(tiny):
    assert parsed(tiny, "split.items.test", None).split.items.test is None


def test_a_fold_that_is_not_drawn_cannot_be_listed(tiny):
    assert parsed(tiny, "folds", [0, 2]).folds == [0, 2]
    with pytest.raises(OutclassError, match=r"folds lists 3, but split\.folds_drawn = 3 gives folds 0 to 2"):
        parsed(tiny, "folds", [0, 3])


def test_a_set_size_cannot_be_listed_twice(tiny):
    with pytest.raises(OutclassError, match=r"split\.set_sizes: .*a value is listed twice"):
        parsed(tiny, "split.set_sizes", [1, 2, 1])


@pytest.mark.parametrize("key", ["folds", "repetitions"])
def test_a_run_cannot_be_listed_twice(tiny, key):
    with pytest.raises(OutclassError, match=key):
        parsed(tiny, key, [0, 0])


@pytest.mark.parametrize("text", ["split: [1, 2", "seed: 0\n\tfolds: [0]"])
def test_broken_yaml_is_refused_with_the_place(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(OutclassError, match=r"(?s)params\.yaml: not valid YAML: .*line \d"):
        params.load(path)


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n"])
def test_a_file_without_parameters_is_refused(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(OutclassError, match=r"params\.yaml: "):
        params.load(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_bytes(b"\xff\xfe\x00s")
    with pytest.raises(OutclassError, match=r"params\.yaml"):
        params.load(path)


def test_a_missing_file_is_named_with_what_to_do(tmp_path):
    with pytest.raises(OutclassError, match=r"params\.yaml: not found; run from the project's root folder"):
        params.load(tmp_path / "params.yaml")


def test_parameters_cannot_be_changed_by_a_stage(tiny):
    with pytest.raises(ValueError, match="frozen"):
        params.parse(tiny, "params.yaml").split.items.train = 5


class TestWhatIsChosenByName:
    """A source, representation or network that takes parameters must have them; others may be absent."""

    @pytest.mark.parametrize(
        ("group", "key", "choice"),
        [
            ("download", "source", "table"),
            ("backbone", "network", "nin"),
            ("backbone", "network", "ridge"),
            ("embed", "representations", "pretrained"),
        ],
    )
    def test_must_be_described(self, tiny, group, key, choice):
        tiny[group].pop(choice, None)
        with pytest.raises(
            OutclassError, match=rf"params\.yaml: {group}: {key} has {choice}, but the parameters below"
        ):
            parsed(tiny, f"{group}.{key}", [choice] if key == "representations" else choice)

    def test_needs_no_description_of_the_others(self, tiny):
        del tiny["backbone"]["ridge"]
        assert parsed(tiny, "seed", 1).backbone.ridge is None

    def test_a_typing_error_inside_it_is_named(self, tiny):
        with pytest.raises(
            OutclassError, match=r"download\.glyphs\.contrasts: unknown parameter; did you mean contrast"
        ):
            parsed(tiny, "download.glyphs.contrasts", 1)


class TestInputs:
    @pytest.mark.parametrize("stage", ["backbone", "baselines"])
    def test_must_be_what_embed_writes(self, tiny, stage):
        with pytest.raises(
            OutclassError, match=rf"{stage}\.input is features/hgo\.parquet, but .*features/hog\.parquet"
        ):
            parsed(tiny, f"{stage}.input", "features/hgo.parquet")

    def test_pixels_are_for_convolutional_networks_only(self, tiny):
        tiny["embed"] |= {"representations": ["hog", "pixels"], "pixels": {"side": 16}}
        with pytest.raises(OutclassError, match=r"baselines\.input is features/pixels\.parquet"):
            parsed(tiny, "baselines.input", "features/pixels.parquet")

    def test_a_convolutional_network_needs_pixels(self, tiny):
        tiny["backbone"] |= {"network": "nin", "nin": NIN}
        with pytest.raises(OutclassError, match=r"backbone\.input is features/hog\.parquet, but .* missing"):
            parsed(tiny, "seed", 0)

    def test_confidences_of_ones_own_may_lie_anywhere(self, tiny):
        tiny["backbone"]["network"] = "given"
        assert parsed(tiny, "backbone.input", "somewhere").backbone.input == "somewhere"

    @pytest.mark.parametrize("path", ["features/hog.parquet", "./features/pixels.parquet"])
    def test_confidences_of_ones_own_are_no_features(self, tiny, path):
        tiny["backbone"]["network"] = "given"
        with pytest.raises(OutclassError, match=r"backbone\.input is .*parquet, which embed writes: name the folder"):
            parsed(tiny, "backbone.input", path)

    def test_confidences_of_ones_own_have_no_mirror_images(self, tiny):
        tiny["backbone"]["network"] = "given"
        with pytest.raises(OutclassError, match=r"embed\.mirrored must be false"):
            parsed(tiny, "embed.mirrored", True)


@pytest.mark.parametrize("role", ["calibration", "test"])
def test_sets_larger_than_a_class_can_fill_are_refused(tiny, role):
    tiny["split"]["items"][role] = 2
    with pytest.raises(OutclassError, match=rf"split: set_sizes has 3, but items\.{role} = 2"):
        parsed(tiny, "seed", 0)


@pytest.mark.parametrize("network", ["alexnet", "vgg16", "efficientnet_lite0", "timm/resnet18.a1_in1k"])
def test_pretrained_networks_go_by_name(tiny, network):
    tiny["embed"] |= {"pretrained": {"network": network, "side": 64, "batch": 8}}
    assert parsed(tiny, "seed", 0).embed.pretrained.network == network


def test_an_unknown_pretrained_network_is_refused(tiny):
    tiny["embed"] |= {"pretrained": {"network": "overfeat", "side": 64, "batch": 8}}
    with pytest.raises(OutclassError, match=r"embed\.pretrained\.network"):
        parsed(tiny, "seed", 0)


def test_the_default_parameters_are_the_glyphs_preset():
    assert (ROOT / "params.yaml").read_text() == (ROOT / "presets/glyphs.yaml").read_text()
