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
from unspool.tasks.contract import Claim

#: Columns that a message lists.
SHOWN = 12
#: The task of a text, and where nothing says otherwise.
DEFAULT = "lm"


#: A claim that is at most this much weaker than the best is named as an alternative.
CLOSE = 15


class Guess(NamedTuple):
    """A task's name, the reason, which is empty where the data cannot be found, and settings that go with it."""

    task: str
    why: str
    settings: Mapping[str, Any] = {}  # columns and what they are for; what the user gives has precedence


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
        raise DataError(_ask(glance))
    best = max(claims, key=lambda name: claims[name].priority)
    found = claims[best]
    return Guess(best, found.reason + _tell_close(claims, best), found.settings)


def _tell_close(claims: Mapping[str, Claim], best: str) -> str:
    """Which other tasks have nearly as strong a claim."""
    close = {name: one for name, one in claims.items() if name != best}
    return "".join(
        f"; or `task={name!r}`: {one.reason}"
        for name, one in close.items()
        if claims[best].priority - one.priority <= CLOSE
    )


def _ask(glance: Glance) -> str:
    """What to give where no task recognizes a table."""
    names = ", ".join(map(repr, glance.columns[:SHOWN])) + ("…" if len(glance.columns) > SHOWN else "")
    there = f"{glance.file} has the columns {names}"
    if glance.roles.rows_are_series():
        return (
            f"{there}: each row seems to be a series. To forecast each, give `task='forecast'`. Or transpose the table "
            "to one column of times, and one for each series."
        )
    return (
        f"{there}: what is to be learned is not clear. Give `task='classify'` with `text_column` and `label_column`, "
        "`task='multilabel'` with one `label_column` or several, `task='regress'` with `text_column` and `target`, "
        "`task='forecast'` with `time_column` and `target`, or `task='seq2seq'` with `source_column` and "
        "`target_column`; `id_column` names sequences of several rows."
    )
