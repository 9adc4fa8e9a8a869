"""Methods by name, each with its grid of hyper-parameters, as params.yaml lists them: checked against the methods."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from outclass.baselines.registry import METHODS, hyper_parameters


def check(methods: Any) -> Any:
    """As it is, or a ValueError that says what to write instead."""
    if not isinstance(methods, Mapping):
        raise ValueError(f"list methods by name, as `energy: {{}}` (it is {methods!r})")
    for method, grid in methods.items():
        if method not in METHODS:
            close = get_close_matches(str(method), METHODS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}"
            raise ValueError(f"{method} is not a method; {hint}")
        if not isinstance(grid, Mapping):
            raise ValueError(f"{method} needs its hyper-parameters, or {{}} for their defaults (it is {grid!r})")
        for name, values in grid.items():
            _check_values(method, name, values)
    return methods


def _check_values(method: str, name: str, values: Any) -> None:
    types = hyper_parameters(method)
    if name not in types:
        there = f"it has {', '.join(types)}" if types else "it has none"
        raise ValueError(f"{method} has no hyper-parameter {name}; {there}")
    if not isinstance(values, list) or not values:
        raise ValueError(f"{method}.{name} must be a list of values to choose from, as [1, 2] (it is {values!r})")
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{method}.{name} lists {value!r} twice")
        try:
            TypeAdapter(types[name]).validate_python(value, strict=True)
        except ValidationError as error:
            reasons = " or ".join(problem["msg"] for problem in error.errors())
            raise ValueError(f"{method}.{name} lists {value!r}: {reasons}") from error


Grids = Annotated[dict[str, dict[str, list[Any]]], BeforeValidator(check)]
