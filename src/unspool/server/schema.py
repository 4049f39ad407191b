"""Checks values against the JSON Schemas that /openapi.json shows: one definition for the check and the document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unspool.server.refusals import RefusalError, unusable

Schema = Mapping[str, Any]
TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
#: Values of these types are of the schema's type, whatever they are.
PLAIN: Mapping[str, set[type]] = {"string": {str}, "integer": {int}, "number": {int, float}}
#: Keyword → whether a value keeps it, and what is said if not.
BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "is below {}"),
    "maximum": (lambda value, bound: value <= bound, "is above {}"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "is not above {}"),
    "minLength": (lambda value, bound: len(value) >= bound, "has fewer than {} character(s)"),
    "maxLength": (lambda value, bound: len(value) <= bound, "has more than {} character(s)"),
    "minItems": (lambda value, bound: len(value) >= bound, "has fewer than {} item(s)"),
    "maxItems": (lambda value, bound: len(value) <= bound, "has more than {} item(s)"),
    "maxProperties": (lambda value, bound: len(value) <= bound, "has more than {} name(s)"),
}


def check(schema: Schema, value: Any, place: str = "") -> Any:
    """The value, with the defaults of what was left out.

    Args:
        schema: Of the subset of JSON Schema that is used here.
        value: What `strict_json.parse` gave.
        place: Where the value stands, for the message.

    Raises:
        RefusalError: 422, with the place in the body.
    """
    if "anyOf" in schema:
        return _check_any(schema, value, place)
    if "type" in schema and not TYPES[schema["type"]](value):
        raise _wrong(place, f"is not {_article(schema['type'])}")
    for name, (keeps, said) in BOUNDS.items():
        if name in schema and not keeps(value, schema[name]):
            raise _wrong(place, said.format(_shown(schema[name])))
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(place, f"is none of {', '.join(map(str, schema['enum']))}")
    if isinstance(value, list) and "items" in schema:
        return _check_items(schema["items"], value, place)
    return _check_object(schema, value, place) if isinstance(value, dict) else value


def _check_items(schema: Schema, values: list[Any], place: str) -> list[Any]:
    kinds = set(map(type, values))
    for one in schema.get("anyOf", (schema,)):
        if one.keys() == {"type"} and kinds <= PLAIN.get(one["type"], set()):
            return values  # most are long lists of numbers, all of which are as they should be
    return [check(schema, one, f"{place}[{number}]") for number, one in enumerate(values)]


def _check_any(schema: Schema, value: Any, place: str) -> Any:
    """The value by the first schema that it keeps; an error costs much, so those of other types are left out first."""
    *others, last = _likely(schema["anyOf"], value)
    furthest: tuple[int, RefusalError] | None = None
    for one in others:
        try:
            return check(one, value, place)
        except RefusalError as refusal:
            furthest = _further(furthest, refusal)
    try:
        return check(last, value, place)
    except RefusalError as refusal:
        raise _further(furthest, refusal)[1] from None
    finally:  # an error has this frame: memory would wait for the collector of cycles
        del furthest


def _likely(schemas: Sequence[Schema], value: Any) -> Sequence[Schema]:
    """Those that were meant: of the value's type, and of a list by the type of its first item; all where none is."""
    if not all("type" in one for one in schemas):
        return schemas
    likely = [one for one in schemas if TYPES[one["type"]](value)]
    return [one for one in likely if _begins(one, value)] or likely or schemas


def _begins(schema: Schema, value: Any) -> bool:
    """Whether a list begins as the schema has it; what is no list does."""
    if not isinstance(value, list) or not value or "type" not in schema.get("items", ()):
        return True
    items, first = schema["items"], value[0]
    return TYPES[items["type"]](first) and _begins(items, first)


def _further(found: tuple[int, RefusalError] | None, refusal: RefusalError) -> tuple[int, RefusalError]:
    """What got furthest says most: a list whose third item is wrong was meant as a list."""
    depth = len(refusal.param or "")
    return found if found is not None and found[0] >= depth else (depth, refusal)


def _check_object(schema: Schema, value: dict[str, Any], place: str) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    found: dict[str, Any] = {}
    for name, one in value.items():
        where = f"{place}.{name[:40]}" if place else name[:40]
        if name not in known and others is False:
            raise unusable(f"`{where}` is not known. Known: {', '.join(known)}.", where, "unknown_name")
        own = known.get(name, others)
        found[name] = check(own, one, where) if isinstance(own, Mapping) else one
    for name in schema.get("required", ()):
        if name not in value:
            where = f"{place}.{name}" if place else name
            raise unusable(f"`{where}` is missing.", where, "missing_name")
    return {name: one["default"] for name, one in known.items() if "default" in one} | found


def _wrong(place: str, problem: str) -> RefusalError:
    named = f"`{place}`" if place else "The body"
    return unusable(f"{named} {problem}.", place or None)


def _shown(bound: float) -> str:
    return f"{bound:,}"


def _article(kind: str) -> str:
    return {"null": "null"}.get(kind, f"an {kind}" if kind[0] in "aeiou" else f"a {kind}")
