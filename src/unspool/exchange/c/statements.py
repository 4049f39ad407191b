"""Statements that exported programs share: memory that is taken or refused, and messages about a line."""

from __future__ import annotations

from collections.abc import Iterable

from unspool.exchange.c.reading import FLOATS
from unspool.exchange.c.source import Source


def take_workspace(source: Source, arguments: str) -> list[str]:
    """Statements that take the workspace of `run`, or leave the program."""
    return take_floats(source, "workspace", f"@_workspace({arguments})")


def take_floats(source: Source, name: str, count: str) -> list[str]:
    """Statements that take memory for floats, or leave the program."""
    if FLOATS not in source.functions:
        source.function(FLOATS)
    return [f"float *const {name} = @_floats({count});", f"if ({name} == NULL)", "    return 1;"]


def out_of_memory(condition: str) -> list[str]:
    """Leave the program with a message, where memory was not given."""
    return [f"if ({condition}) {{", '    fprintf(stderr, "there is not enough memory\\n");', "    return 1;", "}"]


def leave_if(condition: str, problem: str, taken: Iterable[str]) -> list[str]:
    """Leave the program with a message about the line, and all that was taken freed."""
    frees = [f"    free({one});" for one in taken]
    return [f"if ({condition}) {{", *frees, f'    return @_complain("{problem}");', "}"]
