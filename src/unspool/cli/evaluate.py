"""unspool evaluate: the metrics of a trained model on data."""

from __future__ import annotations

import json as json_
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.terminal import console
from unspool.errors import DataError
from unspool.learning.contract import Learner
from unspool.learning.evaluation import refuse_nonfinite
from unspool.learning.events import finite
from unspool.learning.run_folder import RunFolder
from unspool.runs.card import spell_metric
from unspool.runs.config import Config
from unspool.runs.load import load_run, use
from unspool.tasks.contract import Task


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Files. Default: the run's own data.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print the metrics of a trained model on data: loss and perplexity, accuracy, F1, errors, as its task has them.

    **Examples**

    - `unspool evaluate runs/book`: on the run's own validation and test data
    - `unspool evaluate runs/book other.txt`
    - `unspool evaluate runs/intents new.csv --json`
    """
    config, task, learner = load_run(run)
    if files:
        found = {", ".join(files): _measure(run, learner, lambda: task.evaluate_files(learner, files))}
    else:
        own = own_data(run, config)
        parts = ("validation", "test")
        found = {part: _measure(run, learner, partial(own.evaluate, learner, part)) for part in parts}
    for name, metrics in found.items():
        if metrics:
            _print(name, metrics, json)


def _print(name: str, metrics: Mapping[str, float], json: bool) -> None:
    if json:
        print(json_.dumps(finite({"data": name, **metrics})))
    else:
        words = " · ".join(f"{key} {spell_metric(value)}" for key, value in metrics.items())
        console().print(f"{name}: {words}", soft_wrap=True)


def _measure(run: Path, learner: Learner, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Metrics; that of a model that has diverged is an error."""

    def measure() -> dict[str, float]:
        metrics = evaluate()
        refuse_nonfinite("data's", metrics)
        return metrics

    return use(run, learner, measure)


def own_data(run: Path, config: Config) -> Task:
    """The data a run was trained on; an error if it is missing or has changed."""
    remedy = f"Restore it, or name a file: unspool evaluate {run} FILE."
    try:
        task = config.task.prepare(config.data, config.training.seed)
    except DataError as error:
        raise DataError(f"the run's own data cannot be read: {error} {remedy}") from error
    checkpoint = RunFolder(run).read_checkpoint()
    if checkpoint is not None and checkpoint.facts["data"] != task.digest:
        raise DataError(f"the run's own data has changed since training. {remedy}")
    return task
