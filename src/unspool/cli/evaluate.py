"""unspool evaluate: how well a trained model foresees a text."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.terminal import console
from unspool.learning.run import check_run
from unspool.tasks.config import read_config
from unspool.tasks.speaker import Speaker


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `unspool train` made.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE…]", help="Text files; else the run's own data.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Loss, perplexity and bits per token of a language model on a text that is read once through.

    **Examples**

    - `unspool evaluate runs/book`: on the run's own validation and test data
    - `unspool evaluate runs/book other.txt`
    - `unspool evaluate runs/book other.txt --json`
    """
    speaker = Speaker.load(run)
    if files:
        found = {", ".join(files): speaker.evaluate(files)}
    else:
        config = read_config(check_run(run))
        task = config.task.prepare(config.data, config.training.seed)
        found = {part: task.evaluate(speaker.model, part) for part in ("validation", "test")}
    for name, figures in found.items():
        if figures and json:
            print(json_.dumps({"data": name, **figures}, ensure_ascii=False))
        elif figures:
            words = " · ".join(f"{key} {value:.4f}" for key, value in figures.items())
            console().print(f"{name}: {words}", soft_wrap=True)
