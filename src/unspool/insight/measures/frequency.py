"""Frequency response: how strongly each unit, and the network up to it, answers to sinusoids from slow to fast.

Small sinusoids are added to the recorded input; the answer is followed to first order, exactly, and its amplitude is
read off by least squares once what the beginning left has died away. Beside it stands the gain of the first-order
filter h = a h + x, c/√(1 − 2a cos ω + a²), with the a and c that fit best.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from unspool.errors import ArgumentError
from unspool.insight.measures.jacobians import longest_chain, longest_rows
from unspool.insight.measures.sensitivity import Entrance, find_entrance, random_directions, respond_by_unit
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

#: Random directions of the input that each frequency is measured in, at most; the same for all frequencies.
DIRECTIONS = 2
#: The least steps in which an amplitude is read off.
LEAST_STEPS = 4
#: The nearest to 1 that a fitted pole may be: at 1 the filter's gain at rest has no bound.
LARGEST_POLE = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class Frequency:
    """Gains against angular frequency, per step.

    The lowest frequency has one period within the steps that are read. Rows of values are NaN for a unit that runs
    too few steps, and of `stack` and `phase` also for one that does not run the same steps as the entrance.
    """

    labels: tuple[str, ...]
    omega: Array  # (frequencies,): from low up to π; empty where rows are too short
    gains: Array  # (units, frequencies): output of the unit over its own input, root mean square over directions
    stack: Array  # (units, frequencies): output of the unit over the entrance's input
    phase: Array  # (units, frequencies): of `stack`, each output counted with its sign at the lowest frequency
    pole: Array  # (units,): a, the first-order filter that fits `gains`
    theory: Array  # (units, frequencies): that filter's gain


def measure_frequency(recording: Recording, count: int = 12) -> Frequency:
    """The response at `count` frequencies, evenly apart in their logarithm."""
    if count < 2:
        raise ArgumentError.of("count", count, "is too few frequencies for a curve", "Give an integer of at least 2")
    units = recording.units
    labels = tuple(unit.label for unit in units)
    entrance = find_entrance(recording)
    span = range(0) if entrance is None else steady_span(units, entrance.steps)
    if entrance is None or len(span) < LEAST_STEPS:
        none = np.full((len(units), 0), np.nan)
        return Frequency(labels, np.full(0, np.nan), none, none, none, np.full(len(units), np.nan), none)
    omega = np.geomspace(2 * math.pi / len(span), math.pi, count)
    gains = np.array([_own_gain(recording, unit, omega) for unit in units])
    stack, phase = _through_the_stack(recording, entrance, omega)
    fits = [first_order(omega, gain) for gain in gains]
    theory = np.array([scale * _filter(a, omega) for a, scale in fits])
    return Frequency(labels, omega, gains, stack, phase, np.array([a for a, _ in fits]), theory)


def steady_span(units: list[Unit], steps: int) -> range:
    """The steps, of so many, at which what rows began with has had time to die away."""
    ahead, back = any(not unit.reverse for unit in units), any(unit.reverse for unit in units)
    if ahead and back:
        return range(steps // 3, steps - steps // 3)
    return range(steps - steps // 2) if back else range(steps // 2, steps)


def amplitudes(signal: Array, omega: float, steps: range) -> Complex:
    """Y of the signal, (steps, width), that is nearest to Re(Y e^{iωt})."""
    angle = omega * np.array(steps)
    # At ω = π the sine is zero but for rounding, which must not count as a part of the signal.
    parts, *_ = np.linalg.lstsq(np.stack([np.cos(angle), np.sin(angle)], -1), signal, rcond=1e-9)
    found: Complex = parts[0] - 1j * parts[1]
    return found


def first_order(omega: Array, gain: Array) -> tuple[float, float]:
    """The a and c of the filter whose gain is nearest; NaN where there is no gain to fit.

    1/g² = p − q cos ω is a line in cos ω, with p = (1 + a²)/c² and q = 2a/c²; that gives a. Of a and 1/a, which have
    gains of the same shape, it is the one within the unit circle. Then c is the geometric mean of the rest.
    """
    some = np.isfinite(gain) & (gain > 0)
    if some.sum() < 2:
        return math.nan, math.nan
    square = np.square(gain[some])
    table = np.stack([square, -square * np.cos(omega[some])], -1)
    (p, q), *_ = np.linalg.lstsq(table, np.ones(len(table)), rcond=None)
    a = float(q / (p + math.sqrt(p * p - q * q))) if abs(q) < p else math.copysign(1.0, square[0] - square[-1])
    a = min(max(a, -LARGEST_POLE), LARGEST_POLE)
    return a, float(np.exp(np.log(gain[some] / _filter(a, omega[some])).mean()))


def _filter(a: float, omega: Array) -> Array:
    """The gain of h = a h + x."""
    gain: Array = 1 / np.sqrt(1 - 2 * a * np.cos(omega) + a * a)
    return gain


def _own_gain(recording: Recording, unit: Unit, omega: Array) -> Array:
    """Sinusoids added to what the unit reads, all frequencies and directions as rows of one run along the recording."""
    gains = np.full(len(omega), np.nan)
    rows = longest_rows(unit, DIRECTIONS)
    chains = [longest_chain(recording, unit, row) for row in rows]
    length = max(map(len, chains), default=0)
    steady = range(length // 2, length)
    if len(steady) < LEAST_STEPS:
        return gains
    pairs = [(row, chain) for row, chain in zip(rows, chains, strict=True) if len(chain) == length]
    pairs = [pairs[number % len(pairs)] for number in range(DIRECTIONS)]
    x = torch.stack([unit.x[chain, row] for row, chain in pairs], 1)
    before = torch.stack([unit.before[chain, row] for row, chain in pairs], 1)
    found = _follow(unit, x, before, omega, steady.start)
    for number, frequency in enumerate(omega):
        if 2 * math.pi / frequency <= len(steady) + 1e-9:
            gains[number] = _size(np.stack([amplitudes(one, frequency, steady) for one in found[number]]))
    return gains


def _follow(unit: Unit, x: Tensor, before: Tensor, omega: Array, first: int) -> Array:
    """Responses of the unit's output from step `first` on: (frequencies, directions, steps, width)."""
    frequencies, width = len(omega), unit.output.shape[-1]
    directions = random_directions(x.shape[1], x.shape[-1]).repeat(frequencies, 1)
    angles = torch.from_numpy(omega).repeat_interleave(x.shape[1]).unsqueeze(-1)
    change = torch.zeros(frequencies * x.shape[1], before.shape[-1], dtype=torch.float64)
    found = []
    with torch.no_grad(), forward_ad.dual_level(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")  # torch's own use of it
        for t in range(len(x)):
            moved = forward_ad.make_dual(x[t].repeat(frequencies, 1), directions * (angles * t).cos())
            state = forward_ad.make_dual(before[t].repeat(frequencies, 1), change)
            tangent = forward_ad.unpack_dual(unit.advance(moved, state)).tangent
            change = torch.zeros_like(change) if tangent is None else tangent
            if t >= first:
                found.append(change[:, :width])
    return torch.stack(found, 1).reshape(frequencies, x.shape[1], -1, width).numpy()


def _through_the_stack(recording: Recording, entrance: Entrance, omega: Array) -> tuple[Array, Array]:
    """Gain and phase from the entrance to each unit.

    A row carries one frequency in one direction, so that a pass measures as many of them as there are rows.
    """
    units = recording.units
    gains, phases = np.full((2, len(units), len(omega)), np.nan)
    steady = steady_span(units, entrance.steps)
    rows = entrance.rows
    slots = [(frequency, turn) for turn in range(min(DIRECTIONS, len(rows))) for frequency in range(len(omega))]
    found: dict[str, dict[tuple[int, int], Complex]] = {
        unit.name: {} for unit in units if len(unit.x) == len(entrance.unit.x)
    }
    for first in range(0, len(slots), len(rows)):
        part = list(zip(rows, slots[first : first + len(rows)], strict=False))

        def sinusoids(width: int, part: list[tuple[int, tuple[int, int]]] = part) -> Tensor:
            change = torch.zeros(*entrance.unit.live.shape, width, dtype=torch.float64)
            directions = random_directions(min(DIRECTIONS, len(rows)), width)
            times = torch.arange(entrance.steps, dtype=torch.float64)
            for row, (frequency, turn) in part:
                change[: entrance.steps, row] = torch.outer((omega[frequency] * times).cos(), directions[turn])
            return change

        responses = respond_by_unit(recording, entrance, sinusoids)
        for name, into in found.items():
            for row, slot in part:
                signal = responses[name][steady.start : steady.stop, row].numpy()
                into[slot] = amplitudes(signal, omega[slot[0]], steady)
    for number, unit in enumerate(units):
        if unit.name in found:
            table = np.array(
                [[found[unit.name][f, k] for k in range(len(slots) // len(omega))] for f in range(len(omega))]
            )
            gains[number] = [_size(one) for one in table]
            signs = np.where(table[0].real < 0, -1.0, 1.0)
            phases[number] = np.unwrap(np.angle((table * signs).sum((1, 2))))
    return gains, phases


def _size(found: Complex) -> float:
    """Of amplitudes (directions, width), the norm over the width; root mean square over directions."""
    return float(np.sqrt(np.square(np.abs(found)).sum(-1).mean()))
