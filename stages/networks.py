"""Class activities u from the network that params.yaml asks for, or from the user's own classifiers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from outclass.arrays import Bools, Floats, Ints
from outclass.seeds import generator
from stages import folds, given, settings
from stages.command import single_threaded
from stages.params import Backbone, Params

if TYPE_CHECKING:
    from outclass.networks import Settings

OnStep = Callable[[int, int], None]
CODE = (
    *(f"outclass/networks/{name}.py" for name in ("__init__", "flat", "nin", "ridge")),
    *("outclass/features/whitening.py", "outclass/confidence.py", "outclass/seeds.py"),
    *(f"stages/{name}.py" for name in ("folds", "given", "networks")),
)
"""What makes a trained network what it is. Not imported to be read: torch takes longer to load than plans to make."""


class Lesson(NamedTuple):
    """What one network is taught."""

    name: str  # e.g. r0-f2 for a backbone, r0-f2-l5 for a partition's network
    classes: Bools  # (known classes,): True for those that it is taught
    rng: np.random.Generator


def backbone_lesson(params: Params, data: folds.Fold, repetition: int, fold: int) -> Lesson:
    rng = generator(params.seed, "backbone", repetition, fold)
    return Lesson(f"r{repetition}-f{fold}", np.ones(len(data.known), dtype=bool), rng)


def partition_lesson(params: Params, taught: Bools, repetition: int, fold: int, number: int) -> Lesson:
    rng = generator(params.seed, "partition", repetition, fold, number)
    return Lesson(f"r{repetition}-f{fold}-l{number}", taught, rng)


def load_inputs(chosen: Backbone, data: folds.Fold) -> Floats | Ints | None:
    """What the networks see of the fold's items; None where the user's own classifiers have seen them."""
    if chosen.network == "given":
        return None
    source = Path(chosen.input)
    return folds.load_images(data, source) if chosen.network == "nin" else folds.load_features(data, source)


def activities(
    chosen: Backbone,
    data: folds.Fold,
    inputs: Floats | Ints | None,
    lessons: Sequence[Lesson],
    device: str,
    on_step: OnStep = lambda done, total: None,
) -> Floats:
    """(lessons, items, known classes): u of all items of the fold; -inf for classes that a network is not taught."""
    if inputs is None:
        return np.stack([given.load(Path(chosen.input), lesson.name, data, lesson.classes) for lesson in lessons])
    from outclass.networks import train  # here, because it loads torch, of which those who only plan have no need

    settings.prepare(device)
    taught = np.stack([lesson.classes for lesson in lessons])
    trains = data.where("train")
    generators = [lesson.rng for lesson in lessons]
    with single_threaded():  # torch, which has only now been loaded, too
        heads = train(settings_of(chosen), inputs[trains], data.codes[trains], taught, generators, device, on_step)
        return heads.activities(inputs)


def settings_of(chosen: Backbone) -> "Settings":
    """The settings of a network that is trained here; params.yaml has been checked to hold them."""
    from outclass.networks.flat import FlatSettings
    from outclass.networks.nin import NinSettings
    from outclass.networks.ridge import RidgeSettings

    kinds: dict[str, type[Settings]] = {"flat": FlatSettings, "ridge": RidgeSettings, "nin": NinSettings}
    return kinds[chosen.network](**getattr(chosen, chosen.network).model_dump())


def files_read(chosen: Backbone, repetition: int, fold: int) -> list[Path]:
    """The files that a fold's networks take their inputs from."""
    source = Path(chosen.input)
    return given.tables_of(source, repetition, fold) if chosen.network == "given" else [source]
