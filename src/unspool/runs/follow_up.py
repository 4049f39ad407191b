"""What to try after a run: the settings that follow from how it went, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from unspool.learning.advice import Point, advise
from unspool.learning.events import Finished
from unspool.learning.run_folder import METRICS
from unspool.runs.config import Config
from unspool.settings.training import ENDS
from unspool.storage.documents import read_text

#: A validation loss above the training loss by this fraction is a gap that regularization can close.
GAP = 0.1
#: A validation loss that fell by this fraction over the second half of training still falls.
FALLING = 0.01
#: A validation loss below this leaves nothing to learn: one choice in ten thousand goes wrong.
SOLVED = 1e-4
#: The most dropout that is proposed; beyond it, a smaller model is.
MOST_DROPOUT = 0.5
#: Learning rates from here on are large for Adam.
LARGE_LR = 1e-3


class FollowUp(NamedTuple):
    """What a run shows and what to try next.

    Attributes:
        text: One sentence for people.
        settings: Settings of the next run that differ from this one's.
        flawed: Whether something went wrong, so that the next run is worth its time.
        behind: The baseline that the model does not beat; empty if it beats them all.
    """

    text: str
    settings: Mapping[str, Any]
    flawed: bool = True
    behind: str = ""


def with_follow_up(finished: Finished, config: Config, history: Sequence[Point]) -> Finished:
    """A finished run with the advice that follows from its course and from its baselines.

    Args:
        finished: How training ended.
        config: The settings of the run.
        history: Its evaluations.

    Returns:
        The event with `advice`, `proposal`, `flawed` and `behind`.
    """
    if finished.reason == "interrupted" or not history:
        return finished
    found, behind = follow_up(finished, config, history), find_better_baseline(finished)
    flawed = found.flawed or bool(behind)
    return replace(finished, advice=found.text, proposal=dict(found.settings), flawed=flawed, behind=behind)


def follow_up(finished: Finished, config: Config, history: Sequence[Point]) -> FollowUp:
    """The settings to try next.

    A width is proposed only where the losses call for more or less capacity; everything that X-ray judges (cells,
    initial weights, truncation, clipping) is left to it, so that the two never contradict each other.
    """
    found = advise(history)
    if found is not None and found.kind in CURES:
        text, cure = CURES[found.kind]
        return FollowUp(text, cure(config, finished))
    if 0 <= history[-1].validation < SOLVED:
        return FollowUp(
            "Validation loss is next to zero: there is nothing left to learn from this data.", {}, flawed=False
        )
    if _still_falls(history):
        return FollowUp("Validation loss still falls: train longer.", _longer(config, finished))
    if history[-1].validation - history[-1].training > GAP * abs(history[-1].training):
        text = "Validation loss is well above training loss: regularize."
        return FollowUp(text, _regularize(config), flawed=False)
    text = "Training and validation loss are close: a larger model can learn more."
    return FollowUp(text, _resize(config, 2), flawed=False)


def _change_lr(config: Config) -> dict[str, Any]:
    factor = 0.1 if config.training.lr >= LARGE_LR else 10
    return {"lr": _round(config.training.lr * factor)}


def _still_falls(history: Sequence[Point]) -> bool:
    """Whether the last evaluation is the best, and better than that in the middle by more than noise."""
    losses = [point.validation for point in history]
    middle = losses[(len(losses) - 1) // 2]
    return len(losses) > 1 and losses[-1] == min(losses) and middle - losses[-1] > FALLING * abs(middle)


def find_better_baseline(finished: Finished) -> str:
    """The best of the baselines that the model does not beat; empty if it beats them all, or there is none."""
    of, sign = finished.chosen_by, -1 if finished.more_is_better else 1
    own = sign * finished.validation.get(of, math.nan)
    scores = {name: sign * metrics.get(of, math.nan) for name, metrics in finished.baselines.items()}
    better = {name: score for name, score in scores.items() if score <= own}
    return min(better, key=lambda name: better[name], default="")


def read_follow_up(run: str | Path) -> FollowUp | None:
    """What a finished run advised, from its log; None if it has not finished, or the log cannot be read."""
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        event = json.loads(read_text(Path(run) / METRICS).splitlines()[-1])
        if event["event"] == "finished" and event["advice"]:
            known = str(event["advice"]), dict(event["proposal"]), bool(event["flawed"]), str(event["behind"])
            return FollowUp(*known)
    return None


def _regularize(config: Config) -> dict[str, Any]:
    dropout = getattr(config.model, "dropout", None)
    if getattr(config.model, "backbone", "recurrent") != "recurrent" or not isinstance(dropout, float | int):
        return {"weight_decay": _round(max(0.01, 3 * config.training.weight_decay))}
    if dropout < MOST_DROPOUT:
        return {"dropout": round(min(MOST_DROPOUT, dropout + 0.2), 2)}
    return _resize(config, 0.5)


def _resize(config: Config, factor: float) -> dict[str, Any]:
    hidden = config.model.hidden
    if isinstance(hidden, tuple):
        return {"hidden": [max(1, int(size * factor)) for size in hidden]}
    return {"hidden": max(1, int(hidden * factor))}


def _longer(config: Config, finished: Finished) -> dict[str, Any]:
    for name in ENDS:
        if (end := getattr(config.training, name)) is not None:
            return {name: 2 * end}
    return {"steps": 2 * finished.step}


def _round(value: float) -> float:
    """Two significant digits: a learning rate is no measurement."""
    return float(f"{value:.2g}")


#: What is said about a course of training, and the settings that answer it.
CURES: Mapping[str, tuple[str, Callable[[Config, Finished], dict[str, Any]]]] = {
    "overfitting": ("The model overfits: regularize it.", lambda config, _: _regularize(config)),
    "diverging": (
        "Training loss rose: lower the learning rate.",
        lambda config, _: {"lr": _round(config.training.lr / 3)},
    ),
    "stalled": ("Training stalled: change the learning rate.", lambda config, _: _change_lr(config)),
    "underfitting": ("Both losses still fall: train longer.", _longer),
}
