"""Advice on the course of training: what the losses show, and which settings to change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

#: Evaluations before any advice: two intervals, so that one odd value decides nothing.
FEWEST = 3
#: Changes below this fraction of the loss are noise: another seed, or another order of the data, moves it by about 1 %.
NOISE = 0.02
#: A change below this, in nats, does not matter either, however small the loss itself is: 1 % of perplexity.
SMALLEST = 0.01
#: Evaluations in a row that must lie above the best one by more than noise before it counts as overfitting.
EVALUATIONS_PAST_THE_BEST = 2
#: A training loss above its best by this fraction is more than noise: 30 % of 2 nats is a perplexity 1.8 times as high.
STEEP = 0.3
#: A rise below this, in nats, does no harm: a loss of 0.01 may triple.
STEEPEST_HARMLESS = 0.3
#: Evaluations in which a loss that moves at all has moved; before that, warmup alone may hold it still.
PATIENCE_WITH_A_STALL = 4
#: Below this training loss, in nats, standing still is not a fault: nine choices in ten are predicted.
LEARNED = 0.1
#: Training and validation loss closer than this fraction: nothing was memorized, there is room for more.
CLOSE = 0.05
#: A fall by this fraction over the last two evaluations continues; noise does not do it to both losses at once.
STILL_FALLING = 0.01
#: From this fraction of the planned training on, the rest is too short to finish the fall.
NEAR_THE_END = 0.8


#: What can be wrong with the course of training.
Kind = Literal["diverging", "overfitting", "stalled", "underfitting"]


class Advice(NamedTuple):
    """What is wrong, and a sentence or two about it that name settings in backticks."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Point:
    """One evaluation: updates done, mean training loss since the last one, and validation loss, in nats."""

    step: int
    training: float
    validation: float


def advise(history: Sequence[Point], *, fraction: float = 1.0) -> Advice | None:
    """What is wrong with the course of training, and what to do about it.

    Args:
        history: All evaluations so far.
        fraction: Of the planned training that is done: only near the end is a loss that still falls a fault.

    Returns:
        The advice; None if all is well, or it is too early to tell.
    """
    for look in (_divergence, _overfitting, _stall):
        if found := look(history):
            return found
    return _underfitting(history) if fraction >= NEAR_THE_END else None


def points_of(steps: Sequence[int], training: Sequence[float], validation: Sequence[float]) -> list[Point]:
    """Evaluations as points; those before the first update have no training loss, and are left out."""
    values = zip(steps, training, validation, strict=True)
    return [Point(*value) for value in values if math.isfinite(value[1])]


def _divergence(history: Sequence[Point]) -> Advice | None:
    remedy = "Lower `lr` (to a third, for example), or clip gradients with `clip=1`."
    for point in history:
        if not (math.isfinite(point.training) and math.isfinite(point.validation)):
            text = f"Diverged: the loss is no longer a finite number at step {point.step:,}. {remedy}"
            return Advice("diverging", text)
    if len(history) < 2:
        return None
    best, last = min(history, key=lambda point: point.training), history[-1]
    if last.training - best.training <= max(STEEP * abs(best.training), STEEPEST_HARMLESS):
        return None
    risen = f"from {best.training:.3f} at step {best.step:,} to {last.training:.3f}"
    return Advice("diverging", f"Diverging: training loss rose {risen}. {remedy}")


def _overfitting(history: Sequence[Point]) -> Advice | None:
    if len(history) < FEWEST:
        return None
    best = min(history, key=lambda point: point.validation)
    last = history[-1]
    if last.training >= best.training or not _has_risen_since(best, history):
        return None
    return Advice(
        "overfitting",
        f"Overfitting: validation loss was best at step {best.step:,} ({best.validation:.3f}) and has risen to "
        f"{last.validation:.3f} since, while training loss fell from {best.training:.3f} to {last.training:.3f}. "
        "Try more `dropout`, `weight_decay`, `patience`, or more data.",
    )


def _has_risen_since(best: Point, history: Sequence[Point]) -> bool:
    """Whether validation loss was above the best, by more than noise, at each of the last evaluations."""
    since = [point for point in history if point.step > best.step][-EVALUATIONS_PAST_THE_BEST:]
    close = any(point.validation - best.validation <= _noise(best.validation) for point in since)
    return len(since) == EVALUATIONS_PAST_THE_BEST and not close


def _stall(history: Sequence[Point]) -> Advice | None:
    if len(history) < PATIENCE_WITH_A_STALL:
        return None
    first, last = history[0], history[-1]
    moved = max(abs(point.training - first.training) for point in history)
    falling = all(after.training < before.training for before, after in pairwise(history))  # slowly, but it falls
    if moved > _noise(first.training) or last.training < LEARNED or falling:
        return None
    return Advice(
        "stalled",
        f"Stalled: training loss has been at {first.training:.3f} since step {first.step:,}. If that is no better "
        "than guessing, change `lr`: ten times as high if it is small, a tenth if it is large.",
    )


def _underfitting(history: Sequence[Point]) -> Advice | None:
    if len(history) < FEWEST:
        return None
    before, last = history[-3], history[-1]
    if abs(last.validation - last.training) > CLOSE * abs(last.training):
        return None
    if not (_falls(before.training, last.training) and _falls(before.validation, last.validation)):
        return None
    if last.validation > min(point.validation for point in history):
        return None
    return Advice(
        "underfitting",
        f"Underfitting: training loss ({last.training:.3f}) and validation loss ({last.validation:.3f}) are close and "
        "both still fall. Train longer, or with a higher `lr`.",
    )


def _falls(earlier: float, loss: float) -> bool:
    """Whether a loss has fallen by more than a small part of it."""
    return not earlier - loss <= max(STILL_FALLING * abs(earlier), SMALLEST)


def _noise(loss: float) -> float:
    return max(NOISE * abs(loss), SMALLEST)
