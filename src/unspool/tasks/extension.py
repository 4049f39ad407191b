"""A run that goes on towards another end than it was begun with: which settings say it, and whether it lies ahead."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.errors import ArgumentError
from unspool.learning.loop import Loop

#: Settings of which one says when training ends.
ENDS = ("epochs", "steps", "minutes")
#: All that may change in a run that goes on; its data, its model and how it learns stay what they are.
CHANGEABLE = (*ENDS, "patience")


def check_ahead(loop: Loop, said: Mapping[str, Any]) -> None:
    """Refuse new settings by which no update would be made."""
    options = _needed(loop)
    if not options:
        return
    end = _end(loop)
    name = end if end in said and loop.fraction() >= 1 else "patience" if "patience" in said else end
    problem = "is behind the run" if name == end and loop.fraction() >= 1 else "does not let the run go on"
    raise ArgumentError.of(name, said[name], f"{problem}: {_where(loop)}", f"Give {' '.join(options)}, or more")


def is_over(loop: Loop, run: Path) -> str:
    """That nothing is left to do, and how to go on nevertheless; empty where something is."""
    options = _needed(loop)
    if not options:
        return ""
    options += [f"--nproc {loop.ranks.count}"] * loop.ranks.together
    command = f"unspool train {shlex.quote(str(run))} --resume {' '.join(options)}"
    return f"The run is over: {_where(loop)}. To go on, give another end: {command}"


def _needed(loop: Loop) -> list[str]:
    """Options by which training goes on; none if it does without."""
    options, training = [], loop.settings
    if loop.fraction() >= 1:
        done = {"epochs": loop.epochs(), "steps": loop.position.step, "minutes": loop.position.seconds / 60}
        options.append(f"--{_end(loop)} {max(1, math.ceil(2 * done[_end(loop)]))}")
    if training.patience is not None and loop.stale() >= training.patience:
        options.append(f"--patience {2 * loop.stale()}")
    return options


def _end(loop: Loop) -> str:
    return next((name for name in ENDS if getattr(loop.settings, name) is not None), "epochs")


def _where(loop: Loop) -> str:
    position = loop.position
    spent = f"{loop.epochs():.4g} epochs, {position.seconds / 60:.3g} minutes"
    stale = f", {loop.stale()} evaluations without progress" if loop.settings.patience is not None else ""
    return f"it has made {position.step:,} updates ({spent}{stale})"
