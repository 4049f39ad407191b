"""Learning-rate range test: the rate rises with every update, to see where the loss falls and where it breaks out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import ArgumentError
from unspool.learning.optimisers import load_optimiser, optimiser_tensors

#: How much of the smoothed loss stays with every update.
MEMORY = 0.9
#: Updates in which the smoothed loss still rests on too few losses for its slope to mean anything: 1/(1 − MEMORY).
SETTLING = 10
#: The search is over when the smoothed loss has come this many times as high as its best.
BROKEN_OUT = 4.0
#: At the minimum of the smoothed loss training is about to break out; this much below it, it is not.
DISTANCE = 3.0


@dataclass(frozen=True)
class RateSearch:
    """The rates tried, the smoothed losses that they gave, and the rate to begin with."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    suggestion: float


def find_rate(
    step: Callable[[float], float], *, lowest: float = 1e-6, highest: float = 10.0, count: int = 100
) -> RateSearch:
    """Calls `step(rate)`, which makes one update and returns its loss, at up to `count` rates that rise exponentially.

    The suggestion is the rate of the steepest fall of the smoothed loss against the log of the rate, and at most a
    third of the rate at the smoothed minimum. The search spoils what it trains; put it into `restored`.
    """
    if not 0 < lowest < highest < math.inf:
        raise ArgumentError.of("lowest", lowest, f"is not between 0 and `highest` (={highest})", "Give 1e-6 and 10")
    if isinstance(count, bool) or not isinstance(count, int) or count < 3:
        raise ArgumentError.of("count", count, "is too few rates to see a slope", "Give 100; at least 3")
    rates: list[float] = []
    losses: list[float] = []
    running = 0.0
    for index in range(count):
        rate = lowest * (highest / lowest) ** (index / (count - 1))
        running = MEMORY * running + (1 - MEMORY) * step(rate)
        smoothed = running / (1 - MEMORY ** (index + 1))  # the average began at 0; this takes the 0's share out
        if not math.isfinite(smoothed):
            break
        rates.append(rate)
        losses.append(smoothed)
        best = min(losses)
        if smoothed - best > (BROKEN_OUT - 1) * abs(best):
            break
    return RateSearch(tuple(rates), tuple(losses), _suggest(rates, losses, lowest))


def _suggest(rates: list[float], losses: list[float], lowest: float) -> float:
    if not rates:
        raise ArgumentError.of(
            "lowest",
            lowest,
            "is a rate at which the loss is not finite already",
            "Lower it, or look for a NaN in the data",
        )
    minimum = losses.index(min(losses))
    if minimum == 0:
        raise ArgumentError.of(
            "lowest",
            lowest,
            f"began a search up to {rates[-1]:.3g} in which the loss never fell below its first value, {losses[0]:.4g}",
            "Lower `lowest` if the loss rose, raise `highest` if it stood still; check that `step` makes an update",
        )
    first = min(SETTLING, minimum - 1)
    falls = [losses[i + 1] - losses[max(i - 1, 0)] for i in range(minimum)]  # rates are evenly spaced in the log
    falls[0] *= 2  # over one interval, where the others are over two
    steepest = min(range(first, minimum), key=falls.__getitem__)
    return min(rates[steepest], rates[minimum] / DISTANCE)


@contextmanager
def restored(module: nn.Module, optimiser: Optimizer) -> Iterator[None]:
    """Afterwards parameters, gradients, buffers, optimiser and torch's random state are bit for bit what they were."""
    parameters = [(parameter, _copy(parameter), parameter.grad) for parameter in module.parameters()]
    gradients = [(gradient, _copy(gradient)) for _, _, gradient in parameters if gradient is not None]
    # Not by module.buffers(): a layer may put another tensor in a buffer's place.
    places = [(owner, name, buffer) for owner in module.modules() for name, buffer in owner._buffers.items()]
    buffers = [(buffer, _copy(buffer)) for _, _, buffer in places if buffer is not None]
    tensors, facts = optimiser_tensors(optimiser)
    devices = {parameter.device for parameter, _, _ in parameters if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in (*gradients, *buffers):
                    tensor.copy_(value)
                for parameter, value, gradient in parameters:
                    parameter.copy_(value)
                    parameter.grad = gradient
            for owner, name, buffer in places:
                owner._buffers[name] = buffer
            load_optimiser(optimiser, tensors, facts)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
