"""Options that say how data is read: the same for every command that reads it as `unspool train` does."""

from __future__ import annotations

from typing import Annotated

import typer

Many = list[str] | None
DATA = "Data"

Task = Annotated[
    str | None, typer.Option(help="lm, classify, tag, regress, forecast, seq2seq; guessed, and said, if left out.")
]
Tokens = Annotated[
    str | None, typer.Option(help="characters, bytes, words, chinese-words, bpe or smiles.", rich_help_panel=DATA)
]
Split = Annotated[
    str | None,
    typer.Option(help="tail: validate on the text's end; lines: on lines drawn by chance.", rich_help_panel=DATA),
]
TextColumn = Annotated[str | None, typer.Option(help="Which column has texts.", rich_help_panel=DATA)]
LabelColumn = Annotated[str | None, typer.Option(help="Which has labels (classify).", rich_help_panel=DATA)]
Target = Annotated[Many, typer.Option(help="Which has numbers to foretell. Repeat for more.", rich_help_panel=DATA)]
IdColumn = Annotated[
    str | None, typer.Option(help="Rows are steps of the sequence of this name.", rich_help_panel=DATA)
]
TimeColumn = Annotated[str | None, typer.Option(help="Which has times.", rich_help_panel=DATA)]
Horizon = Annotated[int | None, typer.Option(help="Steps to foretell (forecast).", rich_help_panel=DATA)]
