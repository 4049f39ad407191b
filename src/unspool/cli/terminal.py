"""The terminal: rich's console, which leaves out colours where they are not wanted (NO_COLOR, a pipe)."""

from __future__ import annotations

from rich.console import Console

#: A file or a pipe has no width; tables need some.
WIDTH = 160


def console(error: bool = False) -> Console:
    """Standard output, or standard error."""
    found = Console(stderr=error, highlight=False, markup=False)
    if not found.is_terminal:
        found.width = WIDTH
    return found
