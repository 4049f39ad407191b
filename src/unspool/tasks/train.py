"""train: from settings to a finished run, begun or gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError
from unspool.learning.contract import Learner, Task
from unspool.learning.events import Advised, Evaluated, Event, Finished, Listener, Started
from unspool.learning.loop import Loop
from unspool.learning.ranks import Ranks, joined
from unspool.learning.run import RunFolder, check_free, check_run
from unspool.learning.stopping import Stop, listening
from unspool.tasks.card import write_card
from unspool.tasks.catalogue import find_task
from unspool.tasks.config import Config, read_config, read_toml, refuse, to_sections
from unspool.tasks.effects import find_idle
from unspool.tasks.extension import CHANGEABLE, ENDS, check_ahead, is_over
from unspool.tasks.guess import Guess, guess_task
from unspool.tasks.load import is_kept, seal
from unspool.tasks.recipes import find_recipe
from unspool.tasks.rivals import rivals_of, train_rivals


@dataclass(frozen=True)
class Trained:
    """What came of a run."""

    path: Path
    task: Task
    learner: Learner
    finished: Finished


#: Sees a model in training: its settings, task, the model itself, the run's folder, and the evaluation that was made.
Watch = Callable[[Config, Task, Learner, Path, Evaluated], None]


def silent(event: Event) -> None:
    """A listener that has nothing to say."""


def plan(
    source: Source | None = None,
    *,
    task: str | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> Config:
    """The checked settings of a run: those of the recipe, then of the config file, then the options."""
    documents: list[Mapping[str, Any]] = [find_recipe(recipe)] if recipe is not None else []
    documents += [read_toml(Path(config))] if config is not None else []
    given = {name: value for name, value in options.items() if value is not None}
    for path in [] if source is None else [source] if isinstance(source, str | Path) else source:
        if (Path(path) / "config.toml").is_file() and (Path(path) / "checkpoints").is_dir():
            raise ArgumentError.of("FILE", str(path), "is a run's folder", "Go on with it by --resume, or give data")
    said = task or next((document["task"] for document in reversed(documents) if "task" in document), None)
    guess = None
    if said is None:
        files = source or next((one["data"]["files"] for one in documents if "files" in one.get("data", ())), None)
        guess = guess_task(files, given) if recipe is None else Guess("lm", f"the recipe {recipe} is for it")
    kind = find_task(str(said) if guess is None else guess.task)
    documents.insert(0, kind.defaults)
    if source is not None:
        given["files"] = [str(source)] if isinstance(source, str | Path) else [str(one) for one in source]
    documents.append(to_sections(given, kind))
    found = read_config(*_with_one_end(documents), task=kind.name)
    refuse(find_idle(documents[1:], kind))
    return found if guess is None else replace(found, guessed=guess.why)


def _with_one_end(documents: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the ends of training that different documents say, such as 10 epochs and 5 minutes, the last holds."""
    saying = [place for place, document in enumerate(documents) if {*ENDS} & set(document.get("training", ()))]
    for place in saying[:-1]:
        training = {key: value for key, value in documents[place]["training"].items() if key not in ENDS}
        documents[place] = {**documents[place], "training": training}
    return documents


def train(
    source: Source | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    tell: Listener = silent,
    watch: Watch | None = None,
    task: str | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    **options: Any,
) -> Trained:
    """Train a model and keep everything about it in the folder `out`.

        unspool.train("book.txt", out="runs/book", hidden=256, epochs=10)
        unspool.train(out="runs/book", resume=True)
        unspool.train(out="runs/book", resume=True, epochs=20)    # a later end, for a run that is over too

    `options` are the settings of the config's sections, by name: see `unspool train --help`. `tell` hears what happens,
    and `watch` sees the model itself after every evaluation: (settings, task, model, folder, the evaluation).
    """
    if out is None:
        raise ArgumentError.of("out", out, "is missing", "Give the folder of the run, such as out='runs/book'")
    path = Path(out)
    said = {"source": source, "task": task, "recipe": recipe, "config": config, **options}
    new = {name: value for name, value in said.items() if resume and value is not None}
    with joined() as ranks, ExitStack() as held:
        with ranks.in_turn():
            if resume and force:
                raise ArgumentError.of("force", force, "begins anew, and resume goes on with a run", "Leave one out")
            settings = _resumed(path, new) if resume else plan(**said)
            folder = RunFolder.open(path) if resume and ranks.first else RunFolder(path)
            held.enter_context(closing(folder))
            if ranks.first and not resume:
                check_free(path, force)
            if settings.training.baselines and ranks.together:
                raise ArgumentError.of("baselines", True, "are trained by one process", "Leave it out, or nproc")
            stop = held.enter_context(listening())
            loop = make_loop(settings, folder, tell, stop)
            if watch is not None and ranks.first:
                loop.tell = _showing(tell, watch, settings, loop, path)
            if ranks.first and not resume:
                folder.begin(settings.dump(), force)
        return _run(settings, folder, loop, resume, new, tell, stop)


