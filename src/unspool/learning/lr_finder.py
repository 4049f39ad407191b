"""Learning-rate range test: the learning rate rises with every update, until the loss diverges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from unspool.cells.numbers import is_whole
from unspool.errors import ArgumentError
from unspool.learning.optimizer_state import load_optimizer, optimizer_tensors

#: How much of the smoothed loss remains with every update.
SMOOTHING = 0.9
#: Updates in which the smoothed loss still rests on too few losses for its slope to mean anything: 1/(1 − SMOOTHING).
SETTLING = 10
#: The search is over when the smoothed loss is this many times as high as its lowest value.
DIVERGED = 4.0
#: At the minimum of the smoothed loss training is about to diverge; with a learning rate lower by this factor not.
MARGIN = 3.0


@dataclass(frozen=True)
class LRSearch:
    """The learning rates that were tried, the smoothed losses at each, and the learning rate to start with."""

    lrs: tuple[float, ...]
    losses: tuple[float, ...]
    suggestion: float


def find_lr(
    step: Callable[[float], float], *, lowest: float = 1e-6, highest: float = 10.0, count: int = 100
) -> LRSearch:
    """Try learning rates that rise exponentially, one update each, until the loss diverges.

    The suggestion is where the smoothed loss falls most steeply against the log of the learning rate, and at most a
    third of the learning rate at its minimum. The search spoils what it trains: put it into `restored`.

    Args:
        step: `step(lr)` makes one update and returns its loss.
        lowest: The first learning rate.
        highest: The last one.
        count: How many are tried at most, from 3.

    Returns:
        What was tried, and the suggestion.

    Raises:
        ArgumentError: The loss is not finite from the start, or never falls.

    Example:
        with restored(model, optimizer):
            lr = find_lr(step).suggestion
    """
    if not 0 < lowest < highest < math.inf:
        raise ArgumentError.of("lowest", lowest, f"is not between 0 and `highest` (={highest})", "Give 1e-6 and 10")
    if not is_whole(count) or count < 3:
        raise ArgumentError.of("count", count, "is too few learning rates to see a slope", "Give 100; at least 3")
    lrs: list[float] = []
    losses: list[float] = []
    running = 0.0
    for index in range(count):
        lr = lowest * (highest / lowest) ** (index / (count - 1))
        running = SMOOTHING * running + (1 - SMOOTHING) * step(lr)
        smoothed = running / (1 - SMOOTHING ** (index + 1))  # the average started at 0; this removes its weight
        if not math.isfinite(smoothed):
            break
        lrs.append(lr)
        losses.append(smoothed)
        if _has_diverged(losses):
            break
    return LRSearch(tuple(lrs), tuple(losses), _suggest(lrs, losses, lowest))


def _has_diverged(losses: list[float]) -> bool:
    best = min(losses)
    return losses[-1] - best > (DIVERGED - 1) * abs(best)


def _suggest(lrs: list[float], losses: list[float], lowest: float) -> float:
    if not lrs:
        raise ArgumentError.of(
            "lowest",
            lowest,
            "is a learning rate at which the loss is not finite",
            "Lower it, or look for a NaN in the data",
        )
    minimum = losses.index(min(losses))
    if minimum == 0:
        raise ArgumentError.of(
            "lowest",
            lowest,
            f"started a search up to {lrs[-1]:.3g} in which the loss never fell below its first value, {losses[0]:.4g}",
            "Lower `lowest` if the loss rose, raise `highest` if it did not change; check that `step` makes an update",
        )
    first = min(SETTLING, minimum - 1)
    falls = [
        losses[i + 1] - losses[max(i - 1, 0)] for i in range(minimum)
    ]  # learning rates are evenly spaced in the log
    falls[0] *= 2  # over one interval, where the others are over two
    steepest = min(range(first, minimum), key=falls.__getitem__)
    return min(lrs[steepest], lrs[minimum] / MARGIN)


@contextmanager
def restored(module: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    """A context after which a model and its optimizer are, bit for bit, what they were before.

    That is parameters, gradients, buffers, the state of the optimizer, and the state of torch's random numbers.

    Args:
        module: What is trained inside the context.
        optimizer: One that `make_optimizer` made.

    Example:
        with restored(model, optimizer):
            lr = find_lr(step).suggestion
    """
    restore = _snapshot(module)
    tensors, facts = optimizer_tensors(optimizer)
    devices = {parameter.device for parameter in module.parameters() if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        try:
            yield
        finally:
            restore()
            load_optimizer(optimizer, tensors, facts)


def _snapshot(module: nn.Module) -> Callable[[], None]:
    """A function that restores parameters, gradients and buffers as they are now."""
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    # Not by module.buffers(): a layer may put another tensor in a buffer's place.
    buffers = [(owner, name, buffer) for owner in module.modules() for name, buffer in owner._buffers.items()]
    tensors = [*module.parameters(), *(gradient for _, gradient in gradients), *(buffer for *_, buffer in buffers)]
    copies = [(tensor, tensor.detach().clone()) for tensor in tensors if tensor is not None]

    @torch.no_grad()
    def restore() -> None:
        for tensor, value in copies:
            tensor.copy_(value)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for owner, name, buffer in buffers:
            owner._buffers[name] = buffer

    return restore
