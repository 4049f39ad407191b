"""unspool train: from a file to a trained model, in a run's folder."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli import options as of_data
from unspool.cli.look import Look
from unspool.cli.options import DATA, Many
from unspool.cli.processes import Together, watch_starter
from unspool.cli.terminal import console
from unspool.cli.views import choose_view
from unspool.errors import ArgumentError, OthersFailedError
from unspool.learning.events import Listener
from unspool.learning.ranks import Ranks, joined
from unspool.learning.run import check_free, check_run
from unspool.tasks.config import Config, read_config
from unspool.tasks.recipes import RECIPES
from unspool.tasks.train import Trained, describe, make_loop, plan
from unspool.tasks.train import train as run_training

MODEL, TRAINING, RUN = "Model", "Training", "Run"
WHOLE = re.compile(r"[-+]?[0-9]+")
#: What has an option of its own, and is no setting.
NO_SETTINGS = {"source", "files", "out", "resume", "force", "tell", "watch", "task", "recipe", "config"}


def train(
    files: Annotated[
        Many, typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns; with --resume a run.")
    ] = None,
    task: of_data.Task = None,
    tokens: of_data.Tokens = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Keep so many tokens, the most frequent.", rich_help_panel=DATA)
    ] = None,
    split: of_data.Split = None,
    text_column: of_data.TextColumn = None,
    label_column: of_data.LabelColumn = None,
    target: of_data.Target = None,
    id_column: of_data.IdColumn = None,
    time_column: of_data.TimeColumn = None,
    horizon: of_data.Horizon = None,
    look_back: Annotated[
        int | None, typer.Option(help="Steps that a forecast looks back on.", rich_help_panel=DATA)
    ] = None,
    validation: Annotated[
        Many, typer.Option(help="A share such as 0.1, or files. Repeat for more files.", rich_help_panel=DATA)
    ] = None,
    test: Annotated[Many, typer.Option(help="A share, or files, to test on at the end.", rich_help_panel=DATA)] = None,
    cell: Annotated[
        str | None, typer.Option(help="lstm, gru, elman, …; a name that is not known lists all.", rich_help_panel=MODEL)
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Units of a layer.", rich_help_panel=MODEL)] = None,
    layers: Annotated[int | None, typer.Option(help="Layers on top of each other.", rich_help_panel=MODEL)] = None,
    embedding: Annotated[int | None, typer.Option(help="Width of a token's vector.", rich_help_panel=MODEL)] = None,
    tie: Annotated[
        bool | None, typer.Option("--tie", help="Read out by the embedding's matrix.", rich_help_panel=MODEL)
    ] = None,
    dropout: Annotated[
        str | None, typer.Option(help="Between layers, before and after them; or auto.", rich_help_panel=MODEL)
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="A sequence as one: attention, mean, max, last.", rich_help_panel=MODEL)
    ] = None,
    one_way: Annotated[
        bool | None,
        typer.Option(
            "--one-way/--both-ways", help="Read from the beginning, or from both ends.", rich_help_panel=MODEL
        ),
    ] = None,
    crf: Annotated[bool | None, typer.Option(help="Tags are chosen together (tag).", rich_help_panel=MODEL)] = None,
    initial: Annotated[
        str | None, typer.Option(help="Weights within ± this at first; or orthogonal.", rich_help_panel=MODEL)
    ] = None,
    forget_bias: Annotated[
        float | None, typer.Option(help="Of gates that keep the state, at first.", rich_help_panel=MODEL)
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="kernel: ours; torch: torch.nn's layers.", rich_help_panel=MODEL)
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Read the data so often.", rich_help_panel=TRAINING)] = None,
    steps: Annotated[int | None, typer.Option(help="Or: make so many updates.", rich_help_panel=TRAINING)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Or: train so long; the rate follows the clock.", rich_help_panel=TRAINING)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Rows read side by side.", rich_help_panel=TRAINING)] = None,
    window: Annotated[
        str | None, typer.Option(help="Steps that gradients go back, or all.", rich_help_panel=TRAINING)
    ] = None,
    optimiser: Annotated[str | None, typer.Option(help="adamw, adam or sgd.", rich_help_panel=TRAINING)] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate.", rich_help_panel=TRAINING)] = None,
    schedule: Annotated[
        str | None, typer.Option(help="constant, linear, cosine, epoch or plateau.", rich_help_panel=TRAINING)
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Updates over which the rate rises.", rich_help_panel=TRAINING)
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a gradient.", rich_help_panel=TRAINING)] = None,
    average: Annotated[
        str | None, typer.Option(help="Keep a mean of the weights: exponential or tail.", rich_help_panel=TRAINING)
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many evaluations without progress.", rich_help_panel=TRAINING)
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Updates between evaluations.", rich_help_panel=TRAINING)
    ] = None,
    learn: Annotated[str | None, typer.Option(help="bptt or predictive-coding.", rich_help_panel=TRAINING)] = None,
    baselines: Annotated[
        bool | None, typer.Option("--baselines", help="Train models without memory too.", rich_help_panel=TRAINING)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, dropout and chance.", rich_help_panel=TRAINING)] = None,
    set_: Annotated[
        Many,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting: --set zoneout=0.1. Repeat for more.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    find_rate: Annotated[
        bool, typer.Option("--find-rate", help="Try learning rates, and suggest one.", rich_help_panel=TRAINING)
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; runs/NAME if not said.", rich_help_panel=RUN)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run.", rich_help_panel=RUN)] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Begin anew in a run's folder that exists.", rich_help_panel=RUN)
    ] = False,
    recipe: Annotated[str | None, typer.Option(help=f"{', '.join(RECIPES)}.", rich_help_panel=RUN)] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="TOML", help="Settings from a file.", rich_help_panel=RUN)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show the plan, measure, and stop.", rich_help_panel=RUN)
    ] = False,
    nproc: Annotated[int, typer.Option(min=1, help="Processes that train together.", rich_help_panel=RUN)] = 1,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write for TensorBoard too.", rich_help_panel=RUN)
    ] = False,
    xray: Annotated[
        bool, typer.Option("--xray", help="Look inside the model at the end: xray.html.", rich_help_panel=RUN)
    ] = False,
    xray_every: Annotated[
        int | None, typer.Option(min=1, help="And at every so many evaluations: film.html.", rich_help_panel=RUN)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.", rich_help_panel=RUN)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing.", rich_help_panel=RUN)] = False,
) -> None:
    """Train a model on text, labelled text, tags, measurements, series or pairs, and keep it in a run's folder.

    Settings come from the recipe, then from the config file, then from these options. Ctrl-C saves and leaves.

    **Examples**

    - `unspool train book.txt`: a character model, ten epochs, into runs/book
    - `unspool train book.txt --minutes 5 --hidden 384`: the best that five minutes give
    - `unspool train 'books/*.txt' --tokens bpe --vocabulary 8000 --layers 2 --dropout 0.2`
    - `unspool train train.txt --validation valid.txt --test test.txt --recipe zaremba-small`
    - `unspool train names.txt --split lines --epochs 20`: each line by itself
    - `unspool train intents.csv --text-column text --label-column intent --baselines`
    - `unspool train train.conll --validation valid.conll --test test.conll`: a word and its tag a line
    - `unspool train esol.csv --task regress --text-column smiles --target solubility`
    - `unspool train co2.csv --time-column month --target co2 --horizon 12`: a forecast with quantiles
    - `unspool train pairs.tsv`: texts to texts
    - `unspool train book.txt --xray-every 2`: see inside it as it learns, and at the end
    - `unspool train runs/book --resume`: go on where it stopped
    - `unspool train runs/book --resume --epochs 20`: go on to a later end, when it is over too
    - `unspool train book.txt --dry-run --config mine.toml`: is all well, and how long will it take?
    - `unspool train book.txt --nproc 2` or `torchrun -m unspool train book.txt`: several processes
    """
    options: dict[str, Any] = {
        **{
            "tokens": tokens,
            "vocabulary": vocabulary,
            "split": split,
            "text_column": text_column,
            "label_column": label_column,
            "targets": target,
            "id_column": id_column,
            "time_column": time_column,
            "horizon": horizon,
            "look_back": look_back,
            "validation": share(validation),
            "test": share(test),
        },
        **{"cell": cell, "hidden": hidden, "layers": layers, "embedding": embedding, "tie": tie},
        **{"bidirectional": None if one_way is None else not one_way, "crf": crf},
        **{"dropout": number(dropout), "pooling": pooling},
        **{"initial": number(initial), "forget_bias": forget_bias},
        **{
            "engine": engine,
            "learn": learn,
            "baselines": baselines,
            "epochs": epochs,
            "steps": steps,
            "minutes": minutes,
            "batch": batch,
        },
        **{"window": number(window)},
        **{"optimiser": optimiser, "rate": rate, "schedule": schedule, "warmup": warmup, "clip": clip},
        **{"average": average, "patience": patience, "evaluate_every": evaluate_every, "seed": seed},
        **others(set_ or ()),
    }
    given = {"task": task, "recipe": recipe, "config": config, **options}
    if resume:
        if len(files or ()) > 1 or (files and out is not None):
            raise ArgumentError.of("FILE", files, "is more than one run", "Give the run's folder alone")
        if out is None and not files:
            raise ArgumentError.of("FILE", files, "is missing", "Give the run's folder")
        if dry_run or find_rate:
            raise ArgumentError.of("resume", True, "goes on with a run, and nothing is tried out", "Leave one out")
        out, files = Path(files[0]) if files else out, None
    elif not files and config is None:
        raise ArgumentError.of("FILE", files, "is missing", "Give text or a table: unspool train book.txt")
    if nproc > 1 and "WORLD_SIZE" not in os.environ:
        settings = plan(files, **given) if not resume or out is None else read_config(check_run(out))
        if out is not None and not resume:
            check_free(out, force)
        raise typer.Exit(several(nproc, settings.training.batch))
    with among_others() as ranks:
        if ranks.first and nproc not in (1, ranks.count):
            raise ArgumentError.of("nproc", nproc, f"is not torchrun's {ranks.count}", "Leave it out")
        if dry_run or find_rate:
            with ranks.in_turn():
                settings = plan(files, **given)
                if out is not None:
                    check_free(out, force)
            rehearse(settings) if dry_run else suggest(settings)
            return
        if not resume:
            out = Path(ranks.tell_text(str(out or free_name(Path(files[0]).stem if files else "run"))))
        view = {"json": json, "quiet": quiet, "tensorboard": tensorboard}
        look = Look(xray, xray_every)
        run: dict[str, Any] = {"source": files, "out": out, "resume": resume, "force": force, "watch": look.watch}
        trained = follow(**run, options=given, **view)
        finish(trained)
        if ranks.first and out is not None:
            look.finish(out, json or quiet)


def follow(
    *,
    json: bool,
    quiet: bool,
    tensorboard: bool = False,
    options: dict[str, Any] | None = None,
    source: Any = None,
    **given: Any,
) -> Trained:
    """Train, and show it."""
    first = Ranks().first
    with choose_view(json=json and first, quiet=quiet or not first) as view:
        tell: Listener = view
        if tensorboard and first:
            from unspool.cli.tensorboard import TensorBoard

            tell = TensorBoard(view)
        return run_training(source, tell=tell, **given, **(options or {}))


def finish(trained: Trained) -> None:
    """Leave as the run ended."""
    if trained.finished.reason == "interrupted":
        raise typer.Exit(130)


def share(given: Many) -> float | list[str] | None:
    """A share of the text, or files."""
    if given and len(given) == 1:
        try:
            return float(given[0])
        except ValueError:
            pass
    return given or None


def number(given: str | None) -> float | str | None:
    """A number where it is one; else the word."""
    try:
        return given if given is None else int(given) if WHOLE.fullmatch(given) else float(given)
    except ValueError:
        return given


def others(given: Any) -> dict[str, Any]:
    """Settings that have no option of their own, NAME=VALUE as TOML has values."""
    import tomllib

    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        name = name.strip()
        if not equals or not name:
            problem = "has no name before its =" if equals else "has no ="
            raise ArgumentError.of("set", one, problem, "Give NAME=VALUE, such as --set zoneout=0.1")
        if name in NO_SETTINGS:
            raise ArgumentError.of("set", one, "is no setting", "Use the option of that name, or FILE")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:
            found[name] = value
    return found


def free_name(stem: str) -> Path:
    """A folder in runs/ that is not there yet."""
    stem = re.sub(r"[*?\[\]]", "", stem).strip(".- ") or "run"  # of a pattern, or of the folder "."
    numbers = ["", *(f"-{number}" for number in range(2, 10_000))]
    return next(path for number in numbers if not (path := Path("runs") / f"{stem}{number}").exists())


def several(count: int, batch: int) -> int:
    """The same command in so many processes; its exit code."""
    if batch % count:
        raise ArgumentError.of("batch", batch, f"does not divide among {count} processes", "Give a multiple")
    if not any(word.startswith("--nproc") for word in sys.argv):
        raise ArgumentError.of("nproc", count, "starts the command line again", "Give it there, or use torchrun")
    return Together([sys.executable, *sys.orig_argv[1:]], count).run()


@contextmanager
def among_others() -> Iterator[Ranks]:
    """This process among those that train together; if they fail, the first of them says it."""
    watch_starter()
    try:
        with joined() as ranks:
            yield ranks
    except OthersFailedError:
        if os.environ.get("RANK", "0") == "0":
            raise
        raise typer.Exit(1) from None


def rehearse(settings: Config) -> None:
    """Show the plan; make some updates, to say how long it takes and how much memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Ranks().in_turn():
        loop = make_loop(settings)
    seconds = loop.rehearse(1.0)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if settings.training.minutes is not None:
        steps = int(60 * settings.training.minutes / seconds)
        time = f"{settings.training.minutes:g} min, about {steps:,} updates or {steps / loop.updates:.1f} epochs"
    else:
        assert loop.steps is not None
        time = f"about {loop.steps * seconds / 60:.1f} min for {loop.steps:,} updates, without evaluations"
    units = settings.training.batch * (settings.training.window if isinstance(settings.training.window, int) else 1)
    shown = {
        **loop.task.describe(),
        **describe(settings, loop),
        "parameters": f"{sum(parameter.numel() for parameter in loop.parameters):,}",
        "memory": f"about {memory:,.0f} MB for training",
        "time": time,
        "speed": f"{units / seconds:,.0f} {loop.task.unit}/s, measured",
    }
    if not loop.ranks.first:
        return
    for name, value in shown.items():
        console().print(f"{name:<12} {value}", soft_wrap=True)
    console().print("All is well. Run it without --dry-run.")


def suggest(settings: Config) -> None:
    """Try learning rates on the real model and data."""
    from unspool.learning.finder import find_rate

    with Ranks().in_turn():
        loop = make_loop(settings)
    if loop.ranks.first:
        console(error=True).print("trying a hundred rates, one update each")
    found = find_rate(loop.try_rate)
    if not loop.ranks.first:
        return
    for rate, loss in list(zip(found.rates, found.losses, strict=True))[:: max(1, len(found.rates) // 20)]:
        console().print(f"{rate:10.2e}   loss {loss:.3f}")
    console().print(f"Suggested: --rate {found.suggestion:.1e}")