def _showing(tell: Listener, watch: Watch, settings: Config, loop: Loop, path: Path) -> Listener:
    """A listener that after every evaluation shows the model too."""

    def show(event: Event) -> None:
        tell(event)
        if isinstance(event, Evaluated):
            watch(settings, loop.task, loop.learner, path, event)

    return show


def _resumed(path: Path, new: Mapping[str, Any]) -> Config:
    settings = check_run(path)
    for name, value in new.items():
        if name not in CHANGEABLE:
            remedy = f"Leave it out, or begin a new run; {', '.join(CHANGEABLE)} can change"
            raise ArgumentError.of(name, value, "cannot change in a run that goes on", remedy)
    return read_config(*_with_one_end([settings, {"training": new}]))


def make_loop(
    settings: Config, folder: RunFolder | None = None, tell: Listener = silent, stop: Stop | None = None
) -> Loop:
    """Data and model, ready to be trained; without a folder nothing is kept."""
    training, ranks = settings.training, Ranks()
    try:
        task = settings.task.prepare(settings.data, training.seed)
    except DataError as error:
        if not settings.guessed:
            raise
        guessed = f"taken for {settings.task.name} because {settings.guessed}; say --task to choose"
        raise DataError(f"{error} It was {guessed}.") from error
    torch.manual_seed(training.seed)
    learner = task.make_learner(settings.model)
    if ranks.together:
        torch.manual_seed(ranks.seed(training.seed))  # each its own dropout
    return Loop(task, learner, training, folder, tell if ranks.first else silent, stop or Stop())


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
    if ranks.tell_text(task.digest) != task.digest:
        raise DataError("the data is not that of the first process. Give all processes the same files.")
    resumed = resume and loop.resume()
    if ranks.first and new:
        check_ahead(loop, new)
        folder.write_config(settings.dump())
    if ranks.first and not resumed:  # also where a run was ended before its first checkpoint
        folder.take_back({})
    if ranks.first and not (resumed and is_kept(folder.path, settings)):
        folder.write_task(seal(task.dump()))
    if ranks.first:
        tell(_started(settings, task, learner, folder, loop))
        learns_more = settings.training.baselines and rivals_of(settings)
        if resumed and not learns_more and (over := is_over(loop, folder.path)):
            tell(Advised(loop.position.step, over))
    if not resumed:
        loop.save()
    finished = loop.run()
    if settings.training.baselines and finished.reason != "interrupted" and rivals_of(settings):
        tell(Advised(finished.step, "The model is trained. Now those without memory are, to compare."))
        finished = replace(finished, baselines={**finished.baselines, **_rivals(settings, task, finished.step, stop)})
    if ranks.first:
        write_card(folder, settings, task, learner, finished)
        tell(finished)
    return Trained(folder.path, task, learner, finished)


def _rivals(settings: Config, task: Task, steps: int, stop: Stop) -> dict[str, dict[str, float]]:
    """What rivals come to; none, if someone does not want to wait for them: the model itself is kept."""
    try:
        return train_rivals(settings, task, steps, stop)
    except KeyboardInterrupt:
        return {}


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
    window = "whole rows" if training.window == "all" else f"{training.window} steps"
    processes = f" in {loop.ranks.count} processes" if loop.ranks.together else ""
    engine = " (torch.nn)" if model.engine == "torch" else ""
    return {
        **({"task": f"{settings.task.name}, guessed: {settings.guessed}"} if settings.guessed else {}),
        "model": f"{model.layers} × {model.hidden} {model.cell}{engine}",
        "training": f"{training.optimiser} at {training.rate:g} ({training.schedule}), "
        f"{training.batch} rows × {window}, {end}{processes}",
    }
