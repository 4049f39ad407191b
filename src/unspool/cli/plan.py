"""unspool plan: how long a memory the data asks for, and how to train for it."""

from __future__ import annotations

import json as json_
import os
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from unspool.cli import options as of_data
from unspool.cli.curve import chart
from unspool.cli.options import Many
from unspool.cli.terminal import console
from unspool.cli.train import others
from unspool.learning.events import finite

#: Lines and columns of the curve.
HEIGHT, WIDTH = 8, 76


def plan(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns.")],
    task: of_data.Task = None,
    lags: Annotated[int | None, typer.Option(min=1, help="The longest distance between steps to look at.")] = None,
    tokens: of_data.Tokens = None,
    split: of_data.Split = None,
    text_column: of_data.TextColumn = None,
    label_column: of_data.LabelColumn = None,
    target: of_data.Target = None,
    id_column: of_data.IdColumn = None,
    time_column: of_data.TimeColumn = None,
    horizon: of_data.Horizon = None,
    set_: Annotated[
        Many,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of unspool train. Repeat for more."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
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

    given: dict[str, Any] = {
        **{"tokens": tokens, "split": split, "text_column": text_column, "label_column": label_column},
        **{"targets": target, "id_column": id_column, "time_column": time_column, "horizon": horizon},
        **others(set_ or ()),
    }
    found = advise(files, task=task, limit=lags, **given)
    if json:
        document = asdict(found)
        document["dependence"] = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in document["dependence"].items()
        }
        print(json_.dumps(finite(document), indent=2, ensure_ascii=False))
        return
    show(found, console())


def show(found: Any, out: Console) -> None:
    """The plan, for people."""
    from unspool.insight.plan import several

    columns = os.environ.get("COLUMNS", "")
    said = columns.isdecimal() and int(columns) > 0
    if said:  # a pipe has a width only if it is told one
        out.width = int(columns)
    guessed = f", guessed: {found.why}" if found.why else ""
    many = "one sequence" if found.sequences == 1 else f"{found.sequences:,} sequences"
    lines = [
        Text(f"{'task':<10}{found.task}{guessed}"),
        Text(f"{'data':<10}{several(found.steps, found.unit)} in {many} to train on"),
        Text.assemble(f"{'memory':<10}", (several(found.memory, found.unit), "bold"), f". {found.reason}"),
    ]
    for line in lines:
        out.print(line, soft_wrap=not said)
    if len(found.dependence.lags) > 1 and (found.dependence.shares.any() or found.dependence.noise.any()):
        out.print()
        draw(found.dependence, out)
    out.print()
    for one in found.proposals:
        out.print(Text.assemble((f"{one.setting} = {one.value}", "bold"), f": {one.reason}"), soft_wrap=not said)
    out.print()
    out.print(found.command, style="green", soft_wrap=True)


def draw(dependence: Any, out: Console) -> None:
    """The share by lag, as a curve."""
    out.print(f"{dependence.measure}, as a share of what there is to tell, by lag", style="dim")
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
