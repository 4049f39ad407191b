"""Text of unknown origin, such as what a model says, on a terminal: harmless, and in a frame."""

from __future__ import annotations

import re
from functools import lru_cache

from rich import box
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from unspool.harmless import harmless

INDENT = "    "
#: What stays together: spaces; a character of Chinese, Japanese or Korean with the marks that may not begin a line; a
#: word of any other script.
WIDE = r"\u2e80-\ud7ff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff"
WORDS = re.compile(rf" +|[{WIDE}][，。、；：？！）」』】》”’]*|[^ {WIDE}]+")
#: The frame's edges and the spaces within them.
EDGES = 4


def wrap(text: str, width: int) -> list[str]:
    """The text's lines, broken where they are too wide: between words, and between any two Chinese characters."""
    return [part for line in text.split("\n") for part in _wrap_line(line, width)]


def _wrap_line(line: str, width: int) -> list[str]:
    lines = [""]
    for word in WORDS.findall(line):
        if cell_len(lines[-1]) + cell_len(word) <= width:
            lines[-1] += word
        elif word.isspace():
            lines.append("")
        else:
            lines = [*(lines if lines[-1].strip() else lines[:-1]), *chop_cells(word, width)]
    return [part.rstrip() for part in (lines if lines[-1] or len(lines) == 1 else lines[:-1])]


class Framed:
    """A sample in a frame as wide as there is room: all of it, or the beginning that fits `height` lines."""

    def __init__(self, sample: str, title: str, height: int | None = None) -> None:
        self.sample = sample
        self.title = title
        self.height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        text = "\n".join(self.lines(width))
        yield Panel(
            Text(text, no_wrap=True),
            title=Text(self.title),
            title_align="left",
            box=box.ROUNDED,
            padding=(0, 1),
            width=width,
        )

    def lines(self, width: int) -> list[str]:
        """What stands in a frame of this width."""
        return list(_beginning(self.sample, max(width - EDGES, 1), self.height))


@lru_cache(maxsize=8)  # a screen is drawn many times between two samples
def _beginning(sample: str, width: int, height: int | None) -> tuple[str, ...]:
    text = harmless(sample, lines=True).rstrip("\n")
    if height is None:
        return tuple(wrap(text, width))
    # What cannot be seen anyway is not worth breaking into lines.
    lines = wrap(text[: (width + 1) * (height + 1)], width)
    if len(lines) > height:
        lines = lines[:height]
        lines[-1] = f"{lines[-1]} …" if cell_len(lines[-1]) + 2 <= width else f"{set_cell_size(lines[-1], width - 2)} …"
    return tuple(lines)


def indented(sample: str) -> str:
    """The sample's lines, each four spaces in; long ones stay long."""
    lines = harmless(sample, lines=True).rstrip("\n").split("\n")
    return "\n".join((INDENT + line).rstrip() for line in lines)
