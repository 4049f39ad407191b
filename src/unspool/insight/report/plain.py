"""From measures to JSON: dataclasses, arrays and numbers as the plain types that JSON has."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from unspool.errors import ArgumentTypeError

#: Significant digits of the numbers inside a page: what single precision can hold.
DIGITS = 7


def to_plain(value: Any, digits: int | None = None) -> Any:
    """A value in JSON's types: NaN is null, infinities are "inf" and "-inf", complex numbers {"real", "imag"}.

    Args:
        value: a dataclass, a mapping, an array, a tuple, a list or a plain value, nested in any way.
        digits: significant digits to round to; by default all.

    Returns:
        Objects, lists, numbers, strings, booleans and null.

    Example:
        >>> to_plain({"x": np.array([1.0, np.nan])})
        {'x': [1.0, None]}
    """
    match value:
        case np.generic() | np.ndarray():  # before float, as a float64 is one too
            return _from_numpy(value, digits)
        case None | bool() | str() | int():
            return value
        case float():
            return _number(value, digits)
        case complex():
            return {"real": _number(value.real, digits), "imag": _number(value.imag, digits)}
        case Mapping():
            return {str(key): to_plain(inner, digits) for key, inner in value.items()}
        case tuple() | list():
            return [to_plain(inner, digits) for inner in value]
    return _from_dataclass(value, digits)


def _from_numpy(value: np.generic | np.ndarray[Any, Any], digits: int | None) -> Any:
    if isinstance(value, np.ndarray) and np.iscomplexobj(value):
        return {"real": to_plain(value.real, digits), "imag": to_plain(value.imag, digits)}
    return to_plain(value.tolist(), digits)


def _from_dataclass(value: Any, digits: int | None) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ArgumentTypeError.of(
            "value", value, f"is a {type(value).__name__}, which JSON cannot hold", "Leave it out"
        )
    return {part.name: to_plain(getattr(value, part.name), digits) for part in dataclasses.fields(value)}


def _number(value: float, digits: int | None) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value if digits is None else float(f"{value:.{digits}g}")


def to_json(value: Any) -> str:
    """JSON that is safe inside a script element: no `<` ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def fit(numbers: Mapping[str, Any], budget: int) -> tuple[dict[str, Any], list[str]]:
    """The numbers rounded, without the largest lists if they do not fit into `budget` characters of JSON.

    Also the names of what was left out; a note stands in its place.
    """
    kept: dict[str, Any] = to_plain(numbers, DIGITS)
    excess = len(to_json(kept)) - budget
    left_out = []
    if excess > 0:
        sizes = sorted(((len(to_json(found)), path) for path, found in _lists(kept, ())), reverse=True)
        for size, path in sizes:
            if excess <= 0:
                break
            holder: Any = kept
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = "left out: too large for one page"
            excess -= size
            left_out.append(".".join(map(str, path)))
    return kept, left_out


def _lists(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], list[Any]]]:
    """Every outermost list of numbers with its path; lists of objects are searched."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lists(inner, (*path, key))
    elif isinstance(value, list):
        if any(isinstance(inner, dict) for inner in value):
            for place, inner in enumerate(value):
                yield from _lists(inner, (*path, place))
        else:
            yield path, value
