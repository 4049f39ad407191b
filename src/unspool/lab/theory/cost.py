"""Cost: the time and memory of one training step of a recurrence and of attention, by the length of the sequence.

A recurrence does the same work at every step, so its cost is linear in the length T. Attention compares every step with
all earlier ones, so its cost is quadratic. From some length T_win on, the recurrence is cheaper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.nn import DecoderTransformer, Recurrent

Array = NDArray[np.float64]
LENGTHS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, eq=False)
class Fits:
    """Polynomials in T, lowest power first, none of whose terms is negative, and the slope of log cost on log T."""

    rnn: Array  # (2,)
    attention: Array  # (3,)
    rnn_exponent: float
    attention_exponent: float
    crossing: float | None  # the length from which attention is more expensive; 0 if it always is, None if it never is

    def at(self, lengths: Sequence[float]) -> tuple[Array, Array]:
        """The fitted costs of recurrence and attention at any lengths."""
        steps = np.asarray(lengths, np.float64)
        return np.polynomial.Polynomial(self.rnn)(steps), np.polynomial.Polynomial(self.attention)(steps)


@dataclass(frozen=True, eq=False)
class Cost:
    """Seconds and bytes of one training step at each length."""

    steps: NDArray[np.int64]  # (n,)
    rnn_seconds: Array
    attention_seconds: Array
    rnn_bytes: Array  # that the forward pass keeps for the backward pass
    attention_bytes: Array
    time: Fits
    memory: Fits
    crossing: float | None  # T_win, of time


def measure_cost(
    rnn: nn.Module | None = None,
    attention: nn.Module | None = None,
    *,
    width: int = 64,
    batch_size: int = 4,
    steps: Sequence[int] = LENGTHS,
    rounds: int = 3,
) -> Cost:
    """Time a recurrence and attention on the same input and the same machine.

    Args:
        rnn: a module that reads (time, batch, width); by default an LSTM as wide as its input.
        attention: its opponent; by default one layer of a Transformer decoder as wide as its input.
        width: features of the input.
        batch_size: sequences of the input.
        steps: lengths to measure, at least three.
        rounds: passes per length; the fastest one counts.

    Returns:
        Seconds and bytes by length, the polynomials that fit them, and the length at which they cross.

    Example:
        >>> measure_cost(steps=(64, 128, 256)).crossing  # doctest: +SKIP
    """
    _check(steps, width=width, batch_size=batch_size, rounds=rounds)
    heads = next(heads for heads in (4, 2, 1) if width % heads == 0)
    pair = rnn or Recurrent("lstm", width, width), attention or DecoderTransformer(width, heads)
    lengths = np.array(sorted(set(steps)), np.int64)
    seconds, kept = np.empty((2, len(lengths))), np.empty((2, len(lengths)))
    for place, length in enumerate(lengths):
        x = torch.randn(int(length), batch_size, width, generator=torch.Generator().manual_seed(0))
        kept[:, place] = [count_kept(module, x) for module in pair]  # this pass also warms up
        # The modules take turns, so that a busy moment of the machine hits both.
        seconds[:, place] = np.min([[_time(module, x) for module in pair] for _ in range(rounds)], axis=0)
    timing, memory = fit_costs(lengths, seconds[0], seconds[1]), fit_costs(lengths, kept[0], kept[1])
    return Cost(lengths, seconds[0], seconds[1], kept[0], kept[1], timing, memory, timing.crossing)


def _check(steps: Sequence[int], **counts: int) -> None:
    if len(set(steps)) < 3 or min(steps) < 1:
        raise ArgumentError.of("steps", steps, "are not three lengths or more", "Give such as (64, 128, 256)")
    for name, value in counts.items():
        if value < 1:
            raise ArgumentError.of(name, value, "is not a positive number", "Give 1 or more")


def fit_costs(steps: NDArray[np.int64], rnn: Array, attention: Array) -> Fits:
    """A line through the recurrence's costs, a parabola through attention's, and where they cross."""
    line, parabola = _fit(steps, rnn, 1), _fit(steps, attention, 2)
    exponents = [float(np.polyfit(np.log(steps), np.log(cost), 1)[0]) for cost in (rnn, attention)]
    return Fits(line, parabola, exponents[0], exponents[1], _crossing(line, parabola))


def count_kept(module: nn.Module, x: Tensor) -> int:
    """Bytes of all tensors that the forward pass keeps for the backward pass, without weights and input."""
    outside = {one.untyped_storage().data_ptr() for one in (x, *module.parameters(), *module.buffers())}
    sizes: dict[int, int] = {}
    held: list[Tensor] = []  # a freed tensor's address may be used again

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in outside:
            sizes[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)
        return tensor

    hooks: Callable[..., Any] = torch.autograd.graph.saved_tensors_hooks
    with hooks(pack, lambda tensor: tensor):
        output = _output(module(x))
        output.sum().backward()
    module.zero_grad()
    return sum(sizes.values())


def _time(module: nn.Module, x: Tensor) -> float:
    begun = time.perf_counter()
    _output(module(x)).sum().backward()
    spent = time.perf_counter() - begun
    module.zero_grad()
    return spent


def _output(found: Any) -> Tensor:
    output: Tensor = found if isinstance(found, Tensor) else found[0]
    return output


def _fit(steps: NDArray[np.int64], cost: Array, degree: int) -> Array:
    """Least squares of relative errors over every subset of terms, of which those without negative terms count."""
    powers = np.asarray(steps, np.float64)[:, None] ** np.arange(degree + 1) / cost[:, None]
    best, least = np.zeros(degree + 1), np.inf
    for chosen in range(1, 2 ** (degree + 1)):
        terms = [power for power in range(degree + 1) if chosen >> power & 1]
        scale = np.linalg.norm(powers[:, terms], axis=0)
        found = np.linalg.lstsq(powers[:, terms] / scale, np.ones(len(cost)), rcond=None)[0] / scale
        error = float(np.square(powers[:, terms] @ found - 1).sum())
        if (found >= 0).all() and error < least:
            best, least = np.zeros(degree + 1), error
            best[terms] = found
    return best


def _crossing(line: Array, parabola: Array) -> float | None:
    difference = np.polynomial.Polynomial(parabola) - np.polynomial.Polynomial(line)
    leading = difference.trim().coef[-1]
    if leading <= 0:  # the recurrence does not become cheaper at any length
        return None
    roots = np.asarray(difference.roots(), np.complex128)
    real = roots.real[np.abs(roots.imag) < 1e-9 * np.maximum(1.0, np.abs(roots))]
    return float(real.max(initial=0.0))
