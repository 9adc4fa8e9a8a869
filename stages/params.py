"""params.yaml as typed values. Every group is named after the stage that reads it."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from outclass.confidence import Confidence, Theta
from outclass.errors import OutclassError

FILE = Path("params.yaml")

Index = Annotated[int, Field(ge=0, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


def _different(values: list[int]) -> list[int]:
    if len(set(values)) < len(values):
        raise ValueError("a value is listed twice")
    return values


Indices = Annotated[list[Index], Field(min_length=1), AfterValidator(_different)]
Counts = Annotated[list[Count], Field(min_length=1), AfterValidator(_different)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Glyphs(Group):
    classes: Annotated[int, Field(ge=3, le=100)]
    images_per_class: Count
    side: Annotated[int, Field(ge=8)]
    size: tuple[float, float]
    rotation: float
    shear: float
    shift: float
    blur: float
    contrast: tuple[float, float]
    noise: float


class Download(Group):
    source: Literal["glyphs"]
    glyphs: Glyphs


class ItemCounts(Group):
    train: Count
    calibration: Count
    test: Count | None


class Split(Group):
    folds_drawn: Count
    novel_classes: Count
    partitions: Count
    presumed_novel_classes: Count
    items: ItemCounts
    set_sizes: Counts


class Hog(Group):
    orientations: Count
    cell: Count
    block: Count


class Embed(Group):
    representation: Literal["hog"]
    hog: Hog


class Flat(Group):
    hidden: Count
    steps: Count
    batch: Count
    learning_rate: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    dropout: Annotated[float, Field(ge=0, lt=1)]


class Ridge(Group):
    penalty: Annotated[float, Field(gt=0)]


class Backbone(Group):
    network: Literal["flat", "ridge"]
    flat: Flat
    ridge: Ridge


class Partitions(Group):
    chunk: Count


class Ensemble(Group):
    confidence: Confidence
    theta: Theta
    theta_i_from: Literal["train", "calibration"]
    cost: Annotated[float, Field(gt=0)]


class OneClassSvm(Group):
    nu: Annotated[float, Field(gt=0, le=1)]
    gamma: Annotated[float, Field(gt=0)] | Literal["scale"]


class Knn(Group):
    neighbours: Counts


class Baselines(Group):
    confidence: Confidence
    pca: Count
    ocsvm: OneClassSvm
    knn: Knn


class Params(Group):
    seed: Index
    repetitions: Indices
    folds: Indices
    download: Download
    split: Split
    embed: Embed
    backbone: Backbone
    partitions: Partitions
    ensemble: Ensemble
    baselines: Baselines

    @model_validator(mode="after")
    def folds_are_drawn(self) -> "Params":
        if max(self.folds) >= self.split.folds_drawn:
            raise ValueError(
                f"folds lists {max(self.folds)}, but split.folds_drawn = {self.split.folds_drawn} "
                f"gives folds 0 to {self.split.folds_drawn - 1}"
            )
        return self


def load(path: Path = FILE) -> Params:
    return parse(_read_yaml(path), str(path))


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise OutclassError(f"{path}: not found; run from the project's root folder") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OutclassError(f"{path}: not valid YAML: {error}") from error
    except OSError as error:
        raise OutclassError(f"{path}: cannot be read ({error.strerror})") from error


def parse(values: Any, origin: str) -> Params:
    """Check values; an error names each key at fault."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        lines = [f"{origin}: {_explain(problem)}" for problem in error.errors()]
        raise OutclassError("\n".join(lines)) from error


def _explain(problem: Any) -> str:
    *group, name = problem["loc"] or ("",)
    if problem["type"] == "extra_forbidden":
        key = ".".join(map(str, problem["loc"]))
        close = get_close_matches(str(name), _fields(group), n=1)
        return f"{key}: unknown parameter" + (f"; did you mean {close[0]}?" if close else "; remove it")
    # Where a value may be of several types, pydantic names the type as well: no identifier, and not of interest.
    key = ".".join(str(part) for part in problem["loc"] if str(part).isidentifier()) or "parameters"
    if problem["type"] == "missing":
        return f"{key}: missing; add it (the presets show every parameter)"
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}"
    return f"{key}: {problem['msg']} (it is {problem['input']!r})"


def _fields(group: list[str | int]) -> list[str]:
    """The names that are known inside a group, e.g. ["split", "items"]."""
    model: Any = Params
    for name in group:
        model = model.model_fields[name].annotation
    return list(model.model_fields)
