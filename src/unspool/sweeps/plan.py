"""What a sweep does: the content of `sweep.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError, UnknownNameError
from unspool.runs.names import FOLDER, free_name, safe_name
from unspool.storage.run import FORMAT
from unspool.sweeps.course import Goal
from unspool.sweeps.folder import SweepFolder, check_plan
from unspool.sweeps.space import Search, dump_space, load_space
from unspool.sweeps.study import SAMPLERS, Sampler

#: Trials of a sweep by default.
TRIALS = 40


@dataclass(frozen=True)
class Plan:
    """What a sweep does.

    Attributes:
        task: Its name.
        goal: The metric by which trials are compared.
        search: What is searched.
        trials: How many.
        sampler: Who proposes settings.
        prune: Whether trials that fall behind are ended early.
        seed: Of the sampler, and of every run.
        given: What the user gave, in words, to be compared with what a resumed sweep is given.
    """

    task: str
    goal: Goal
    search: Search
    trials: int = TRIALS
    sampler: Sampler = "tpe"
    prune: bool = True
    seed: int = 0
    given: Mapping[str, str] = field(default_factory=dict)

    def dump(self) -> dict[str, Any]:
        """The plan for JSON."""
        goal = {"metric": self.goal.metric, "more_is_better": self.goal.more_is_better}
        spaces = {name: dump_space(space) for name, space in self.search.spaces.items()}
        how = {"trials": self.trials, "sampler": self.sampler, "prune": self.prune, "seed": self.seed}
        search = {"spaces": spaces, "base": dict(self.search.base)}
        return {"format": FORMAT, "task": self.task, **goal, **search, **how, "given": dict(self.given)}


def load_plan(folder: SweepFolder) -> Plan:
    """The plan of a sweep that exists."""
    found = folder.read_plan()
    check_plan(folder.path, found)
    spaces = {name: load_space(space) for name, space in found["spaces"].items()}
    return Plan(
        found["task"],
        Goal(found["metric"], found["more_is_better"]),
        Search(spaces, found["base"]),
        *(found[name] for name in ("trials", "sampler", "prune", "seed", "given")),
    )


def resumed(folder: SweepFolder, trials: int | None, given: Mapping[str, str]) -> Plan:
    """The plan with which a sweep is resumed: its own, maybe with another number of trials.

    Raises:
        ArgumentError: Something else is given than what the sweep was started with.
    """
    plan = load_plan(folder)
    for name, value in given.items():
        if plan.given.get(name) != value:
            was = plan.given.get(name, "not given")
            problem = f"is not what the sweep was started with, {was}"
            raise ArgumentError.of(name, value, problem, "Leave it out, or start a new sweep; `trials` may change")
    return plan if trials is None else replace(plan, trials=trials)


def check_numbers(trials: int | None, minutes: float | None, jobs: int | None, sampler: str | None) -> None:
    """Refuse what cannot be meant, before any data is read."""
    for name, value in (("trials", trials), ("jobs", jobs)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ArgumentError.of(name, value, "is not a whole number above 0", "Give one")
    if minutes is not None and not minutes > 0:
        raise ArgumentError.of("minutes", minutes, "is not above 0", "Give a number above 0")
    if sampler is not None and sampler not in SAMPLERS:
        raise UnknownNameError.among("sampler", sampler, SAMPLERS)


def find_folder(out: Path | None, files: list[str], resume: bool) -> tuple[Path, list[str]]:
    """The folder of a sweep, and its data, if any: a sweep may also be named in place of data, to resume it."""
    if resume and out is None and len(files) == 1 and SweepFolder(Path(files[0])).exists():
        return Path(files[0]), []
    if out is not None:
        return out, files
    stem = f"{Path(files[0]).stem if files else 'run'}-sweep"
    return (FOLDER / safe_name(stem) if resume else free_name(stem)), files
