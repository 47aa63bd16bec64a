"""Checks the settings of a layer or an op against the function that runs it.

Each keyword-only parameter is a setting, and its annotation selects the check in
``CHECKS``. A parameter that is annotated as a ``Tensor`` is a weight instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from plugrad.importing import input_counts

from .activations import activation, fused_names

__all__ = ["Format", "Inference", "Ints", "Padding", "inputs_of", "settings_of"]

Ints = tuple[int, ...]
Padding = Any  # "valid", "same", ...; some functions support only a few
Inference = bool  # must be false: normalization with batch statistics is refused
Format = str  # channels-first or channels-last
Function = Callable[..., Any]


def _int(value: Any) -> int:
    if type(value) is not int and not (type(value) is float and value.is_integer()):
        raise TypeError("an integer")
    if abs(value) >= 2**63:
        raise TypeError("a 64-bit integer")
    return int(value)


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError:
        raise TypeError("a number that fits into a float") from None


def _ints(value: Any) -> Ints:
    values = value if isinstance(value, list | tuple) else [value]
    try:
        return tuple(_int(one) for one in values)
    except TypeError:
        raise TypeError("integers") from None


FORMATS: tuple[str, ...] = (
    "channels_last",
    "channels_first",
    "channelslast",
    "channelsfirst",
)
FORMATS += ("nhwc", "nchw", "nwc", "ncw", "ndhwc", "ncdhw")


def _one_of(*names: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if str(value).lower() not in names:
            raise TypeError(f"one of {', '.join(names)}")
        return value

    return check


def _inference_only(value: Any) -> bool:
    if value is not False:
        raise TypeError("false, because a loaded model does not use batch statistics")
    return value


def _instance_of(kind: type, text: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(text)
        return value

    return check


CHECKS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": _float,
    "Ints": _ints,
    "bool": _instance_of(bool, "true or false"),
    "str": _instance_of(str, "a string"),
    "Padding": _one_of("valid", "same", "causal", "explicit"),
    "Format": _one_of(*FORMATS),
    "Fused": fused_names,
    "Activation": activation,
    "Inference": _inference_only,
    "Any": lambda value: value,
}


@functools.cache
def _parameters(function: Function) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def _is_weight(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).startswith("Tensor")


@functools.cache
def inputs_of(function: Function) -> tuple[int, float]:
    """Return the minimum and maximum number of inputs of a function."""
    return input_counts(function)


def settings_of(
    function: Function, given: Mapping[str, Any], ignored: Callable[[str], bool]
) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a function, and a list of problems.

    Settings that the function does not know are a problem, unless ``ignored(key)`` is
    true or the setting is null or false.
    """
    settings: dict[str, Any] = {}
    problems: list[str] = []
    remaining = {key: value for key, value in given.items() if value is not None}
    for p in _parameters(function):
        if p.kind is not p.KEYWORD_ONLY or _is_weight(p):
            continue
        value = remaining.pop(p.name, p.default)
        if value is p.empty:
            problems.append(f"{p.name} is missing")
        elif value is p.default and value is None:
            settings[p.name] = value
        else:
            try:
                kind = str(p.annotation).removesuffix(" | None")
                settings[p.name] = CHECKS[kind](value)
            except TypeError as error:
                problems.append(f"{p.name} must be {error}, not {value!r}")
            except ValueError as error:
                problems.append(str(error))
    unknown = {k: x for k, x in remaining.items() if x is not False and not ignored(k)}
    problems += [f"{key}={x!r} is not supported" for key, x in unknown.items()]
    return settings, problems
