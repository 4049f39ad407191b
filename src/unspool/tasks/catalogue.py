"""The only list of tasks' names. A task's module is imported when the task is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from unspool.errors import UnknownNameError
from unspool.tasks.contract import Task

#: Name → the module of tasks/ that has the task, and its class.
_HOMES = {
    "lm": ("lm", "LanguageModelling"),
    "classify": ("classify", "Classification"),
    "multilabel": ("multilabel", "MultiLabelClassification"),
    "regress": ("regress", "Regression"),
    "tag": ("tag", "Tagging"),
    "joint": ("joint", "JointTagging"),
    "seq2seq": ("seq2seq", "Translation"),
    "forecast": ("forecast", "Forecasting"),
}


class _Tasks(Mapping[str, type[Task]]):
    """Every task by its name."""

    def __getitem__(self, name: str) -> type[Task]:
        module, kind = _HOMES[name]
        found: type[Task] = getattr(import_module(f"unspool.tasks.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)

    def __contains__(self, name: object) -> bool:
        return name in _HOMES


TASKS: Mapping[str, type[Task]] = _Tasks()


def find_task(name: str) -> type[Task]:
    """The task of a name."""
    if name not in TASKS:
        raise UnknownNameError.among("task", name, TASKS)
    return TASKS[name]
