"""unspool train: from a file to a trained model, in a run folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.options import TASK_HELP, Many, config_option, flag, recipe_option, takes_settings
from unspool.cli.processes import Together, watch_starter
from unspool.cli.rehearsal import rehearse, suggest_lr
from unspool.cli.views import choose_view
from unspool.cli.xray_training import TrainingXray
from unspool.errors import ArgumentError, OthersFailedError
from unspool.language import LANGUAGES
from unspool.learning.events import Listener
from unspool.learning.ranks import Ranks, can_restart, joined
from unspool.learning.run_folder import check_free
from unspool.runs.config import Config
from unspool.runs.load import is_run
from unspool.runs.names import choose_folder
from unspool.runs.train import Trained, plan, resume_settings
from unspool.runs.train import train as run_training

RUN = "Run"


@takes_settings()
def train(
    files: Annotated[
        Many,
        typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns. With --resume, also a run."),
    ] = None,
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/NAME.", rich_help_panel=RUN)] = None,
    resume: Annotated[bool, flag("--resume", "Resume the run, or start it if there is none.", RUN)] = False,
    overwrite: Annotated[bool, flag("--overwrite", "Replace a run that exists.", RUN)] = False,
    recipe: Annotated[str | None, recipe_option(RUN)] = None,
    config: Annotated[Path | None, config_option(RUN)] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Check the settings, measure speed, and exit.", RUN)] = False,
    lr_find: Annotated[bool, flag("--lr-find", "Try learning rates, suggest one, and exit.", RUN)] = False,
    nproc: Annotated[int, typer.Option(min=1, help="Processes that train together.", rich_help_panel=RUN)] = 1,
    tensorboard: Annotated[bool, flag("--tensorboard", "Also log for TensorBoard.", RUN)] = False,
    xray: Annotated[bool, flag("--xray", "Write an X-ray of the model at the end: xray.html.", RUN)] = False,
    xray_every: Annotated[
        int | None,
        typer.Option(min=1, help="Also every so many evaluations, as a timeline.", rich_help_panel=RUN),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(help=f"Of X-rays: {' or '.join(LANGUAGES)}. Default: that of the locale.", rich_help_panel=RUN),
    ] = None,
    json: Annotated[bool, flag("--json", "Print one JSON object per line.", RUN)] = False,
    quiet: Annotated[bool, flag("--quiet", "Print nothing.", RUN)] = False,
    settings: Mapping[str, Any] = {},
) -> None:
    """Train a model on text, labelled text, tags, numbers, series or pairs of texts, and keep it in a run folder.

    Settings come from the recipe, then from the config file, then from these options. Ctrl-C saves and exits.

    **Examples**

    - `unspool train book.txt`: a character model, ten epochs, in runs/book
    - `unspool train book.txt --minutes 5 --hidden 384`: the best model that five minutes give
    - `unspool train 'books/*.txt' --tokenizer bpe --vocab-size 8000 --layers 2 --dropout 0.2`
    - `unspool train train.txt --validation valid.txt --test test.txt --recipe zaremba-small`
    - `unspool train names.txt --split lines --epochs 20`: each line is an example
    - `unspool train intents.csv --text-column text --label-column intent --baselines`
    - `unspool train train.conll --validation valid.conll --test test.conll`: one word and its tag per line
    - `unspool train esol.csv --task regress --text-column smiles --target solubility`
    - `unspool train co2.csv --time-column month --target co2 --horizon 12`: a forecast with quantiles
    - `unspool train pairs.tsv`: text to text
    - `unspool train book.txt --xray-every 2`: see inside the model as it learns
    - `unspool train book.txt --resume`: resume runs/book where it stopped
    - `unspool train runs/book --resume --epochs 20`: train longer, even after the run has ended
    - `unspool train book.txt --dry-run --config mine.toml`: is everything valid, and how long will it take?
    - `unspool train book.txt --nproc 2` or `torchrun -m unspool train book.txt`: several processes
    - `torchrun --max-restarts 3 -m unspool train book.txt --resume`: they go on from the last checkpoint if one dies
    """
    given = {"task": task, "recipe": recipe, "config": config, **settings}
    if resume:
        files, out = find_resumed(files, out, config)
        _refuse_with_resume(dry_run or lr_find)
    elif not files and config is None:
        raise ArgumentError.of("FILE", files, "is missing", "Give text or a table: unspool train book.txt")
    if nproc > 1 and "WORLD_SIZE" not in os.environ:
        raise typer.Exit(start_processes(nproc, check_settings(files, out, resume, overwrite, given)))
    with one_of_several() as ranks:
        _check_count(nproc, ranks, resume)
        if dry_run or lr_find:
            with ranks.in_turn():
                checked = check_settings(files, out, resume, overwrite, given)
            rehearse(checked) if dry_run else suggest_lr(checked)
            return
        if out is None:
            out = Path(ranks.broadcast_text(str(choose_folder(files, overwrite))))
        look = TrainingXray(xray, xray_every, lang)
        run: dict[str, Any] = {"source": files, "out": out, "resume": resume, "overwrite": overwrite}
        trained = follow(**run, watch=look.watch, options=given, json=json, quiet=quiet, tensorboard=tensorboard)
        finish(trained)
        if ranks.first:
            look.finish(out, json or quiet)


def _check_count(nproc: int, ranks: Ranks, resume: bool) -> None:
    if ranks.first and nproc not in (1, ranks.count):
        raise ArgumentError.of("nproc", nproc, f"is not torchrun's {ranks.count}", "Leave it out")
    if ranks.first and not resume and can_restart():
        problem = "is missing, and torchrun may start the processes again, which would find the folder taken"
        raise ArgumentError.of("resume", resume, problem, "Give it, as it also starts a new run, or no --max-restarts")


def _refuse_with_resume(asked: bool) -> None:
    if asked:
        problem = "resumes a run, and dry runs and learning-rate searches start from scratch"
        raise ArgumentError.of("resume", True, problem, "Leave one out")


def find_resumed(files: Many, out: Path | None, config: Path | None) -> tuple[Many, Path]:
    """The data, if any, and the folder of the run to resume: the one given, or the one named after the data."""
    if not files and out is None and config is None:
        raise ArgumentError.of("FILE", files, "is missing", "Give the run folder, or the data it was started with")
    paths = [Path(file) for file in files or ()]
    named = next(filter(_names_run, paths), None)
    if named is None:
        return files, out or choose_folder(files, existing=True)
    if len(paths) > 1 or out is not None:
        raise ArgumentError.of("FILE", files, "is more than one run", "Give one run folder")
    return None, named


def _names_run(path: Path) -> bool:
    """Whether a file that was given is a run, or a place in runs/ where there is none yet."""
    return is_run(path) or (path.parts[:1] == ("runs",) and not path.exists())


def check_settings(files: Many, out: Path | None, resume: bool, overwrite: bool, given: Mapping[str, Any]) -> Config:
    """The settings of a run, checked before anything is started."""
    if resume and out is not None and is_run(out):
        return resume_settings(out, files, **given)[0]
    if out is not None:
        check_free(out, overwrite)
    return plan(files, **given)


def follow(
    *,
    json: bool,
    quiet: bool,
    tensorboard: bool = False,
    options: Mapping[str, Any] | None = None,
    source: Any = None,
    **given: Any,
) -> Trained:
    """Train, and show progress."""
    first = Ranks().first
    with choose_view(json=json and first, quiet=quiet or not first) as view:
        tell: Listener = view
        if tensorboard and first:
            from unspool.cli.tensorboard import TensorBoard

            tell = TensorBoard(view)
        return run_training(source, tell=tell, **given, **(options or {}))


def finish(trained: Trained) -> None:
    """Exit as the run ended."""
    if trained.finished.reason == "interrupted":
        raise typer.Exit(130)


def start_processes(count: int, settings: Config) -> int:
    """Run the same command in several processes; returns its exit code."""
    batch_size = settings.training.batch_size
    if batch_size % count:
        problem = f"does not divide among {count} processes"
        raise ArgumentError.of("batch_size", batch_size, problem, "Give a multiple")
    if not any(word.startswith("--nproc") for word in sys.argv):
        raise ArgumentError.of("nproc", count, "starts the command line again", "Give it there, or use torchrun")
    return Together([sys.executable, *sys.orig_argv[1:]], count).run()


@contextmanager
def one_of_several() -> Iterator[Ranks]:
    """This process among those that train together; if they fail, only the first of them reports it."""
    watch_starter()
    try:
        with joined() as ranks:
            yield ranks
    except OthersFailedError:
        if os.environ.get("RANK", "0") == "0":
            raise
        raise typer.Exit(1) from None
