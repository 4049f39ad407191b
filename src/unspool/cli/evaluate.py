"""unspool evaluate: how good a trained model is on data."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.terminal import console
from unspool.errors import DataError
from unspool.learning.contract import Task
from unspool.learning.events import finite
from unspool.learning.run import RunFolder
from unspool.tasks.config import Config
from unspool.tasks.load import load_run


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `unspool train` made.")],
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Files; else the run's own data.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """The figures of a trained model on data: loss and perplexity, accuracy, F1, errors, whatever its task has.

    **Examples**

    - `unspool evaluate runs/book`: on the run's own validation and test data
    - `unspool evaluate runs/book other.txt`
    - `unspool evaluate runs/intents new.csv --json`
    """
    config, task, learner = load_run(run)
    if files:
        found = {", ".join(files): task.evaluate_files(learner, files)}
    else:
        task = own_data(run, config)
        found = {part: task.evaluate(learner, part) for part in ("validation", "test")}
    for name, figures in found.items():
        if figures and json:
            print(json_.dumps(finite({"data": name, **figures})))
        elif figures:
            words = " · ".join(f"{key} {value:.4f}" for key, value in figures.items())
            console().print(f"{name}: {words}", soft_wrap=True)


def own_data(run: Path, config: Config) -> Task:
    """What a run was trained on; it is refused if it is not there, or has changed since."""
    remedy = f"Bring it back, or name a file: unspool evaluate {run} FILE."
    try:
        task = config.task.prepare(config.data, config.training.seed)
    except DataError as error:
        raise DataError(f"the run's own data cannot be read: {error} {remedy}") from error
    checkpoint = RunFolder(run).read_checkpoint()
    if checkpoint is not None and checkpoint.facts["data"] != task.digest:
        raise DataError(f"the run's own data has changed since it was trained on. {remedy}")
    return task
