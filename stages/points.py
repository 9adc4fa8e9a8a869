"""The points of a sweep: each combination of the values in its grid, named after them, checked before anything runs."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from outclass.errors import OutclassError
from stages import params
from stages.params import Count, Indices, Params

Values = dict[str, Any]
"""Dotted name of a parameter -> what it is set to, e.g. ``{"ensemble.theta": "ratio"}``."""

LONGEST_NAME = 120
AFTER_TRAINING = {"ensemble", "pooled", "baselines"}
"""Groups of parameters that no training reads: points that differ in nothing else share all their networks."""
OF_DATA = {"on_bad_item", "download", "embed"}
"""Groups of parameters that make the features. (The seed does so too, for rendered characters alone.)"""


class Sweep(BaseModel):
    """What a sweep is asked for: in a YAML file, or in the form of the Prefect UI."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_+=,-]*$", max_length=60)]
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    seeds: Indices | None = None
    repetitions: Indices | None = None
    folds: Indices | None = None
    points_at_a_time: Count = 2

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The parameters that are set -> the values that each takes. Repetitions and folds are the same everywhere."""
        own: dict[str, list[Any] | None] = {
            "seed": self.seeds,
            "repetitions": [self.repetitions] if self.repetitions else None,
            "folds": [self.folds] if self.folds else None,
        }
        asked = {key: values for key, values in own.items() if values}
        if twice := sorted(asked.keys() & self.grid.keys()):
            raise OutclassError(f"sweep {self.name}: {', '.join(twice)}: given twice, in the grid and beside it")
        return {**self.grid, **asked}


@dataclass(frozen=True)
class Point:
    name: str
    values: Values
    params: Params

    def __str__(self) -> str:
        return self.name

    @property
    def own_data(self) -> list[str]:
        """What it reads that no stage has written."""
        backbone = self.params.backbone
        return [self.params.download.input, *([backbone.input] if backbone.network == "given" else [])]

    @property
    def trainings(self) -> str:
        """The same for points that train the same networks."""
        return self.params.model_dump_json(exclude=AFTER_TRAINING)

    @property
    def data(self) -> str:
        """The same for points that work on the same features."""
        return self.params.model_dump_json(include=OF_DATA)


def load(path: Path) -> Sweep:
    """Read a sweep's YAML file; it is called as its file is, unless it says otherwise."""
    values = params.read_yaml(path)
    return params.check(Sweep, {"name": path.stem, **values} if isinstance(values, dict) else values, str(path))


def plan(sweep: Sweep) -> list[Point]:
    """All points, in the order of the grid. An error names everything that is wrong with any of them."""
    base = params.read_yaml(params.FILE)
    params.parse(base, str(params.FILE))
    axes = sweep.axes
    if not axes:
        raise OutclassError(f"sweep {sweep.name}: nothing to vary: its grid needs a parameter with a list of values")
    each = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    _refuse_repeats(sweep, [name(values) for values in each])
    points, problems = [], dict[str, list[str]]()
    for values in each:
        try:
            points.append(_point(base, values))
        except OutclassError as error:
            for line in str(error).splitlines():
                problems.setdefault(line, []).append(name(values))
    if problems:
        raise OutclassError(_listing(sweep, problems, len(each)))
    return points


def _point(base: Any, values: Values) -> Point:
    checked = params.parse(with_values(base, values), "")
    point = Point(name(values), values, checked)
    for path in point.own_data:
        if not Path(path).exists():
            raise OutclassError(f"{path}: not found; check download.input and backbone.input")
    return point


def _refuse_repeats(sweep: Sweep, names: Sequence[str]) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise OutclassError(
            f"sweep {sweep.name}: several points would be called {', '.join(twice)}: list each value once"
        )


def _listing(sweep: Sweep, problems: dict[str, list[str]], count: int) -> str:
    """Each problem once, with the points that have it."""
    wrong = {name for names in problems.values() for name in names}
    lines = [f"sweep {sweep.name}: {len(wrong)} of {count} points cannot be run, so none was started"]
    for problem, names in problems.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"  {problem.removeprefix(': ')}\n    in {'; '.join(names[:3])}{more}")
    return "\n".join(lines)


def with_values(base: Any, values: Values) -> Any:
    """Parameters with some of them set."""
    changed = deepcopy(base)
    set_values(changed, values)
    return changed


def set_values(parameters: Any, values: Values) -> None:
    """Set parameters in place; groups that are missing are added."""
    for key, value in values.items():
        *groups, last = key.split(".")
        group = parameters
        for step in groups:
            if group.get(step) is None:
                group[step] = {}
            group = group[step]
            if not isinstance(group, dict):
                raise OutclassError(f"{key}: unknown parameter; {step} is a value, not a group")
        group[last] = value


def name(values: Values) -> str:
    """E.g. ``hidden=64,theta=ratio``: the same whatever the order of the grid, and fit for a git ref and a folder."""
    text = ",".join(parts(values).values())
    if len(text) <= LONGEST_NAME:
        return text
    return f"{text[:LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def parts(values: Values) -> dict[str, str]:
    """What each parameter adds to the name."""
    return {key: f"{_label(key)}={_safe(_text(values[key]))}" for key in sorted(values)}


def _label(key: str) -> str:
    """The shortest end of a key that no other parameter has: points of other sweeps are not to be called alike."""
    steps = key.split(".")
    ends = [".".join(steps[place:]) for place in reversed(range(len(steps)))]
    others = params.keys() - {key}
    return next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), key)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _safe(text: str) -> str:
    """Without what git forbids in a ref: ``..``, an ending ``.lock`` or ``.``, and most signs."""
    return re.sub(r"\.(?=\.|lock$|$)|[^\w.+-]", "-", text, flags=re.ASCII)
