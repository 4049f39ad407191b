"""Entries of a saved document, such as a run's vocabulary.json: each of its type and within its bounds, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unspool.errors import DataError

#: More than any list of steps or tokens counts.
MOST = 1 << 31
REMEDY = "Take the run's own"


def read_names(document: Mapping[str, Any], name: str, least: int = 1) -> list[str]:
    """A list of at least so many strings, each once.

    Example:
        read_names({"tags": ["O", "B-x"]}, "tags")  # ["O", "B-x"]
    """
    found = document.get(name)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DataError(f"`{name}` is not a list of strings. {REMEDY}.")
    return _distinct(name, found, least)


def read_labels(document: Mapping[str, Any], name: str, least: int = 1) -> list[Any]:
    """A list of at least so many strings or numbers, each once."""
    found = document.get(name)
    if not isinstance(found, list) or not all(isinstance(one, str | int | float) for one in found):
        raise DataError(f"`{name}` is not a list of strings or numbers. {REMEDY}.")
    return _distinct(name, found, least)


def read_count(document: Mapping[str, Any], name: str) -> int:
    """A whole number from 1 on."""
    found = document.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found < MOST:
        raise DataError(f"`{name}` is not a whole number from 1 on. {REMEDY}.")
    return found


def read_flag(document: Mapping[str, Any], name: str) -> bool:
    """True or false."""
    found = document.get(name)
    if not isinstance(found, bool):
        raise DataError(f"`{name}` is neither true nor false. {REMEDY}.")
    return found


def read_name(document: Mapping[str, Any], name: str) -> str | None:
    """A string, or None where there is none."""
    found = document.get(name)
    if found is not None and not isinstance(found, str):
        raise DataError(f"`{name}` is not a string. {REMEDY}.")
    return found


def read_columns(document: Mapping[str, Any]) -> dict[str, str | None]:
    """The entry `columns`: names of columns, by setting."""
    found = read_section(document, "columns")
    return {name: read_name(found, name) for name in found}


def read_section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An entry that is a document itself."""
    found = document.get(name)
    if not isinstance(found, dict):
        raise DataError(f"`{name}` does not have entries of its own. {REMEDY}.")
    return found


def _distinct(name: str, found: list[Any], least: int) -> list[Any]:
    if len(found) < least or len(set(found)) < len(found):
        raise DataError(f"`{name}` does not have {least} different entries at least, each once. {REMEDY}.")
    return found
