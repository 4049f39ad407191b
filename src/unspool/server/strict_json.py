"""Strict JSON: UTF-8, no name twice, no NaN or infinity, no absurd depth or number."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from unspool.server.refusals import RefusalError, unusable

#: Digits of the longest whole number.
DIGITS = 19
#: What a number has that has more digits, or is not finite: its digits, or an exponent of three.
LARGE = re.compile(r"[0-9]{20}|[eE][+]?[0-9]{3}")


def parse(data: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        RefusalError: 400 where it is none; 422 where it has a name twice, NaN or infinity.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _broken(f"The body is not UTF-8: byte {error.start} cannot be read.") from error
    if text.startswith("\ufeff"):
        raise _broken("The body begins with a byte order mark. Send UTF-8 without one.")
    # most bodies are numbers, few of which are large: only those cost a call of Python for each
    numbers: dict[str, Any] = {"parse_float": _float, "parse_int": _whole} if LARGE.search(text) else {}
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_constant, **numbers)
    except RecursionError as error:
        raise _broken("The body is nested too deeply.") from error
    except ValueError as error:
        raise _broken(f"The body is not JSON: {error}.") from error


def dump(value: Any) -> bytes:
    """A value as JSON in one line; NaN is a mistake of the server, and raises ValueError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def dump_in_parts(value: Mapping[str, Any]) -> bytes:
    """As `dump`, an object whose lists may be long, item by item: other threads have their turn in between."""
    return b"{" + b",".join(dump(name) + b":" + _dump_items(one) for name, one in value.items()) + b"}"


def _dump_items(value: Any) -> bytes:
    return b"[" + b",".join(map(dump, value)) + b"]" if isinstance(value, list) else dump(value)


def _broken(message: str) -> RefusalError:
    return RefusalError(400, message, "invalid_json")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise unusable(f"The body has the name {name[:40]!r} twice. Give it once.", name[:40], "duplicate_name")
    return found


def _constant(name: str) -> Any:
    raise unusable(f"The body has {name}, which is no number. Leave it out.", None, "not_finite")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise unusable(f"The number {text[:40]} is too large.", None, "not_finite")
    return value


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise unusable(f"The number {text[:DIGITS]}… has more than {DIGITS} digits.", None, "not_finite")
    return int(text)
