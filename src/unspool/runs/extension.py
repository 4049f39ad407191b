"""Resuming a run towards another end than it was started with: which settings do so, and whether the end lies ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unspool.errors import ArgumentError
from unspool.learning.loop import Loop
from unspool.settings.training import ENDS


def check_ahead(loop: Loop, new: Mapping[str, Any]) -> None:
    """Refuse new settings with which no update would be made."""
    needed = _needed(loop)
    if not needed:
        return
    end = _end(loop)
    over = loop.fraction() >= 1
    name = _to_blame(new, end, over)
    problem = "has been reached already" if over and name == end else "leaves nothing to train"
    raise ArgumentError.of(name, new[name], f"{problem}: {_where(loop)}", f"Give {_mention(needed)}, or more")


def _to_blame(new: Mapping[str, Any], end: str, over: bool) -> str:
    """The new setting that keeps the run from going on: the end if that has been reached, else the patience."""
    if over and end in new:
        return end
    return "patience" if "patience" in new else end


def is_over(loop: Loop) -> str:
    """That a resumed run has nothing left to do, and how to train longer; empty where something is left."""
    needed = _needed(loop)
    if not needed:
        return ""
    together = {"nproc": loop.ranks.count} if loop.ranks.together else {}
    return f"The run is finished: {_where(loop)}. To train longer, resume it with {_mention({**needed, **together})}."


def _mention(settings: Mapping[str, Any]) -> str:
    return " and ".join(f"`{name}={value}`" for name, value in settings.items())


def _needed(loop: Loop) -> dict[str, int]:
    """Settings with which training continues; none if it continues anyway."""
    needed: dict[str, int] = {}
    training = loop.settings
    if loop.fraction() >= 1:
        done = {"epochs": loop.epochs(), "steps": loop.position.step, "minutes": loop.position.seconds / 60}
        needed[_end(loop)] = max(1, math.ceil(2 * done[_end(loop)]))
    if training.patience is not None and loop.position.stale >= training.patience:
        needed["patience"] = 2 * loop.position.stale
    return needed


def _end(loop: Loop) -> str:
    return next((name for name in ENDS if getattr(loop.settings, name) is not None), "epochs")


def _where(loop: Loop) -> str:
    position = loop.position
    spent = f"{loop.epochs():.4g} epochs, {position.seconds / 60:.3g} minutes"
    stale = f", {loop.position.stale} evaluations without improvement" if loop.settings.patience is not None else ""
    return f"it has made {position.step:,} updates ({spent}{stale})"
