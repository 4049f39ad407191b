"""unspool bench: how fast, against whom."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.lab.bench import PEERS, QUESTIONS, Point, Report, Settings, run
from unspool.lab.bench.tables import render

QUICK = 3
Many = list[str] | None


def bench(
    only: Annotated[Many, typer.Option(help=f"Questions: {', '.join(QUESTIONS)}. Commas between several.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK} rounds: minutes, and rough.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Turns per contestant. Default: {Settings.rounds}.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each contestant.")] = 2,
    sizes: Annotated[Many, typer.Option(help="B,T,I,H in place of a question's own. Repeat for more.")] = None,
    cell: Annotated[Many, typer.Option(help="elman, gru or lstm. Repeat for more.")] = None,
    against: Annotated[Many, typer.Option(help=f"{', '.join(PEERS)}. Repeat for more.")] = None,
    compile: Annotated[  # noqa: A002 - the option's name
        bool, typer.Option("--compile", help="Let torch.compile try users' cells, a minute and more each.")
    ] = False,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every number; - is standard output.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with pictures.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on the way.")] = False,
) -> None:
    """Measure how fast unspool is on this machine, against torch.nn, JAX and ONNX Runtime.

    Contestants get the same weights and inputs, must agree in outputs and gradients, and are then timed in turns.
    Ratios are quotients of medians: above 1 unspool is faster. A training step is forward and backward of the output's
    sum, with gradients of all parameters and none of the input.

    **Examples**

    - `unspool bench --only grid --quick`: a first look, some minutes
    - `unspool bench --json results.json --html results.html`: everything, a quarter of an hour
    - `unspool bench --only grid --sizes 16,300,40,96 --cell lstm`: your own sizes: rows, steps, input, hidden
    - `unspool bench --only user --compile`: a user's cell, with torch.compile as a contestant
    - `unspool bench --only stream,export`: single steps from Python and in C, against ONNX Runtime and torch
    - `unspool bench --only overhead --against torch --json -`: JSON for another program
    """
    chosen = Settings()
    settings = Settings(
        threads=threads,
        rounds=rounds or (QUICK if quick else chosen.rounds),
        against=tuple(against or chosen.against),
        points=tuple(map(Point.parse, sizes or ())),
        cells=tuple(cell or chosen.cells),
        compile=compile,
    )
    _check_folders(json=json, html=html)
    progress = console(error=True)
    with nullcontext() if quiet else progress.status("starting") as status:
        report = run(_names(only), settings, partial(_say, progress, status))
    write(report, json, html)


def _names(given: Many) -> list[str]:
    """`["stream,export", "grid"]` as three names."""
    return [name.strip() for one in given or () for name in one.split(",")]


def _say(progress: Console, status: Status | None, text: str) -> None:
    """What happens, in the place of what happened before on a terminal; remarks always, and in lines of their own."""
    if text.startswith("!"):
        progress.print(text, style="yellow")
    elif status is not None and progress.is_terminal:
        status.update(text)
    elif status is not None:
        progress.print(text)


def _check_folders(**files: Path | None) -> None:
    for name, file in files.items():
        if file is not None and not file.absolute().parent.is_dir():
            raise ArgumentError.of(name, str(file), "is in a folder that does not exist", "Make the folder first")


def write(report: Report, json: Path | None, html: Path | None) -> None:
    """To the files, and to the terminal unless the JSON goes there."""
    if html is not None:
        from unspool.lab.bench.page import page  # plotly takes its time

        html.write_text(page(report), encoding="utf-8")
    if json is not None and str(json) != "-":
        json.write_text(report.to_json(), encoding="utf-8")
    if str(json) == "-":
        print(report.to_json(), end="")
    else:
        console().print(render(report))
