"""unspool: the command and its subcommands, each imported only when it runs or its own help is asked for."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from unspool import __version__
from unspool.errors import ArgumentError, DataWarning, MissingPackageError, UnspoolError
from unspool_command import ending_at_once

#: Command → its line in `unspool --help`. The command itself is the function of that name in `unspool.cli.<name>`.
COMMANDS: Mapping[str, str] = {
    "plan": "Estimate before training how long a memory the data needs.",
    "train": "Train a model on a file and keep it in a run folder.",
    "sweep": "Search for good settings: many runs on the same data; the best is kept.",
    "evaluate": "Compute the metrics of a trained model on data.",
    "predict": "Predict labels, tags, numbers, forecasts or texts.",
    "generate": "Generate text with a trained language model.",
    "serve": "Serve trained models over HTTP and WebSocket.",
    "export": "Write a trained model as C, WebAssembly, a page that runs it, or ONNX.",
    "import": "Read layers and models of torch, Keras and ONNX.",
    "xray": "Look inside a recurrent network: what it remembers, where gradients vanish, what to do.",
    "lab": "Re-run what is said about recurrent networks: each claim with its verdict.",
    "demo": "Train a small model on the Python language reference and look inside it.",
    "bench": "Measure speed on this machine against torch.nn, JAX and ONNX Runtime.",
    "check": "Show what unspool finds on this machine and whether its kernels are correct.",
}


def make_app(**options: Any) -> typer.Typer:
    """An app with the settings that every command shares."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False, **options)


class LazyGroup(TyperGroup):
    """Lists the commands without importing them; a command's module is imported when the command is resolved."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, imported; an unknown name is refused with a suggestion."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and import_command(str(name)), rest


def import_command(name: str) -> Any:
    """Import the module of a command; a Ctrl-C meanwhile, which takes seconds, ends the process at once.

    A package that the command needs, at once or while it runs, is named with the `pip install` that brings it.
    """
    wanted = f"unspool {name}"
    with ending_at_once(), MissingPackageError.explaining(wanted):
        place = f"{name}_" if iskeyword(name) else name
        function = getattr(import_module(f"unspool.cli.{place}"), place)
        command = import_module("unspool.cli.command").SettingsCommand
    alone = make_app()
    alone.command(name, cls=command)(MissingPackageError.explaining(wanted)(function))
    return typer.main.get_command(alone)


app = make_app(cls=LazyGroup, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


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
    """Run the command line and exit: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    try:
        with showing_warnings():
            app(None if arguments is None else list(arguments), prog_name="unspool")
    except SystemExit as left:
        # typer makes 130 of an interruption, without a word; of processes that train together the first has it
        interrupted = isinstance(getattr(left.__context__, "__cause__", None), KeyboardInterrupt)
        if interrupted and os.environ.get("RANK", "0") == "0":
            say("interrupted")
        if left.code == 0 and "WORLD_SIZE" in os.environ:
            _leave_group()
        raise
    except UnspoolError as error:
        say(f"error: {spelled(str(error))}", style="red", soft_wrap=True)
        sys.exit(2 if isinstance(error, ArgumentError) else 1)
    except OSError as error:  # of the machine, and not of unspool: a trace would tell nobody anything
        say(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(1)


def _leave_group() -> None:
    """End one of several processes that train together, at once: all is done and written.

    Threads of torch that still run while Python takes itself down are aborted, and the process with them.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextmanager
def showing_warnings() -> Iterator[None]:
    """Inside, what is said about data is printed once, as a line for people; other warnings stay what they are."""
    said: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        show = warnings.showwarning

        def show_once(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, DataWarning):
                show(message, category, *rest, **more)
            elif str(message) not in said and os.environ.get("RANK", "0") == "0":
                said.add(str(message))
                say(f"warning: {spelled(str(message))}", style="yellow", soft_wrap=True)

        warnings.showwarning = show_once
        yield


def say(text: str, **options: Any) -> None:
    """Print to standard error."""
    from unspool.cli.terminal import console  # rich is imported only where something is printed

    console(error=True).print(text, **options)


def spelled(text: str) -> str:
    """A message with the settings that it names as options."""
    from unspool.cli.spelling import spell

    return spell(text)
