"""unspool plan: how long a memory the data asks for, and how to train for it."""

from __future__ import annotations

import json as json_
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from unspool.cli.curve import chart
from unspool.cli.options import takes_settings
from unspool.cli.spelling import as_options
from unspool.cli.terminal import console
from unspool.cli.train import TASK_HELP
from unspool.data.units import count_units
from unspool.learning.events import finite

#: Lines and columns of the curve.
HEIGHT, WIDTH = 8, 76


@takes_settings(("data",))
def plan(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns.")],
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    lags: Annotated[int | None, typer.Option(min=1, help="The longest distance between steps to look at.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    settings: Mapping[str, Any] = {},
) -> None:
    """Estimate, before any training, how long a memory the data needs; propose cell, depth, window and initial weights.

    The data is read as `unspool train` reads it. Of text the mutual information between tokens is measured, of numbers
    the autocorrelation, against the distance between two steps and against what shuffled data shows. What a whole
    sequence tells of its label or its target is not measured: there, the memory is at least the longest sequence.

    **Examples**

    - `unspool plan book.txt`
    - `unspool plan co2.csv --time-column month --target co2`
    - `unspool plan intents.csv --json`: for another program
    - `unspool plan book.txt --set cell=elman`: what is said already is not proposed
    """
    from unspool.insight.plan import plan as advise

    found = advise(files, task=task, limit=lags, **settings)
    if json:
        print(json_.dumps(finite(as_document(found)), indent=2, ensure_ascii=False))
        return
    show(found, console())


def as_document(found: Any) -> dict[str, Any]:
    """The plan, for JSON."""
    dependence = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(found.dependence).items()
    }
    proposals = [one._asdict() for one in found.proposals]
    return {**vars(found), "dependence": dependence, "proposals": proposals, "command": command(found)}


def command(found: Any) -> str:
    """`unspool train …` with the settings of a plan, to be copied into a shell."""
    return shlex.join(["unspool", "train", *found.source, *as_options(found.settings)])


def show(found: Any, out: Console) -> None:
    """The plan, for people."""
    columns = os.environ.get("COLUMNS", "")
    said = columns.isdecimal() and int(columns) > 0
    if said:  # a pipe has a width only if it is told one
        out.width = int(columns)
    guessed = f", guessed: {found.guessed}" if found.guessed else ""
    many = "one sequence" if found.sequences == 1 else f"{found.sequences:,} sequences"
    lines = [
        Text(f"{'task':<10}{found.task}{guessed}"),
        Text(f"{'data':<10}{count_units(found.steps, found.unit)} in {many} to train on"),
        Text.assemble(f"{'memory':<10}", (count_units(found.memory, found.unit), "bold"), f". {found.reason}"),
    ]
    for line in lines:
        out.print(line, soft_wrap=not said)
    if _has_dependence(found.dependence):
        out.print()
        draw(found.dependence, out)
    out.print()
    for one in found.proposals:
        out.print(Text.assemble((f"{one.setting} = {one.value}", "bold"), f": {one.reason}"), soft_wrap=not said)
    out.print()
    out.print(command(found), style="green", soft_wrap=True)


def _has_dependence(dependence: Any) -> bool:
    return len(dependence.lags) > 1 and bool(dependence.shares.any() or dependence.noise.any())


def draw(dependence: Any, out: Console) -> None:
    """The share by lag, as a curve."""
    out.print(f"{dependence.measure}, as a fraction of the most that it could be, by lag", style="dim")
    # short lags matter most: the scale is logarithmic
    places = np.geomspace(1, dependence.lags[-1], 2 * WIDTH)
    curve = np.interp(places, dependence.lags, dependence.shares)
    marks = []
    if dependence.memory:
        share = float(np.interp(dependence.memory, dependence.lags, dependence.shares))
        marks = [(float(np.log(dependence.memory) / np.log(dependence.lags[-1])), share)]
    noise = float(dependence.noise.min())
    # noise is often less than the three decimals of a chart's names show
    short, exact = f"noise {noise:.3f}", f"noise {noise:#.2g}".removesuffix(".")
    width = min(WIDTH, out.width) - max(len(exact) - len(short), 0)
    for line in chart([float(one) for one in curve], marks, {"noise": noise}, width, HEIGHT):
        out.print(line.replace(short, exact).rstrip(), no_wrap=True)
    mark = "; ● is the memory that is measured" if marks else ""
    out.print(f"lag 1 … {dependence.lags[-1]:,}, on a logarithmic scale{mark}", style="dim")
