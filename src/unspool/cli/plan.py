"""unspool plan: how long a memory the data asks for, and how to train for it."""

from __future__ import annotations

import json as json_
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from unspool.cli.curve import chart
from unspool.cli.options import TASK_HELP, takes_settings
from unspool.cli.spelling import as_options
from unspool.cli.terminal import console
from unspool.data.units import count_units
from unspool.storage.documents import finite

#: Lines and columns of the curve, and rows of the table.
HEIGHT, WIDTH, ROWS = 8, 76, 10
#: What a table calls the predictors.
WAYS = {
    "nothing": "no context",
    "counts": "counts of contexts",
    "lag": "single steps back",
    "place": "the place in its sequence",
    "probe": "a recurrent network",
    "linear": "a linear regression",
    "season": "the season",
}


@takes_settings(("data",))
def plan(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns.")],
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    lags: Annotated[int | None, typer.Option(min=1, help="The longest distance between steps to look at.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    settings: Mapping[str, Any] = {},
) -> None:
    """Estimate, before any training, how long a memory the data needs; propose cell, depth, window and initial weights.

    The data is read as `unspool train` reads it. The memory is the fewest last steps that predict the next one about as
    well as any number of them, on held-out data: of text by counts of contexts, by single steps further back and by a
    small recurrent network, of numbers by partial autocorrelation and season. 0 is none. What a whole sequence tells of
    its label or its target is not measured: there, the memory is at least the longest sequence.

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
    pictured = {"dependence": dependence, "context": asdict(found.context)}
    return {**vars(found), **pictured, "proposals": proposals, "command": command(found)}


def command(found: Any) -> str:
    """`unspool train …` with the settings of a plan, to be copied into a shell."""
    return shlex.join(["unspool", "train", *found.source, *as_options(found.settings)])


def show(found: Any, out: Console) -> None:
    """The plan, for people."""
    from unspool.insight.memory_words import name_memory

    columns = os.environ.get("COLUMNS", "")
    said = columns.isdecimal() and int(columns) > 0
    if said:  # a pipe has a width only if it is told one
        out.width = int(columns)
    guessed = f", guessed: {found.guessed}" if found.guessed else ""
    many = "one sequence" if found.sequences == 1 else f"{found.sequences:,} sequences"
    lines = [
        Text(f"{'task':<10}{found.task}{guessed}"),
        Text(f"{'data':<10}{count_units(found.steps, found.unit)} in {many} to train on"),
        Text.assemble(
            f"{'memory':<10}", (name_memory(found.memory, found.context, found.unit), "bold"), f". {found.reason}"
        ),
    ]
    for line in lines:
        out.print(line, soft_wrap=not said)
    if found.context.memory:
        out.print()
        tabulate(found, out, not said)
    if _has_dependence(found.dependence):
        out.print()
        draw(found.dependence, out, found.context.memory)
    out.print()
    for one in found.proposals:
        out.print(Text.assemble((f"{one.setting} = {one.value}", "bold"), f": {one.reason}"), soft_wrap=not said)
    out.print(Text.assemble(("machines", "bold"), f": {found.machines}"), soft_wrap=not said)
    out.print()
    out.print(command(found), style="green", soft_wrap=True)


def tabulate(found: Any, out: Console, soft_wrap: bool) -> None:
    """How well a step is predicted from so many before it, as a table."""
    context, numbers = found.context, found.dependence.measure == "autocorrelation"
    left = "variance" if numbers else "nats"
    title = f"what is left to predict, from the last so many {found.unit}"
    head = f"{'last':>6}  {left:>8}  {'gain':>5}  predicted by"
    for line in (title, head):
        out.print(Text(line, style="dim"), soft_wrap=soft_wrap)
    for place in choose_rows(context.steps, context.memory):
        steps, loss = context.steps[place], context.losses[place]
        shown = math.exp(2 * loss) if numbers else loss
        share, mark = f"{100 * context.share(place):.0f} %", " ← memory" if steps == context.memory else ""
        row = f"{steps:>6,}  {shown:>8.3g}  {share:>5}  {WAYS[context.by[place]]}{mark}"
        out.print(Text(row), soft_wrap=soft_wrap)


def choose_rows(steps: Sequence[int], memory: int, most: int = ROWS) -> list[int]:
    """The places of the rows of a table: the first ones, the memory, and some of the others.

    Example:
        >>> choose_rows((0, 1, 2, 3, 4), memory=3, most=3)
        [0, 3, 4]
    """
    if len(steps) <= most:
        return list(range(len(steps)))
    spread = np.unique(np.geomspace(1, len(steps), most - 1).round().astype(int) - 1)
    own = steps.index(memory)
    nearest = int(np.abs(spread[1:-1] - own).argmin()) + 1 if len(spread) > 2 else 0
    rows = {*map(int, spread)} - ({int(spread[nearest])} if nearest else set())
    return sorted({*rows, own})


def _has_dependence(dependence: Any) -> bool:
    return len(dependence.lags) > 1 and bool(dependence.shares.any() or dependence.noise.any())


def draw(dependence: Any, out: Console, memory: int = 0) -> None:
    """The share by lag, as a curve, with the memory marked."""
    title = f"{dependence.measure} of pairs of steps, as a fraction of the most that it could be, by lag"
    out.print(Text(title, style="dim"))
    # short lags matter most: the scale is logarithmic
    places = np.geomspace(1, dependence.lags[-1], 2 * WIDTH)
    curve = np.interp(places, dependence.lags, dependence.shares)
    marks = []
    if 0 < memory <= dependence.lags[-1]:
        share = float(np.interp(memory, dependence.lags, dependence.shares))
        marks = [(float(np.log(memory) / np.log(dependence.lags[-1])), share)]
    noise = float(dependence.noise.min())
    # noise is often less than the three decimals of a chart's names show
    short, exact = f"noise {noise:.3f}", f"noise {noise:#.2g}".removesuffix(".")
    width = min(WIDTH, out.width) - max(len(exact) - len(short), 0)
    for line in chart([float(one) for one in curve], marks, {"noise": noise}, width, HEIGHT):
        out.print(line.replace(short, exact).rstrip(), no_wrap=True)
    mark = "; ● is the memory that is measured" if marks else ""
    out.print(f"lag 1 … {dependence.lags[-1]:,}, on a logarithmic scale{mark}", style="dim")
