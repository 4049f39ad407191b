"""What a checkpoint says in numbers: every fact is of its type and within its bounds, or the checkpoint is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from unspool.errors import ArgumentError, DataError
from unspool.learning.position import Count, Position


class CheckpointFacts(BaseModel):
    """The facts of a checkpoint; those of the optimizer are checked when they are loaded into one."""

    format: Count
    logs: dict[str, Count]
    position: Position
    optimizer: dict[str, Any]
    data: str
    ranks: Count


def check_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Refuse the facts of a checkpoint that no run can have written.

    Args:
        path: The checkpoint, whose name says its step.
        facts: What it says.

    Raises:
        DataError: The message names the fact.
    """
    try:
        found = CheckpointFacts.model_validate(facts)
    except (ValidationError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {_describe(error)}. It is damaged; use an earlier one.") from error
    if path.stem != f"step-{found.position.step:09d}":
        raise DataError(f"{path} cannot be read: it is of step {found.position.step}. Restore it.")


def check_same(facts: Mapping[str, Any], digest: str, ranks: int) -> None:
    """Refuse to resume a run with other data, or with another number of processes."""
    if facts["data"] != digest:
        raise DataError("the data has changed since the run was started. Start a new run, or restore the old data.")
    if facts["ranks"] != ranks:
        raise ArgumentError.of(
            "nproc", ranks, f"differs from the run's {facts['ranks']}", f"Give `nproc={facts['ranks']}`"
        )


def _describe(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "its facts are nested too deeply"
    first = error.errors()[0]
    said = str(first["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    return f"`{'.'.join(map(str, first['loc']))}` {said[:1].lower()}{said[1:]}"
