"""params.yaml as typed values. Every group is named after the stage that reads it."""

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from outclass.confidence import Confidence, Theta
from outclass.errors import OutclassError
from stages.grids import Grids

FILE = Path("params.yaml")

T = TypeVar("T", bound=int | str)
M = TypeVar("M", bound=BaseModel)

Index = Annotated[int, Field(ge=0, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


def _different(values: list[T]) -> list[T]:
    if len(set(values)) < len(values):
        raise ValueError("a value is listed twice")
    return values


Indices = Annotated[list[Index], Field(min_length=1), AfterValidator(_different)]
Counts = Annotated[list[Count], Field(min_length=1), AfterValidator(_different)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _require(group: Group, key: str, choice: str, described: set[str]) -> None:
    """What is chosen by name has a group of its own with its parameters, if it takes any."""
    if choice in described and getattr(group, choice) is None:
        raise ValueError(f"{key} has {choice}, but the parameters below `{choice}:` are missing; the presets show them")


class Glyphs(Group):
    classes: Annotated[int, Field(ge=4, le=100)]
    images_per_class: Count
    side: Annotated[int, Field(ge=8)]
    size: tuple[float, float]
    rotation: float
    shear: float
    shift: float
    blur: float
    contrast: tuple[float, float]
    noise: float


class Table(Group):
    class_column: str
    features_column: str | None
    name_column: str | None


class Download(Group):
    source: Literal["glyphs", "cifar100", "caltech101", "caltech256", "image_folder", "table"]
    input: str
    leave_out: dict[str, str]
    glyphs: Glyphs | None = None
    table: Table | None = None

    @model_validator(mode="after")
    def source_is_described(self) -> "Download":
        _require(self, "source", self.source, {"glyphs", "table"})
        return self


class ItemCounts(Group):
    train: Annotated[int, Field(ge=2, strict=True)]  # the spread within a class cannot be told from one item
    calibration: Count
    test: Count | None


class Split(Group):
    folds_drawn: Count
    novel_classes: Count
    partitions: Count
    presumed_novel_classes: Count
    items: ItemCounts
    set_sizes: Counts

    @model_validator(mode="after")
    def sets_can_be_filled(self) -> "Split":
        largest = max(self.set_sizes)
        for role in ("calibration", "test"):
            count = getattr(self.items, role)
            if count is not None and count < largest:
                raise ValueError(
                    f"set_sizes has {largest}, but items.{role} = {count}: choose smaller sets or more items"
                )
        return self


Side = Annotated[int, Field(ge=8, strict=True)]


class Hog(Group):
    side: Side | None
    orientations: Count
    cell: Count
    block: Count


class Pixels(Group):
    side: Side


class Pretrained(Group):
    network: Annotated[str, Field(pattern=r"^(alexnet|vgg16|efficientnet_lite0|timm/[\w.-]+)$")]
    side: Annotated[int, Field(ge=32, strict=True)]
    batch: Count


Representation = Literal["hog", "pixels", "pretrained", "given"]


class Embed(Group):
    representations: Annotated[list[Representation], Field(min_length=1), AfterValidator(_different)]
    mirrored: bool
    shard: Count
    hog: Hog | None = None
    pixels: Pixels | None = None
    pretrained: Pretrained | None = None

    @model_validator(mode="after")
    def representations_are_described(self) -> "Embed":
        for name in self.representations:
            _require(self, "representations", name, {"hog", "pixels", "pretrained"})
        if self.mirrored and "given" in self.representations:
            raise ValueError("mirrored is true, but given features have no mirror image: set it to false")
        return self


class Flat(Group):
    hidden: Count
    steps: Count
    batch: Count
    learning_rate: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    dropout: Annotated[float, Field(ge=0, lt=1)]


class Ridge(Group):
    penalty: Annotated[float, Field(gt=0)]


class Nin(Group):
    width: Count
    blocks: Annotated[int, Field(ge=1, le=4, strict=True)]
    pointwise: Count
    epochs: Count
    batch: Count
    learning_rate: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: Annotated[float, Field(ge=0)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    flip: bool
    shift: Index
    whitening: Annotated[float, Field(gt=0)] | None


class Backbone(Group):
    input: str
    network: Literal["flat", "ridge", "nin", "given"]
    flat: Flat | None = None
    ridge: Ridge | None = None
    nin: Nin | None = None

    @model_validator(mode="after")
    def network_is_described(self) -> "Backbone":
        _require(self, "network", self.network, {"flat", "ridge", "nin"})
        return self


class Partitions(Group):
    chunk: Count
    keep_confidences: Count


class Ensemble(Group):
    confidence: Confidence
    theta: Theta
    theta_i_from: Literal["train", "calibration"]
    cost: Annotated[float, Field(gt=0)]


Share = Annotated[float, Field(ge=0, le=1)]


class Pooled(Group):
    input: str
    most_features: Annotated[int, Field(ge=2, strict=True)]
    plda: Annotated[list[tuple[Share, Share]], Field(min_length=1)]
    shrinkage: Share
    neighbours: Count
    most_kernel_items: Index
    gamma: Annotated[float, Field(gt=0)]
    ridge: Annotated[float, Field(gt=0)]
    penalty: Annotated[float, Field(gt=0)]


class OneClassSvm(Group):
    nu: Annotated[float, Field(gt=0, le=1)]
    gamma: Annotated[float, Field(gt=0)] | Literal["scale"]


class Knn(Group):
    neighbours: Counts


class Baselines(Group):
    input: str
    confidence: Confidence
    pca: Count | None
    ocsvm: OneClassSvm | None = None
    knn: Knn | None = None
    tuning_partitions: Count
    methods: Grids


class Params(Group):
    seed: Index
    repetitions: Indices
    folds: Indices
    on_bad_item: Literal["fail", "skip"]
    download: Download
    split: Split
    embed: Embed
    backbone: Backbone
    partitions: Partitions
    ensemble: Ensemble
    pooled: Pooled
    baselines: Baselines

    @model_validator(mode="after")
    def folds_are_drawn(self) -> "Params":
        if max(self.folds) >= self.split.folds_drawn:
            raise ValueError(
                f"folds lists {max(self.folds)}, but split.folds_drawn = {self.split.folds_drawn} "
                f"gives folds 0 to {self.split.folds_drawn - 1}"
            )
        return self

    @model_validator(mode="after")
    def inputs_are_written(self) -> "Params":
        written = [f"features/{name}.parquet" for name in self.embed.representations]
        vectors = [path for path in written if path != "features/pixels.parquet"]
        _one_of("baselines.input", self.baselines.input, vectors)
        _one_of("pooled.input", self.pooled.input, vectors)
        if self.backbone.network == "nin":
            _one_of("backbone.input", self.backbone.input, [path for path in written if path not in vectors])
        elif self.backbone.network != "given":
            _one_of("backbone.input", self.backbone.input, vectors)
        elif self.embed.mirrored:
            raise ValueError("backbone.network is given, so embed.mirrored must be false: your tables have no mirrors")
        elif Path(self.backbone.input).parent == Path("features"):
            raise ValueError(
                f"backbone.network is given, but backbone.input is {self.backbone.input}, which embed writes: "
                f"name the folder with the confidences of your own classifiers"
            )
        return self

    @model_validator(mode="after")
    def tuning_finds_its_partitions(self) -> "Params":
        asked, kept = self.baselines.tuning_partitions, self.partitions.keep_confidences
        if asked > kept:
            raise ValueError(
                f"baselines.tuning_partitions is {asked}, but partitions.keep_confidences = {kept}: "
                "lower it or raise that"
            )
        return self


def _one_of(key: str, path: str, choices: list[str]) -> None:
    if path not in choices:
        there = " or ".join(choices) or "missing"
        raise ValueError(f"{key} is {path}, but what embed.representations gives for it is {there}")


def load(path: Path = FILE) -> Params:
    return parse(read_yaml(path), str(path))


def read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise OutclassError(f"{path}: not found; run from the project's root folder") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OutclassError(f"{path}: not valid YAML: {error}") from error
    except OSError as error:
        raise OutclassError(f"{path}: cannot be read ({error.strerror})") from error


def parse(values: Any, origin: str) -> Params:
    return check(Params, values, origin)


def check(model: type[M], values: Any, origin: str) -> M:
    """Check values; an error names each key at fault."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [f"{origin}: {_explain(problem, model)}" for problem in error.errors()]
        raise OutclassError("\n".join(lines)) from error


def _explain(problem: Any, model: Any) -> str:
    *group, name = problem["loc"] or ("",)
    if problem["type"] == "extra_forbidden":
        key = ".".join(map(str, problem["loc"]))
        close = get_close_matches(str(name), _fields(group, model), n=1)
        return f"{key}: unknown parameter" + (f"; did you mean {close[0]}?" if close else "; remove it")
    # Where a value may be of several types, pydantic names the type as well: no identifier, and not of interest.
    key = ".".join(str(part) for part in problem["loc"] if str(part).isidentifier()) or "parameters"
    if problem["type"] == "missing":
        return f"{key}: missing; add it (the presets show every parameter)"
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}"
    return f"{key}: {problem['msg']} (it is {problem['input']!r})"


def _fields(group: list[str | int], model: Any) -> list[str]:
    """The names that are known inside a group, e.g. ["split", "items"]."""
    for name in group:
        model = _without_none(model.model_fields[name].annotation)
    return list(model.model_fields)


def _without_none(annotation: Any) -> Any:
    return next((part for part in get_args(annotation) if part is not type(None)), annotation)


@cache
def keys(model: Any = Params) -> frozenset[str]:
    """Dotted names of all parameters, and of their groups."""
    groups = {name: _without_none(field.annotation) for name, field in model.model_fields.items()}
    inner = {name: keys(group) for name, group in groups.items() if hasattr(group, "model_fields")}
    return frozenset(groups) | {f"{name}.{key}" for name, found in inner.items() for key in found}
