"""Settings that fit the data: the defaults that follow from its size and kind, where the user gave no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unspool.errors import DataError
from unspool.runs.config import Config, to_sections
from unspool.runs.effects import keep_effective
from unspool.settings.catalogue import SECTIONS, find_task_settings
from unspool.settings.defaults import choose_defaults
from unspool.settings.training import ENDS
from unspool.tasks.contract import Task


def prepare_task(settings: Config) -> tuple[Config, Task]:
    """Read the data of a run.

    Args:
        settings: The checked settings.

    Returns:
        The settings with the defaults that fit the data, and the task with its data.

    Raises:
        DataError: The data cannot be read as the task needs it; it says why it is this task, if that was guessed.
    """
    try:
        task = settings.task.prepare(settings.data, settings.training.seed)
    except DataError as error:
        if not settings.guessed:
            raise
        guessed = f"taken for {settings.task.name} because {settings.guessed}; give `task` to choose"
        raise DataError(f"{error} It was {guessed}.") from error
    return fit_to_data(settings, task), task


def fit_to_data(settings: Config, task: Task) -> Config:
    """The settings with the defaults that fit the data of a task.

    Args:
        settings: The settings; what the user gave stays.
        task: The task with its data.

    Returns:
        The same settings where everything was given, as in the config of a run that is resumed.
    """
    facts = task.facts()
    if facts is None or settings.given is None or settings.training.learning_rule != "bptt":
        return settings  # other rules learn from plain layers, without dropout or anything around them
    training = settings.training
    chosen = choose_defaults(task.name, facts, training.batch_size * training.grad_accum)
    held = {name: value for section in SECTIONS for name, value in getattr(settings, section)}
    values = keep_effective(_without(chosen, settings.given), held, find_task_settings(task.name))
    if not values:
        return settings
    sections = to_sections(values, task.name)
    changed = {name: getattr(settings, name).model_copy(update=sections[name]) for name in SECTIONS}
    return replace(settings, **changed, chosen=f"{facts.describe()}: {_list(values)}")


def _without(chosen: Mapping[str, Any], given: frozenset[str]) -> dict[str, Any]:
    """What was not given; where any end of training was, no other end."""
    kept = {*given, *(ENDS if given & {*ENDS} else ())}
    return {name: value for name, value in chosen.items() if name not in kept}


def _list(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items())


def _plain(value: Any) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
