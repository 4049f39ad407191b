"""Cost: what a training step of a recurrence and of attention takes in time and memory as sequences grow longer.

A recurrence does the same at every step, so that its cost is linear in the length T. Attention compares every step with
all before it: quadratic. From some length T_win on the recurrence is the cheaper one.
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
    crossing: float | None  # the length from which attention is the dearer one; 0 if it always is, None if never

    def at(self, lengths: Sequence[float]) -> tuple[Array, Array]:
        """What the polynomials say of recurrence and attention at any lengths."""
        steps = np.asarray(lengths, np.float64)
        return np.polynomial.Polynomial(self.rnn)(steps), np.polynomial.Polynomial(self.attention)(steps)


@dataclass(frozen=True, eq=False)
class Cost:
    """Seconds and bytes of one training step at each length."""

    steps: NDArray[np.int64]  # (n,)
    rnn_seconds: Array
    attention_seconds: Array
    rnn_bytes: Array  # that are kept from the pass forward for the pass back
    attention_bytes: Array
    time: Fits
    memory: Fits
    crossing: float | None  # T_win, of time


def measure_cost(
    rnn: nn.Module | None = None,
    attention: nn.Module | None = None,
    *,
    width: int = 64,
    rows: int = 4,
    steps: Sequence[int] = LENGTHS,
    rounds: int = 3,
) -> Cost:
    """Time both on the same input (time, rows, width) and on this machine; the least of some rounds counts.

    Without modules: an LSTM and one layer of a Transformer decoder, as wide as their input.
    """
    if len(set(steps)) < 3 or min(steps) < 1:
        raise ArgumentError.of("steps", steps, "are not three lengths or more", "Give such as (64, 128, 256)")
    for name, value in (("width", width), ("rows", rows), ("rounds", rounds)):
        if value < 1:
            raise ArgumentError.of(name, value, "is not a positive number", "Give 1 or more")
    heads = next(heads for heads in (4, 2, 1) if width % heads == 0)
    pair = rnn or Recurrent("lstm", width, width), attention or DecoderTransformer(width, heads)
    lengths = np.array(sorted(set(steps)), np.int64)
    seconds, kept = np.full((2, len(lengths)), np.inf), np.empty((2, len(lengths)))
    for place, length in enumerate(lengths):
        x = torch.randn(int(length), rows, width, generator=torch.Generator().manual_seed(0))
        for number, module in enumerate(pair):
            kept[number, place] = count_kept(module, x)  # the first pass also warms up
        for _ in range(rounds):  # in turns, as a machine has its moods
            for number, module in enumerate(pair):
                seconds[number, place] = min(seconds[number, place], _time(module, x))
    timing, memory = fit_costs(lengths, seconds[0], seconds[1]), fit_costs(lengths, kept[0], kept[1])
    return Cost(lengths, seconds[0], seconds[1], kept[0], kept[1], timing, memory, timing.crossing)


def fit_costs(steps: NDArray[np.int64], rnn: Array, attention: Array) -> Fits:
    """A line through the recurrence's costs, a parabola through attention's, and where they cross."""
    line, parabola = _fit(steps, rnn, 1), _fit(steps, attention, 2)
    exponents = [float(np.polyfit(np.log(steps), np.log(cost), 1)[0]) for cost in (rnn, attention)]
    return Fits(line, parabola, exponents[0], exponents[1], _crossing(line, parabola))


def count_kept(module: nn.Module, x: Tensor) -> int:
    """Bytes of all tensors that the pass forward keeps for the pass back, weights and input left out."""
    outside = {one.untyped_storage().data_ptr() for one in (x, *module.parameters(), *module.buffers())}
    sizes: dict[int, int] = {}
    held: list[Tensor] = []  # what is freed may lend its address to another

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
    """Least squares of relative errors, over all choices of terms that leave none negative: there are few."""
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
    if leading <= 0:  # beyond all lengths the recurrence is no cheaper
        return None
    roots = np.asarray(difference.roots(), np.complex128)
    real = roots.real[np.abs(roots.imag) < 1e-9 * np.maximum(1.0, np.abs(roots))]
    return float(real.max(initial=0.0))
