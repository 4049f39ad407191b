"""unspool: the command and its subcommands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unspool import __version__
from unspool.cli.bench import bench
from unspool.cli.check import check
from unspool.cli.demo import demo
from unspool.cli.evaluate import evaluate
from unspool.cli.generate import generate
from unspool.cli.plan import plan
from unspool.cli.predict import predict
from unspool.cli.terminal import console
from unspool.cli.train import train
from unspool.cli.xray import xray
from unspool.errors import ArgumentError, UnspoolError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (plan, train, evaluate, predict, generate, xray, demo, bench, check):
    app.command()(command)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"unspool {__version__}")
        raise typer.Exit


@app.callback()
def unspool(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A recurrent-network workbench: write the recurrence once; train it fast, see inside it, run it anywhere."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and leave: 0 well, 1 it failed, 2 wrong usage, 130 interrupted."""
    try:
        app(None if arguments is None else list(arguments), prog_name="unspool")
    except SystemExit as left:
        # typer makes 130 of an interruption, without a word; of processes that train together the first has it
        interrupted = isinstance(getattr(left.__context__, "__cause__", None), KeyboardInterrupt)
        if interrupted and os.environ.get("RANK", "0") == "0":
            console(error=True).print("interrupted")
        raise
    except UnspoolError as error:
        console(error=True).print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(2 if isinstance(error, ArgumentError) else 1)
    except OSError as error:  # of the machine, and not of unspool: a trace would tell nobody anything
        console(error=True).print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(1)
