"""Learning-rate schedules: pure functions from the progress of training to a factor of the base learning rate.

A schedule has no state. Training that resumes from a checkpoint has the same progress, and so the same learning rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from unspool.cells.numbers import is_whole
from unspool.errors import ArgumentError, UnknownNameError


@dataclass(frozen=True)
class Progress:
    """How far training has come.

    Example:
        schedule.factor(Progress(step=100, fraction=0.25, epoch=2))
    """

    step: int  # updates done
    fraction: float  # of the planned training
    epoch: int  # from 0
    validation: tuple[float, ...] = ()  # losses so far


class Shape(Protocol):
    """The course of the learning rate, apart from warmup."""

    def factor(self, progress: Progress) -> float: ...


@dataclass(frozen=True)
class Constant:
    """1, always."""

    def factor(self, progress: Progress) -> float:  # noqa: ARG002 - the same whatever the progress
        return 1.0


@dataclass(frozen=True)
class Linear:
    """From 1 to `min_lr_ratio`, linearly over the planned training."""

    min_lr_ratio: float

    def factor(self, progress: Progress) -> float:
        return 1 + (self.min_lr_ratio - 1) * _clamp(progress.fraction)


@dataclass(frozen=True)
class Cosine:
    """From 1 to `min_lr_ratio` along half a cosine: slow at both ends."""

    min_lr_ratio: float

    def factor(self, progress: Progress) -> float:
        return self.min_lr_ratio + (1 - self.min_lr_ratio) * (1 + math.cos(math.pi * _clamp(progress.fraction))) / 2


@dataclass(frozen=True)
class Epoch:
    """1 for the first `decay_after` epochs, then times `decay` with every epoch."""

    decay: float
    decay_after: int

    def factor(self, progress: Progress) -> float:
        return float(self.decay ** max(0, progress.epoch - self.decay_after + 1))


@dataclass(frozen=True)
class Plateau:
    """Times `decay` whenever the best validation loss is over `patience` evaluations old; then counting restarts."""

    decay: float
    patience: int

    def factor(self, progress: Progress) -> float:
        best, waited, decays = math.inf, 0, 0
        for loss in progress.validation:
            if loss < best:
                best, waited = loss, 0
            else:  # NaN too: it is no improvement
                waited += 1
            if waited > self.patience:
                waited, decays = 0, decays + 1
        return float(self.decay**decays)


#: Name → the shape; a shape's fields are the options of `make_schedule` that it reads.
SHAPES: Mapping[str, type[Constant | Linear | Cosine | Epoch | Plateau]] = {
    "constant": Constant,
    "linear": Linear,
    "cosine": Cosine,
    "epoch": Epoch,
    "plateau": Plateau,
}


@dataclass(frozen=True)
class Schedule:
    """A shape after `warmup` updates, in which the factor rises linearly from 1/warmup to 1."""

    shape: Shape
    warmup: int = 0

    def factor(self, progress: Progress) -> float:
        """The factor of the base learning rate for the next update."""
        warmth = min(1.0, (progress.step + 1) / self.warmup) if self.warmup else 1.0
        return warmth * self.shape.factor(progress)


def make_schedule(
    name: str,
    *,
    warmup: int = 0,
    min_lr_ratio: float = 0.0,
    decay: float = 0.5,
    decay_after: int = 4,
    patience: int = 1,
) -> Schedule:
    """The schedule of this name. Arguments of other schedules have no effect.

    Args:
        name: constant, linear, cosine, epoch or plateau.
        warmup: Updates over which the learning rate rises first.
        min_lr_ratio: The last factor of linear and cosine.
        decay: The factor of epoch and plateau.
        decay_after: Epochs before epoch starts to decay.
        patience: Evaluations without improvement before plateau decays.

    Returns:
        A schedule; `factor(progress)` is what to multiply the base learning rate by.

    Example:
        schedule = make_schedule("cosine", warmup=100, min_lr_ratio=0.1)
        lr = 3e-3 * schedule.factor(Progress(step, step / steps, epoch))
    """
    if name not in SHAPES:
        raise UnknownNameError.among("name", name, SHAPES)
    for option, count in (("warmup", warmup), ("decay_after", decay_after), ("patience", patience)):
        _check_count(option, count)
    if not 0 <= min_lr_ratio < math.inf:
        raise ArgumentError.of(
            "min_lr_ratio", min_lr_ratio, "is not a factor of the learning rate", "Give a number from 0, mostly up to 1"
        )
    if not 0 < decay <= 1:
        raise ArgumentError.of("decay", decay, "is not above 0 and at most 1", "Give 0.5 to halve the learning rate")
    options: dict[str, Any] = {
        "min_lr_ratio": min_lr_ratio,
        "decay": decay,
        "decay_after": decay_after,
        "patience": patience,
    }
    shape = SHAPES[name]
    return Schedule(shape(**{field.name: options[field.name] for field in fields(shape)}), warmup)


def _check_count(option: str, count: int) -> None:
    if not is_whole(count) or count < 0:
        raise ArgumentError.of(option, count, "is not a whole number from 0", "Give a number, 0 for none")


def _clamp(fraction: float) -> float:
    return min(max(fraction, 0.0), 1.0)
