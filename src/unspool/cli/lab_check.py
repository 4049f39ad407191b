"""unspool lab check: a reader's own RNN, compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.text import Text

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.lab.exercise.check import check_file
from unspool.language import Message, Translator
from unspool.language import words as in_words


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
    said = translate(Message("{file}: {text}.", file=words[0], text=as_message(finding.text)))
    console().print(Text.assemble((f"{mark} ", style), said), soft_wrap=True)
    if finding.remedy:
        remedy = translate(Message("{remedy}.", remedy=as_message(finding.remedy)))
        console().print(f"  {remedy}", soft_wrap=True)
    if not finding.right:
        raise typer.Exit(1)


def as_message(text: str) -> Message:
    """A text that is translated inside another; one that is a message keeps its values."""
    return text if isinstance(text, Message) else in_words(text)
