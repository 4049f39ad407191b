"""unspool lab check: a reader's own RNN, compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.text import Text

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.lab.exercise.check import check_file
from unspool.language import Translator


def check(words: Sequence[str], translate: Translator) -> None:
    """Print what is wrong with the reader's function and exit with 1, or that it is right.

    Args:
        words: the file.
        translate: to the reader's language.
    """
    if len(words) != 1:
        remedy = "Give the Python file with your function rnn(x, W, U, b, h0): `unspool lab check my_rnn.py`"
        raise ArgumentError.of("check", list(words), "is not one file", remedy)
    finding = check_file(Path(words[0]))
    mark, style = ("✔", "green") if finding.right else ("✖", "red")
    console().print(Text.assemble((f"{mark} ", style), f"{words[0]}: {translate(finding.text)}."), soft_wrap=True)
    if finding.remedy:
        console().print(f"  {translate(finding.remedy)}.", soft_wrap=True)
    if not finding.right:
        raise typer.Exit(1)
