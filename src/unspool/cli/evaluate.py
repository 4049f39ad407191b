"""unspool evaluate: the metrics of a trained model on data."""

from __future__ import annotations

import json as json_
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.opening import Opened, open_run
from unspool.cli.terminal import console
from unspool.storage.documents import finite
from unspool.tasks.contract import Task
from unspool.tasks.divergence import refuse_nonfinite
from unspool.tasks.metrics import spell_metric


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Files. Default: the run's own data.")
    ] = None,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Also with the model's matrices rounded to 8 bits, and what that changes."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print the metrics of a trained model on data: loss and perplexity, accuracy, F1, errors, as its task has them.

    **Examples**

    - `unspool evaluate runs/book`: on the run's own validation and test data
    - `unspool evaluate runs/book other.txt`
    - `unspool evaluate runs/intents new.csv --json`
    - `unspool evaluate runs/book --int8`: what rounding the model to 8 bits changes
    """
    opened = open_run(run, play=int8)  # int8 is compared with what is computed in the same way
    own = None if files else opened.own_data()
    found = measure(opened, files or [], own)
    rounded = measure(open_run(run, int8=True), files or [], own) if int8 else {}
    for name, metrics in found.items():
        if metrics:
            _print(name, metrics, json)
        if metrics and int8:
            _print_rounded(name, metrics, rounded[name], json)


def measure(opened: Opened, files: Sequence[str], own: Task | None) -> dict[str, dict[str, float]]:
    """Metrics by the data that they are of: files, or the parts of the run's own data; {} where it has no such part."""
    if own is None:
        return {", ".join(files): _measure(opened, lambda: opened.task.evaluate_files(opened.model, files))}
    return {part: _measure(opened, partial(own.evaluate, opened.model, part)) for part in ("validation", "test")}


def _measure(opened: Opened, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Metrics; that of a model that has diverged is an error."""

    def measure() -> dict[str, float]:
        metrics = evaluate()
        refuse_nonfinite("data's", metrics)
        return metrics

    return opened.use(measure)


def _print(name: str, metrics: Mapping[str, float], json: bool) -> None:
    if json:
        print(json_.dumps(finite({"data": name, **metrics})))
    else:
        words = " · ".join(f"{key} {spell_metric(value)}" for key, value in metrics.items())
        console().print(f"{name}: {words}", soft_wrap=True)


def _print_rounded(name: str, before: Mapping[str, float], after: Mapping[str, float], json: bool) -> None:
    """Print metrics with 8 bits, and by how much of itself the loss has changed."""
    change = relative_change(before.get("loss"), after.get("loss"))
    if json:
        print(json_.dumps(finite({"data": name, "int8": True, **after, "loss_change": change})))
        return
    _print(f"{name}, int8", after, json)
    if change is not None:
        console().print(f"{name}, int8: the loss changes by {100 * change:+.2g} %", soft_wrap=True)


def relative_change(before: float | None, after: float | None) -> float | None:
    """By what fraction of itself a number changes; None where it is not there, or 0."""
    return None if after is None or not before else (after - before) / before
