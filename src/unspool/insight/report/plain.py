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
    """`value` in JSON's types: NaN is null, infinities are "inf" and "-inf", complex numbers {"real", "imag"}.

    Dataclasses and mappings become objects, arrays, tuples and lists become lists. `digits` rounds to so many
    significant ones.
    """
    match value:
        case None | bool() | str():
            return value
        case np.generic():
            return to_plain(value.item(), digits)
        case int():
            return value
        case float():
            return _number(value, digits)
        case complex():
            return {"real": _number(value.real, digits), "imag": _number(value.imag, digits)}
        case np.ndarray() if np.iscomplexobj(value):
            return {"real": to_plain(value.real, digits), "imag": to_plain(value.imag, digits)}
        case np.ndarray():
            return to_plain(value.tolist(), digits)
        case Mapping():
            return {str(key): to_plain(inner, digits) for key, inner in value.items()}
        case tuple() | list():
            return [to_plain(inner, digits) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: to_plain(getattr(value, part.name), digits) for part in dataclasses.fields(value)}
    raise ArgumentTypeError.of(
        "value", value, f"is a {type(value).__name__}, which JSON has no form for", "Leave it out"
    )


def _number(value: float, digits: int | None) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value if digits is None else float(f"{value:.{digits}g}")


def to_json(value: Any) -> str:
    """JSON that can stand inside a script element of any page: no `<` ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def fit(numbers: Mapping[str, Any], budget: int) -> tuple[dict[str, Any], list[str]]:
    """The numbers rounded, without the largest lists where they would not go into `budget` characters of JSON.

    The second value names what was left out; in its place stands a sentence.
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
    """Every outermost list of numbers, with the way to it; a list of objects is gone through."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lists(inner, (*path, key))
    elif isinstance(value, list):
        if any(isinstance(inner, dict) for inner in value):
            for place, inner in enumerate(value):
                yield from _lists(inner, (*path, place))
        else:
            yield path, value
