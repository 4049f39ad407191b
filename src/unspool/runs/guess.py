"""The task that a file is for: by the settings that are given, or by the task that recognizes the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unspool.data.glance import Glance
from unspool.data.sources import exists, first_path
from unspool.data.text import Source
from unspool.errors import DataError
from unspool.settings.catalogue import SETTINGS
from unspool.tasks.catalogue import TASKS

#: The task of a text, and where nothing says otherwise.
DEFAULT = "lm"


class Guess(NamedTuple):
    """A task's name, and the reason; empty where the data cannot be found."""

    task: str
    why: str


def guess_task(source: Source | None, options: Mapping[str, Any]) -> Guess:
    """Guess the task that is meant.

    Args:
        source: Files, folders and patterns; None if there are none.
        options: Settings that the user gives. One that a single task has decides.

    Returns:
        The task and the reason.

    Raises:
        DataError: No task recognizes the columns of a table.

    Example:
        guess_task("book.txt", {}).task  # "lm"
        guess_task("sales.csv", {"horizon": 12}).why  # "only it has `horizon`"
    """
    for name in options:
        tasks = SETTINGS[name].tasks if name in SETTINGS else ()
        if len(tasks) == 1:
            return Guess(tasks[0], f"only it has `{name}`")
    if source is None:
        return Guess(DEFAULT, "nothing says otherwise")
    try:
        file = first_path(source)
    except DataError:
        if exists(source):  # it cannot be read: it is no text
            raise
        return Guess(DEFAULT, "")  # reported when the data is read, after all mistakes in the settings
    return _ask_tasks(Glance(file, options))


def _ask_tasks(glance: Glance) -> Guess:
    """The task with the strongest claim to a file."""
    claims = {name: claim for name, task in TASKS.items() if (claim := task.recognize(glance)) is not None}
    if not claims:
        columns = ", ".join(map(repr, glance.columns))
        raise DataError(
            f"{glance.file} has the columns {columns}: what is to be learned is not clear. Give "
            "`task='classify'` with `label_column`, `task='regress'` with `target`, or `task='forecast'` with "
            "`time_column`."
        )
    best = max(claims, key=lambda name: claims[name].priority)
    return Guess(best, claims[best].reason)
