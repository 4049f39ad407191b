"""Context: how well a step is predicted from the last m steps, for growing m, and the fewest that are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Which predictor a loss is from.
By = Literal["nothing", "counts", "lag", "place", "probe", "linear", "season"]
#: Fewer steps are enough if they leave at most this fraction of the gain …
LEFT = 0.03
#: … or if so many standard errors do not tell the difference.
ERRORS = 2.0
#: What is less than this fraction of the gain is not listed.
TRIFLE = 0.005
#: A gain counts from this many standard errors on.
SURE = 3.5
#: Errors of neighboring steps are not independent: their means over so many steps are taken to be.
TOGETHER = 32


class Point(NamedTuple):
    """A prediction from so many steps."""

    steps: int
    losses: Array  # (N,) in nats, of the same steps for all points
    by: By


@dataclass(frozen=True, eq=False)
class Context:
    """What the last steps tell of the next one."""

    steps: tuple[int, ...]  # ascending, from 0: those that are better than all fewer ones
    losses: tuple[float, ...]  # nats per step, of the best prediction from so many steps
    by: tuple[By, ...]  # how that is predicted
    memory: int  # the fewest steps that are enough
    gain: float  # nats per step, against no context
    error: float  # its standard error
    at_least: bool = False  # longer contexts come too rarely to be judged, or a larger network may see further
    drift: float = 0.0  # the fraction of the gain that is left if neighboring steps are shuffled; not in the losses
    hidden: bool = False  # a recurrent network predicts better than pairs of steps and counts of contexts
    probed: str = ""  # why no recurrent network was tried; empty if it was, or where none is
    lines: bool = False  # each line is judged by itself

    def share(self, place: int) -> float:
        """The fraction of the gain that the steps at a place have."""
        return (self.losses[0] - self.losses[place]) / self.gain if self.gain > 0 else 0.0


def standard_error(values: Array) -> float:
    """Of the mean, from means over neighbors.

    Example:
        >>> round(standard_error(np.tile([0.0, 1.0], 500)), 3)
        0.0
    """
    count = len(values) // TOGETHER
    if count < 4:
        return float(values.std() / max(len(values), 1) ** 0.5)
    means = values[: count * TOGETHER].reshape(count, TOGETHER).mean(1)
    return float(max(means.std(ddof=1) / count**0.5, 0.0))


def choose_shortest(points: Sequence[Point]) -> Context:
    """The fewest steps from which the next is predicted about as well as from any number of them.

    Args:
        points: Predictions; the first is from no steps.

    Returns:
        The memory, and the best losses on the way to it and beyond; a memory of 0 if the gain may be chance.

    Example:
        choose_shortest([Point(0, losses, "nothing"), Point(1, fewer, "counts")]).memory
    """
    best = min(points, key=lambda one: one.losses.mean())
    difference = points[0].losses - best.losses
    gain, error = float(difference.mean()), standard_error(difference)
    curve = _descend(points)
    if gain <= SURE * error or gain <= 0:
        return _context(curve[:1], 0, max(gain, 0.0), error)
    enough = (one.steps for one in curve if _suffices(one, best, gain))
    return _context(curve, next(enough), gain, error)


def _suffices(one: Point, best: Point, gain: float) -> bool:
    """Whether a prediction is about as good as the best."""
    difference = one.losses - best.losses
    left = float(difference.mean())
    return left <= LEFT * gain or left <= min(ERRORS * standard_error(difference), 0.25 * gain)


def _descend(points: Sequence[Point]) -> list[Point]:
    """By steps: the predictions that are better than all from fewer steps, by more than a trifle."""
    found = [points[0]]
    least = min(float(one.losses.mean()) for one in points)
    trifle = TRIFLE * (float(points[0].losses.mean()) - least)
    for one in sorted(points[1:], key=lambda one: (one.steps, one.losses.mean())):
        if one.losses.mean() < found[-1].losses.mean() - trifle:
            found.append(one)
    return found


def _context(curve: Sequence[Point], memory: int, gain: float, error: float) -> Context:
    losses = tuple(float(one.losses.mean()) for one in curve)
    return Context(tuple(one.steps for one in curve), losses, tuple(one.by for one in curve), memory, gain, error)
