"""train: from settings to a finished run, started or resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError
from unspool.learning.advice import points_of
from unspool.learning.checkpoint_facts import check_same
from unspool.learning.contract import Learner
from unspool.learning.events import Advised, Evaluated, Event, Finished, Listener, Started
from unspool.learning.loop import Loop
from unspool.learning.position import check_model_forms
from unspool.learning.ranks import Ranks, joined
from unspool.learning.run_folder import RunFolder, check_free
from unspool.learning.stopping import Stop, listening
from unspool.runs.baselines import announce_baselines, baselines_of, train_baselines
from unspool.runs.card import write_card
from unspool.runs.cells import (
    compare_cells,
    dump_cells,
    keep_cells,
    read_run_config,
)
from unspool.runs.config import Config, read_config, refuse, to_sections
from unspool.runs.documents import (
    find_task,
    guess_from,
    keep_given,
    list_files,
    read_documents,
    with_counted_layers,
    with_one_end,
)
from unspool.runs.effects import find_ineffective
from unspool.runs.embeddings import make_model, with_vector_size
from unspool.runs.extension import check_ahead, is_over
from unspool.runs.fitting import prepare_task
from unspool.runs.follow_up import with_follow_up
from unspool.runs.load import expected_forms, is_kept, is_run
from unspool.runs.memory import check_memory, explaining_memory
from unspool.runs.names import choose_folder
from unspool.runs.network import keep_network
from unspool.runs.progress import print_progress, silent
from unspool.settings.catalogue import RESUMABLE, SECTIONS, find_task_settings
from unspool.settings.training import ENDS
from unspool.tasks.contract import Task

#: What to do where a run was started with other settings.
REMEDY = f"Leave them out, or start a new run; {', '.join(f'`{name}`' for name in RESUMABLE)} may change"


@dataclass(frozen=True)
class Trained:
    """A finished run: its folder, its task, the model with its best weights, and how training ended."""

    path: Path
    task: Task
    learner: Learner
    finished: Finished


#: Sees a model in training: its settings, task, the model itself, the run's folder, and the evaluation that was made.
Watch = Callable[[Config, Task, Learner, Path, Evaluated], None]


def plan(
    source: Source | None = None,
    *,
    task: str | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> Config:
    """Check the settings of a run: those of the recipe, then of the config file, then the options.

    Args:
        source: Files, folders and patterns; by default those of the config file.
        task: The name of the task; by default guessed from the files.
        recipe: The name of a recipe.
        config: A TOML file.
        **options: Settings by name, such as `hidden=128`; None stands for a setting that is not given.

    Returns:
        The checked settings, each with its default where it was not given.

    Raises:
        ArgumentError: One message that lists every mistake.
    """
    documents = read_documents(recipe, config)
    given = keep_given(options)
    _refuse_runs(source)
    named = task or find_task(documents)
    guess = guess_from(source, documents, given, recipe) if named is None else None
    settings = find_task_settings(str(named) if guess is None else guess.task)
    if source is not None:
        given["files"] = list_files(source)
    documents.append(to_sections(given, settings.name))
    documents = [with_counted_layers(document) for document in documents]
    known = [settings.defaults] if guess is None else [settings.defaults, to_sections(guess.settings, guess.task)]
    found = read_config(*with_one_end([*known, *documents]), task=settings.name)
    refuse(find_ineffective(documents, settings))
    found = replace(with_vector_size(found), given=_names(documents))
    return found if guess is None else replace(found, guessed=guess.why)


def _names(documents: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The settings that documents of sections give."""
    return frozenset(name for document in documents for section in SECTIONS for name in document.get(section, ()))


def _refuse_runs(source: Source | None) -> None:
    for path in list_files(source):
        if is_run(Path(path)):
            raise ArgumentError.of("FILE", path, "is a run folder", "Resume it with `resume=True`, or give data")


