"""unspool sweep: many runs on the same data, each with other settings; the best is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.options import TASK_HELP, Many, config_option, flag, recipe_option, takes_settings
from unspool.cli.sweep_view import choose_view
from unspool.cli.terminal import console
from unspool.settings.search import USUAL
from unspool.sweeps.plan import TRIALS
from unspool.sweeps.study import SAMPLERS
from unspool.sweeps.sweep import Swept
from unspool.sweeps.sweep import sweep as run_sweep

SWEEP = "Sweep"
SEARCH_HELP = (
    "Settings to search, with values if needed: lr,hidden=64..256,cell=lstm|gru. Default: " + ",".join(USUAL) + "."
)
DASK_HELP = "Compute on a Dask cluster: local:2, or the address of a scheduler, such as tcp://10.0.0.1:8786."


@takes_settings()
def sweep(
    files: Annotated[
        Many,
        typer.Argument(metavar="FILE", help="Text or tables: files, folders, patterns. With --resume, also a sweep."),
    ] = None,
    task: Annotated[str | None, typer.Option(help=TASK_HELP)] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help=f"Runs to train. Default: {TRIALS}.", rich_help_panel=SWEEP)
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="NAMES", help=SEARCH_HELP, rich_help_panel=SWEEP)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop the sweep after so long. Default: no limit.", rich_help_panel=SWEEP)
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help=f"{' or '.join(SAMPLERS)}: learn from finished trials, or not. Default: tpe.", rich_help_panel=SWEEP
        ),
    ] = None,
    prune: Annotated[
        bool | None,
        typer.Option("--prune/--no-prune", help="End trials early that fall behind. [on]", rich_help_panel=SWEEP),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Trials at a time, one thread each. Default: one per core.", rich_help_panel=SWEEP),
    ] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help=DASK_HELP, rich_help_panel=SWEEP)] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the sweep. Default: runs/NAME-sweep.", rich_help_panel=SWEEP)
    ] = None,
    resume: Annotated[bool, flag("--resume", "Resume the sweep, or start it if there is none.", SWEEP)] = False,
    recipe: Annotated[str | None, recipe_option(SWEEP)] = None,
    config: Annotated[Path | None, config_option(SWEEP)] = None,
    json: Annotated[bool, flag("--json", "Print one JSON object per trial.", SWEEP)] = False,
    quiet: Annotated[bool, flag("--quiet", "Print nothing.", SWEEP)] = False,
    settings: Mapping[str, Any] = {},
) -> None:
    """Search for good settings: train many runs on the same data, and keep the best.

    Trial 0 has the settings of `unspool train`. The folder of the sweep has each trial as a run folder, the best of
    them as best/, and a page, sweep.html: what mattered, all trials, curves, cost against quality. Ctrl-C saves and
    exits.

    **Examples**

    - `unspool sweep intents.csv`: 40 trials of lr, hidden, dropout and cell, in runs/intents-sweep
    - `unspool sweep intents.csv --trials 24 --epochs 5 --search lr,hidden,dropout`: short trials
    - `unspool sweep book.txt --minutes 30 --steps 500 --search 'lr=1e-4..1e-2,layers=1..3,cell=lstm|gru'`
    - `unspool sweep intents.csv --resume`: resume where it stopped
    - `unspool sweep runs/intents-sweep --resume --trials 80`: more trials
    - `unspool sweep co2.csv --horizon 12 --sampler random --no-prune`: the same trials, however many at a time
    - `unspool sweep intents.csv --dask local:2`: two Dask workers on this machine
    - `unspool sweep /shared/intents.csv --out /shared/sweep --dask tcp://10.0.0.1:8786`: a cluster
    - `unspool predict runs/intents-sweep/best --text 'play some jazz'`
    """
    given = {"task": task, "recipe": recipe, "config": config, **settings}
    how: dict[str, Any] = {"search": search, "trials": trials, "minutes": minutes, "sampler": sampler, "prune": prune}
    where: dict[str, Any] = {"jobs": jobs, "dask": dask, "out": out, "resume": resume}
    with choose_view(json=json, quiet=quiet) as view:
        found = run_sweep(files, **how, **where, tell=view, **given)
    finish(found, json or quiet)


def finish(found: Swept, silent: bool) -> None:
    """Say where everything is; exit as the sweep ended."""
    if not silent:
        out = console()
        if found.run is not None:
            out.print(f"best run: {found.run}    page: {found.path / 'sweep.html'}", soft_wrap=True)
        if found.reason != "done":
            out.print(f"Everything is kept. To go on: unspool sweep {found.path} --resume", soft_wrap=True)
    if found.reason == "interrupted":
        raise typer.Exit(130)
    if found.best is None:
        raise typer.Exit(1)
