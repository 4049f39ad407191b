"""Cells as text: `name(option=value, …)`, read without running any of it."""

from __future__ import annotations

import ast
import difflib
import inspect
import keyword
import re
import warnings
from collections.abc import Callable, Mapping

from unspool.errors import ArgumentError

Option = int | float | bool | str | None

#: Characters of the longest text that is read.
LONGEST = 1000
SHAPE = re.compile(r"\s*([^()]*?)\s*(?:\((.*)\))?\s*", re.DOTALL)
#: A user's file and what is wanted of it: PATH.py or PATH.py:NAME.
FILE = re.compile(r"(.+\.py)(?::(.*))?", re.DOTALL)
#: What stands in front of the options while Python's parser reads them.
CALL = "options"


def read_spelling(text: str) -> tuple[str, dict[str, Option]]:
    """Split the text of a cell into its name and its options.

    Values are literals: whole numbers, floats, True, False, None and strings. A string that is a plain word needs no
    quotation marks. Nothing is evaluated.

    Args:
        text: A name, or a name with options in parentheses.

    Returns:
        The name as it was written, and the options by name.

    Raises:
        ArgumentError: The text is not of this form.

    Example:
        >>> read_spelling("skip(span=3, activation=relu)")
        ('skip', {'span': 3, 'activation': 'relu'})
    """
    found = SHAPE.fullmatch(text)
    if len(text) > LONGEST or found is None or not found[1]:
        raise _unreadable(text, "is not a name, nor a name with options in parentheses")
    return found[1], {} if found[2] is None else _read_options(text, found[2])


def write_spelling(name: str, options: Mapping[str, Option]) -> str:
    """The text that `read_spelling` reads as this name and these options.

    Args:
        name: The cell's name.
        options: Its options by name; may be empty.

    Returns:
        The name alone, or the name with options in parentheses.

    Example:
        >>> write_spelling("skip", {"span": 3, "activation": "relu"})
        'skip(span=3, activation=relu)'
    """
    if not options:
        return name
    return f"{name}({', '.join(f'{key}={_write_value(value)}' for key, value in options.items())})"


def names_file(text: str) -> bool:
    """Whether a cell's text means a user's file, `PATH.py` or `PATH.py:NAME`, and not a name.

    Args:
        text: What was given as a cell.

    Returns:
        True if `cell_file.load_cell_file` is to read it.

    Example:
        >>> names_file("mine.py:Minimal"), names_file("lstm")
        (True, False)
    """
    return FILE.fullmatch(text) is not None


def options_of(make: Callable[..., object], fixed: Mapping[str, object]) -> dict[str, inspect.Parameter]:
    """The options that a class of cells takes by name, without those that are fixed already."""
    parameters = inspect.signature(make).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name: each for each in parameters if each.kind in named and each.name not in fixed}


def check_options(text: str, name: str, given: Mapping[str, Option], known: Mapping[str, object]) -> None:
    """Refuse an option that the cell does not take; the message lists those that it takes."""
    for option in given:
        if option not in known:
            nearest = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
            hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise ArgumentError.of("cell", text, f"has an unknown option {option!r}", f"{hint}{name} {takes}")


def _read_options(text: str, inside: str) -> dict[str, Option]:
    call = _parse_call(text, inside)
    if call.args:
        raise _unreadable(text, f"has an option without a name, {ast.unparse(call.args[0])}")
    options: dict[str, Option] = {}
    for option in call.keywords:
        if option.arg is None:
            raise _unreadable(text, "has ** among its options")
        if option.arg in options:
            raise _unreadable(text, f"has the option {option.arg} twice")
        options[option.arg] = _read_value(text, option.arg, option.value)
    return options


def _parse_call(text: str, inside: str) -> ast.Call:
    """What is inside the parentheses, as Python reads it; nothing is evaluated."""
    try:
        with warnings.catch_warnings():  # Python's parser has opinions on what it reads
            warnings.simplefilter("ignore")
            call = ast.parse(f"{CALL}({inside}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _unreadable(text, "has options that cannot be read") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != CALL:
        raise _unreadable(text, "has more than options in its parentheses")
    return call


def _read_value(text: str, name: str, node: ast.expr) -> Option:
    if isinstance(node, ast.Name):
        return node.id
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = ...
    if value is None or isinstance(value, int | float | str):
        return value
    raise _unreadable(text, f"has an option {name} that is neither a number, a word, True, False nor None")


def _write_value(value: Option) -> str:
    plain = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
    return str(value) if plain else repr(value)


def _unreadable(text: str, problem: str) -> ArgumentError:
    return ArgumentError.of("cell", text, problem, "Write it as in 'deep-transition(depth=3)'")
