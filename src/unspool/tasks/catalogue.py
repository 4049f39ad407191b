"""The only list of tasks' names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unspool.errors import UnknownNameError
from unspool.learning.contract import Task
from unspool.tasks.classify import Classification
from unspool.tasks.language_model import LanguageModelling

TASKS: Mapping[str, type[Task]] = MappingProxyType({task.name: task for task in (LanguageModelling, Classification)})


def find_task(name: str) -> type[Task]:
    """The task of a name."""
    if name not in TASKS:
        raise UnknownNameError.among("task", name, TASKS)
    return TASKS[name]
