"""sweep: many trials on the same data, each an ordinary run; the best one is kept in `best/`, all on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspool.cluster import check_address
from unspool.data.text import Source
from unspool.errors import ArgumentError
from unspool.learning.stopping import listening
from unspool.runs.documents import keep_given, list_files
from unspool.runs.fitting import prepare_task
from unspool.runs.train import plan as plan_run
from unspool.storage.files import write_file
from unspool.sweeps.course import Goal, Row
from unspool.sweeps.engines import Engine, open_engine
from unspool.sweeps.folder import SweepFolder, check_free, take
from unspool.sweeps.page import render_page
from unspool.sweeps.plan import TRIALS, Plan, check_numbers, find_folder, resumed
from unspool.sweeps.progress import print_progress, silent
from unspool.sweeps.searching import Searching, Snapshot, Tell
from unspool.sweeps.space import check_values, make_search
from unspool.sweeps.study import Study

SearchSpec = str | Iterable[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Swept:
    """A sweep that has ended.

    Attributes:
        path: Its folder.
        trials: All trials that were started.
        best: The best of them; None if none was evaluated.
        run: The run folder of the best, `best/`; None if there is none.
        reason: Why it ended: `done`, `minutes` (time was up) or `interrupted`.
    """

    path: Path
    trials: tuple[Row, ...]
    best: Row | None
    run: Path | None
    reason: str


def sweep(
    source: Source | None = None,
    *,
    search: SearchSpec | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    sampler: str | None = None,
    prune: bool | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    tell: Tell | None = None,
    **options: Any,
) -> Swept:
    """Search for good settings: train many runs on the same data, and keep the best.

    Trial 0 has the settings of a run without a search, if the search includes them. Each trial computes with one
    thread. Ctrl-C saves everything and stops.

    Args:
        source: Files, folders and patterns of text or tables; or the folder of a sweep, with `resume`.
        search: The settings to search: `"lr,hidden"`, with values if needed, `"lr=1e-4..1e-2,cell=lstm|gru"`, or a
            mapping from names to None, a pair `(low, high)` or a list of values. By default lr, hidden, dropout, cell.
        trials: How many, by default 40.
        minutes: Stop after so long; trials that are not finished can be resumed. By default there is no limit.
        sampler: "tpe" learns from finished trials; "random" does not, and then a trial's settings depend on `seed` and
            its number alone. By default "tpe".
        prune: Whether to end a trial early whose metric is below the median of the others; by default on.
        jobs: Processes on this machine; by default one per core.
        dask: Compute on a Dask cluster instead: `"local:2"`, or the address of a scheduler. Workers must see the data
            and `out` by the same names.
        out: The folder of the sweep; by default one in runs/ that is named after the data.
        resume: Resume the sweep in `out`, or start it if there is none. `trials`, `minutes`, `jobs` and `dask` may
            change.
        quiet: Print nothing.
        tell: Called with everything that happens (`unspool.sweeps.searching.Told`), in place of printing progress.
        **options: What `unspool.train` takes: `task`, `recipe`, `config` and settings, for all trials.

    Returns:
        The trials and the best of them, whose run folder is `best/` in the sweep's.

    Example:
        found = unspool.sweep("intents.csv", trials=24, search="lr,hidden,dropout", epochs=5)
        print(found.best.settings, found.best.validation)
    """
    check_numbers(trials, minutes, jobs, sampler)
    if dask is not None:
        check_address(dask)
    tell = tell or (silent if quiet else print_progress)
    path, files = find_folder(None if out is None else Path(out), list_files(source), resume)
    folder = SweepFolder(path)
    how = {"search": search, "sampler": sampler, "prune": prune, **({"source": files} if files else {})}
    given = _in_words({**how, **options})
    with ExitStack() as held:
        stop = held.enter_context(listening())
        if resume and folder.exists():
            held.callback(take(folder).release)
            plan = resumed(folder, trials, given)
            engine = held.enter_context(open_engine(jobs, dask))
        else:
            plan, engine = _begin(held, folder, files, search, (trials, sampler, prune), given, options, (jobs, dask))
        folder.clean()
        study = Study(folder.study, plan.search.spaces, plan.goal.more_is_better, sampler=plan.sampler, seed=plan.seed)
        searching = Searching(folder, plan, study, engine, tell, stop, minutes)
        return _conclude(searching)


def _in_words(given: Mapping[str, Any]) -> dict[str, str]:
    """What a user gave, so far as it must be the same when the sweep is resumed."""
    return {name: str(value) for name, value in keep_given(given).items()}


def _begin(
    held: ExitStack,
    folder: SweepFolder,
    files: list[str],
    search: SearchSpec | None,
    how: tuple[int | None, str | None, bool | None],
    given: Mapping[str, str],
    options: Mapping[str, Any],
    where: tuple[int | None, str | None],
) -> tuple[Plan, Engine]:
    """Check everything, connect, and only then make the folder of a new sweep."""
    check_free(folder)
    if not files and options.get("config") is None:
        raise ArgumentError.of("FILE", files, "is missing", "Give text or a table")
    config, task = prepare_task(plan_run(files or None, **options))
    found = make_search(search, config, task)
    trials, sampler, prune = how
    plan = Plan(
        task.name,
        Goal(task.chosen_by, task.more_is_better),
        found,
        TRIALS if trials is None else trials,
        "random" if sampler == "random" else "tpe",
        prune is not False,
        config.training.seed,
        given,
    )
    engine = held.enter_context(open_engine(*where))
    held.callback(take(folder).release)
    check_free(folder)  # no other process can start here now
    folder.prepare(config)
    check_values(found.spaces, folder.base, found.base)
    folder.write_plan(plan.dump())
    return plan, engine


def _conclude(searching: Searching) -> Swept:
    """Run a sweep, keep its best run, and write its page."""
    folder = searching.folder
    folder.write_plan(searching.plan.dump())
    reason = searching.run()
    sweep = searching.snapshot()
    best = sweep.best
    has_model = best is not None and (best.folder / "model.safetensors").exists()
    if best is not None and has_model:
        folder.keep_best(best.number)
    _write_page(folder, sweep, searching.study)
    searching.tell("ended", best)
    return Swept(folder.path, sweep.rows, best, folder.best if has_model else None, reason)


def _write_page(folder: SweepFolder, sweep: Snapshot, study: Study) -> None:
    if sweep.rows:
        write_file(folder.page, render_page(sweep, study.importance()).encode("utf-8"))
