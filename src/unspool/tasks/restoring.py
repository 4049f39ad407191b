"""Restores a task from what a run folder keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.errors import DataError
from unspool.tasks.contract import Task

#: What a document of the right digest and the wrong content may raise.
WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
KEEP = "Restore it, or resume the run with `resume=True`, which writes it again"


def restore(kind: type[Task], path: Path, document: Mapping[str, Any], data: Any) -> Task:
    """A task without its data.

    Args:
        kind: The task.
        path: The file that the document is from, for messages.
        document: What `Task.dump` gave, of unknown origin.
        data: The settings of the data.

    Raises:
        DataError: The document is not what `dump` gives.
    """
    try:
        return kind.restore(document, data)
    except WRONG as error:
        if isinstance(error.__cause__, ImportError):  # nothing is wrong with the file
            raise
        said = str(error).partition(". ")[0].removesuffix(".")
        raise DataError(f"{path} cannot be read: {said}. {KEEP}.") from error