def resume_settings(
    run: Path,
    source: Source | None = None,
    *,
    recipe: str | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> tuple[Config, dict[str, Any]]:
    """The settings with which a run is resumed, and those of them that are new.

    What is given must be what the run was started with, but for settings that may change (`epochs`, `steps`,
    `minutes`, `patience`): so the command that started a run resumes it.

    Raises:
        ArgumentError: One message that names every setting that differs.
    """
    kept = read_run_config(run)
    given = keep_given(options)
    if source is not None:
        given["files"] = list_files(source)
    task = given.pop("task", None)
    if task not in (None, kept.task.name):
        raise ArgumentError.of("task", task, f"is not the run's task, {kept.task.name}", REMEDY)
    documents = [*read_documents(recipe, config), to_sections(given, kept.task.name)]
    documents = [keep_cells(with_counted_layers(document), kept) for document in (kept.dump(), *documents)]
    new = read_config(*with_one_end(documents), task=kept.task.name)
    changed = _differences(kept, new) | compare_cells(kept, new)
    _refuse_fixed(run, changed)
    # An end that is None now is replaced by another.
    return new, {name: now for name, (_, now) in changed.items() if now is not None or name not in ENDS}


def _refuse_fixed(run: Path, changed: Mapping[str, tuple[Any, Any]]) -> None:
    """Every setting that differs must be one that may change."""
    fixed = {name: values for name, values in changed.items() if name not in RESUMABLE}
    if fixed:
        listed = "; ".join(f"`{name}` is {was!r} in the run and {now!r} here" for name, (was, now) in fixed.items())
        raise ArgumentError(f"{run} was started with other settings: {listed}. {REMEDY}.")


def _differences(kept: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, with both values as a config has them."""
    before, after = kept.dump(), new.dump()
    return {
        name: (before[section].get(name), after[section].get(name))
        for section in SECTIONS
        for name in {**before[section], **after[section]}
        if before[section].get(name) != after[section].get(name)
    }


def train(
    source: Source | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    tell: Listener | None = None,
    watch: Watch | None = None,
    stop: Stop | None = None,
    task: str | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> Trained:
    """Train a model and keep everything about it in the folder `out`.

    Args:
        source: Files, folders and patterns of text or tables.
        out: The run folder; by default one in runs/ that is named after the data.
        resume: Resume the run in `out`, or start it if there is none. Of the settings, `epochs`, `steps`, `minutes`
            and `patience` may change.
        overwrite: Replace a run that exists in `out`.
        quiet: Print nothing.
        tell: Called with every event of training (`unspool.learning.events`), in place of printing progress.
        watch: Called after every evaluation with (settings, task, model, folder, evaluation).
        stop: Asked before each update whether training is to be saved and ended; Ctrl-C asks it too.
        task: "lm", "classify", "multilabel", "tag", "joint", "regress", "forecast" or "seq2seq"; by default guessed
            from the files.
        recipe: The name of a recipe.
        config: A TOML file with settings.
        **options: Settings by name; docs/reference.md lists them all.

    Returns:
        The folder, the task, the model with its best weights, and how training ended.

    Example:
        run = unspool.train("book.txt", out="runs/book", hidden=256, epochs=10)
        run = unspool.train(out="runs/book", resume=True, epochs=20)
    """
    path = _choose_path(out, source, overwrite or resume)
    tell = tell or (silent if quiet else print_progress)
    given = {"source": source, "task": task, "recipe": recipe, "config": config, **options}
    with joined() as ranks, ExitStack() as held:
        # Decided by the first for all: when the others come to it the first may have begun the run.
        has_data = (source, config) != (None, None)
        resume = bool(ranks.broadcast([ranks.first and _resumes(path, resume, overwrite, has_data)])[0])
        with ranks.in_turn():
            begins = ranks.first and not resume
            settings, new = resume_settings(path, **given) if resume else (plan(**given), {})
            folder = held.enter_context(closing((RunFolder.open if resume and ranks.first else RunFolder)(path)))
            if begins:
                check_free(path, overwrite)
            _check_baselines(settings, ranks)
            heard = held.enter_context(listening(stop))
            settings, prepared = prepare_task(settings)
            held.enter_context(explaining_memory(prepared, settings))
            loop = make_loop(settings, prepared, folder, tell, heard, new=not (resume and folder.checkpoints()))
            if watch is not None and ranks.first:
                loop.tell = _showing(tell, watch, settings, loop, path)
            if begins:
                folder.begin(settings.dump(), overwrite, dump_cells(settings))
        return _run(settings, folder, loop, resume, new, tell, heard)


def _choose_path(out: str | Path | None, source: Source | None, taken: bool) -> Path:
    return choose_folder(list_files(source), taken) if out is None else Path(out)


def _resumes(path: Path, resume: bool, overwrite: bool, has_data: bool) -> bool:
    """Whether a run is resumed: if asked to, and there is one, or nothing to start one with."""
    if resume and overwrite:
        problem = "replaces a run, and `resume` continues one"
        raise ArgumentError.of("overwrite", overwrite, problem, "Leave one out")
    return resume and (is_run(path) or not has_data)


def _check_baselines(settings: Config, ranks: Ranks) -> None:
    if settings.training.baselines and ranks.together:
        raise ArgumentError.of("baselines", True, "are trained by one process", "Leave it out, or `nproc`")


def _showing(tell: Listener, watch: Watch, settings: Config, loop: Loop, path: Path) -> Listener:
    """A listener that after every evaluation shows the model too."""

    def show(event: Event) -> None:
        tell(event)
        if isinstance(event, Evaluated):
            watch(settings, loop.task, loop.learner, path, event)

    return show


def make_loop(
    settings: Config,
    task: Task,
    folder: RunFolder | None = None,
    tell: Listener = silent,
    stop: Stop | None = None,
    new: bool = True,
) -> Loop:
    """Data and model, ready to be trained; without a folder nothing is kept.

    A run with a checkpoint is not `new`: its weights come from there.
    """
    training, ranks = settings.training, Ranks()
    if not new and folder is not None and ranks.first:
        _check_checkpoint(folder, task, settings, ranks.count)
    check_memory(task, settings)
    torch.manual_seed(training.seed)
    learner, notes = make_model(task, settings, new)
    if ranks.together:
        torch.manual_seed(ranks.seed(training.seed))  # each its own dropout
    loop = Loop(task, learner, training, folder, tell if ranks.first else silent, stop or Stop())
    loop.notes = notes
    return loop


def _check_checkpoint(folder: RunFolder, task: Task, settings: Config, ranks: int) -> None:
    """Refuse to resume a run with other settings, data or sizes, before anything is allocated."""
    outline = folder.read_outline()
    if outline is None:
        return
    folder.origin.check(outline.facts, outline.path)
    check_same(outline.facts, task.digest, ranks)
    check_model_forms(expected_forms(task, settings), outline.forms)


def _run(
    settings: Config,
    folder: RunFolder,
    loop: Loop,
    resume: bool,
    new: Mapping[str, Any],
    tell: Listener,
    stop: Stop,
) -> Trained:
    task, learner, ranks = loop.task, loop.learner, loop.ranks
    if ranks.broadcast_text(task.digest) != task.digest:
        raise DataError("the data is not that of the first process. Give all processes the same files.")
    resumed = resume and loop.resume()
    if ranks.first:
        _begin(settings, folder, loop, resumed, new, tell)
    if not resumed:
        loop.save()
    finished = loop.run()
    if _trains_baselines(settings) and finished.reason != "interrupted":
        finished = _with_baselines(settings, finished, task, tell, stop)
    if ranks.first:
        finished = _conclude(settings, folder, loop, finished, tell)
    return Trained(folder.path, task, learner, finished)


def _conclude(settings: Config, folder: RunFolder, loop: Loop, finished: Finished, tell: Listener) -> Finished:
    """Write and tell how training ended, with what follows from it; by one process for all."""
    position = loop.position
    points = points_of(position.evaluated, position.training, position.validation)
    finished = with_follow_up(finished, settings, points)
    write_card(folder, settings, loop.task, loop.learner, finished)
    folder.log(finished)
    tell(finished)
    return finished


def _begin(
    settings: Config, folder: RunFolder, loop: Loop, resumed: bool, new: Mapping[str, Any], tell: Listener
) -> None:
    """Bring the run's folder up to date, and tell that training starts; by one process for all."""
    if new:
        check_ahead(loop, new)
        folder.write_config(settings.dump())
    if not resumed:  # also where a run was ended before its first checkpoint
        folder.truncate_logs({})
    if not (resumed and is_kept(folder.path, loop.task.dump())):
        folder.write_task(loop.task.dump())
    keep_network(folder, loop.learner, loop.task.name)
    tell(_started(settings, loop.task, loop.learner, folder, loop))
    if resumed and not _trains_baselines(settings) and (over := is_over(loop)):
        tell(Advised(loop.position.step, over, is_note=True))


def _trains_baselines(settings: Config) -> bool:
    """Whether there are baselines to train after the model."""
    return settings.training.baselines and bool(baselines_of(settings))


def _with_baselines(settings: Config, finished: Finished, task: Task, tell: Listener, stop: Stop) -> Finished:
    """The event with the metrics of baselines; as it is if training them is interrupted: the model itself is kept."""
    try:
        tell(Advised(finished.step, announce_baselines(settings, task, finished.step), is_note=True))
        return train_baselines(settings, finished, task, tell, stop)
    except KeyboardInterrupt:
        return finished


def _started(settings: Config, task: Task, learner: Learner, folder: RunFolder, loop: Loop) -> Started:
    count = sum(parameter.numel() for parameter in learner.parameters())
    return Started(
        str(folder.path),
        task.name,
        {**describe(settings, loop), **task.describe()},
        count,
        task.unit,
        loop.position.step,
        loop.steps,
        task.baselines(),
    )


def describe(settings: Config, loop: Loop) -> dict[str, str]:
    """Model and training, in words."""
    model, training = settings.model, settings.training
    end = f"{training.minutes:g} minutes" if loop.steps is None else f"{loop.steps:,} updates"
    bptt = "whole sequences" if training.bptt == "all" else f"{training.bptt} steps"
    processes = f" in {loop.ranks.count} processes" if loop.ranks.together else ""
    engine = " (torch.nn)" if model.engine == "torch" else ""
    return {
        **({"task": f"{settings.task.name}, guessed: {settings.guessed}"} if settings.guessed else {}),
        "model": f"{model.describe()}{engine}",
        "training": f"{training.optimizer} at {training.lr:g} ({training.schedule}), "
        f"batch size {training.batch_size} × {bptt}, {end}{processes}",
        **({"defaults": settings.chosen} if settings.chosen else {}),
        **loop.notes,
    }
