"""The only list of tasks' names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unspool.errors import UnknownNameError
from unspool.tasks.classify import Classification
from unspool.tasks.contract import Task
from unspool.tasks.forecast import Forecasting
from unspool.tasks.joint import JointTagging
from unspool.tasks.lm import LanguageModelling
from unspool.tasks.multilabel import MultiLabelClassification
from unspool.tasks.regress import Regression
from unspool.tasks.seq2seq import Translation
from unspool.tasks.tag import Tagging

TASKS: Mapping[str, type[Task]] = MappingProxyType(
    {
        task.name: task
        for task in (
            LanguageModelling,
            Classification,
            MultiLabelClassification,
            Regression,
            Tagging,
            JointTagging,
            Translation,
            Forecasting,
        )
    }
)


def find_task(name: str) -> type[Task]:
    """The task of a name."""
    if name not in TASKS:
        raise UnknownNameError.among("task", name, TASKS)
    return TASKS[name]
