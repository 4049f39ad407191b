"""Frequency response: how strongly each layer, and the network up to it, responds to sinusoids from slow to fast.

Small sinusoids are added to the recorded input. The response is followed to first order, exactly, and its amplitude is
fitted by least squares after the transient has decayed. It is compared with the gain of the first-order filter
h = a h + x, c/√(1 − 2a cos ω + a²), with the best-fitting a and c, and with the error of that fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.measures.jacobians import longest_chain, longest_rows
from unspool.insight.measures.sensitivity import Entrance, find_entrance, random_directions, respond_by_layer
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
#: The numbers of a frequency and of a direction.
Slot = tuple[int, int]

#: At most this many random directions of the input per frequency, the same for all frequencies.
DIRECTIONS = 2
#: An amplitude is fitted over at least this many steps.
LEAST_STEPS = 4
#: A filter with a larger error than this does not describe a layer.
FITS = 0.1


@dataclass(frozen=True, eq=False)
class Frequency:
    """Gains by angular frequency, in radians per step.

    The lowest frequency has one period within the steps that are fitted. Values are NaN for a layer that runs too few
    steps; in `stack` and `phase` also for one that does not run the same steps as the entrance.
    """

    labels: tuple[str, ...]
    omega: Array  # (frequencies,): from low up to π; empty if sequences are too short
    gains: Array  # (layers, frequencies): output of the layer over its own input, root mean square over directions
    stack: Array  # (layers, frequencies): output of the layer over the input at the entrance
    phase: Array  # (layers, frequencies): of `stack`, each output with the sign that it has at the lowest frequency
    pole: Array  # (layers,): a of the first-order filter nearest to `gains`; NaN if no stable filter is
    theory: Array  # (layers, frequencies): that filter's gain
    error: Array  # (layers,): of the fit, exp of the root mean square of ln(gain / theory), less 1


def measure_frequency(recording: Recording, count: int = 12) -> Frequency:
    """The response at `count` frequencies, evenly spaced on a logarithmic scale."""
    if count < 2:
        raise ArgumentError.of("count", count, "is too few frequencies for a curve", "Give at least 2")
    layers = recording.layers
    labels = recording.labels
    entrance = find_entrance(recording)
    span = range(0) if entrance is None else steady_span(layers, entrance.steps)
    if entrance is None or len(span) < LEAST_STEPS:
        return _nothing(labels)
    omega = np.geomspace(2 * math.pi / len(span), math.pi, count)
    gains = np.array([_own_gain(recording, layer, omega) for layer in layers])
    stack, phase = _through_the_stack(recording, entrance, omega)
    fits = [first_order(omega, gain) for gain in gains]
    theory = np.array([scale * _filter(a, omega) for a, scale in fits])
    errors = np.array([fit_error(gain, fitted) for gain, fitted in zip(gains, theory, strict=True)])
    return Frequency(labels, omega, gains, stack, phase, np.array([a for a, _ in fits]), theory, errors)


def _nothing(labels: tuple[str, ...]) -> Frequency:
    """The response of layers in which no frequency could be measured."""
    none = np.full((len(labels), 0), np.nan)
    unknown = np.full(len(labels), np.nan)
    return Frequency(labels, np.full(0, np.nan), none, none, none, unknown, none, unknown)


def steady_span(layers: list[RecordedLayer], steps: int) -> range:
    """The steps at which the transient has had time to decay."""
    ahead, back = any(not layer.reverse for layer in layers), any(layer.reverse for layer in layers)
    if ahead and back:
        return range(steps // 3, steps - steps // 3)
    return range(steps - steps // 2) if back else range(steps // 2, steps)


def amplitudes(signal: Array, omega: float, steps: range) -> Complex:
    """Y of the signal, (steps, width), that is nearest to Re(Y e^{iωt})."""
    angle = omega * np.array(steps)
    # At ω = π the sine is zero except for rounding, which must not count as a part of the signal.
    parts, *_ = np.linalg.lstsq(np.stack([np.cos(angle), np.sin(angle)], -1), signal, rcond=1e-9)
    found: Complex = parts[0] - 1j * parts[1]
    return found


def first_order(omega: Array, gain: Array) -> tuple[float, float]:
    """The a and c of the filter whose gain is nearest; NaN if there are no three gains to fit, or no stable filter.

    1/g² = p − q cos ω is a line in cos ω, with p = (1 + a²)/c² and q = 2a/c²; that gives a. Of a and 1/a, whose gains
    have the same shape, it is the one inside the unit circle. Then c is the geometric mean of what is left.
    """
    some = np.isfinite(gain) & (gain > 0)
    if some.sum() < 3:  # two gains are met by some filter, whatever they are
        return math.nan, math.nan
    square = np.square(gain[some])
    table = np.stack([square, -square * np.cos(omega[some])], -1)
    (p, q), *_ = np.linalg.lstsq(table, np.ones(len(table)), rcond=None)
    if abs(q) >= p:  # steeper than any such filter
        return math.nan, math.nan
    a = float(q / (p + math.sqrt(p * p - q * q)))
    return a, float(np.exp(np.log(gain[some] / _filter(a, omega[some])).mean()))


def fit_error(gain: Array, fitted: Array) -> float:
    """The typical relative error of a fit, exp of the root mean square of ln(gain / fitted), less 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.log(gain / fitted)
    known = apart[np.isfinite(apart)]
    return float(np.expm1(np.sqrt(np.square(known).mean()))) if len(known) else math.nan


def _filter(a: float, omega: Array) -> Array:
    """The gain of h = a h + x."""
    gain: Array = 1 / np.sqrt(1 - 2 * a * np.cos(omega) + a * a)
    return gain


def _own_gain(recording: Recording, layer: RecordedLayer, omega: Array) -> Array:
    """Gains of a layer alone: sinusoids added to its input, all frequencies and directions in one run."""
    gains = np.full(len(omega), np.nan)
    pairs = _longest_pairs(recording, layer)
    length = len(pairs[0][1]) if pairs else 0
    steady = range(length // 2, length)
    if len(steady) < LEAST_STEPS:
        return gains
    x = torch.stack([layer.x[chain, row] for row, chain in pairs], 1)
    before = torch.stack([layer.before[chain, row] for row, chain in pairs], 1)
    found = _follow(layer, x, before, omega, steady.start)
    for number, frequency in enumerate(omega):
        if 2 * math.pi / frequency <= len(steady) + 1e-9:
            gains[number] = _size(np.stack([amplitudes(one, frequency, steady) for one in found[number]]))
    return gains


def _longest_pairs(recording: Recording, layer: RecordedLayer) -> list[tuple[int, Tensor]]:
    """For each direction a sequence and its steps, all of the same length; none if no sequence has a step."""
    pairs = [(row, longest_chain(recording, layer, row)) for row in longest_rows(layer, DIRECTIONS)]
    length = max((len(chain) for _, chain in pairs), default=0)
    longest = [pair for pair in pairs if len(pair[1]) == length]
    return [longest[number % len(longest)] for number in range(DIRECTIONS)] if longest else []


def _follow(layer: RecordedLayer, x: Tensor, before: Tensor, omega: Array, first: int) -> Array:
    """Responses of the layer's output from step `first` on: (frequencies, directions, steps, width)."""
    directions = random_directions(x.shape[1], x.shape[-1])
    angles = torch.from_numpy(omega).reshape(-1, 1, 1)
    change = before.new_zeros(len(omega), *before.shape[1:])
    width = layer.output.shape[-1]
    found = change.new_empty(*change.shape[:-1], len(x) - first, width)
    for t, step in enumerate(layer.linear.iterate(x, before, range(len(x)))):
        change = step.push(change, directions * (angles * t).cos())
        if t >= first:
            found[..., t - first, :] = change[..., :width]
    return found.numpy()


def _through_the_stack(recording: Recording, entrance: Entrance, omega: Array) -> tuple[Array, Array]:
    """Gain and phase from the entrance to each layer."""
    layers = recording.layers
    gains, phases = np.full((2, len(layers), len(omega)), np.nan)
    found = _stack_amplitudes(recording, entrance, omega)
    turns = min(DIRECTIONS, len(entrance.rows))
    for number, layer in enumerate(layers):
        if layer.name in found:
            table = np.array([[found[layer.name][f, turn] for turn in range(turns)] for f in range(len(omega))])
            gains[number] = [_size(one) for one in table]
            signs = np.where(table[0].real < 0, -1.0, 1.0)
            phases[number] = np.unwrap(np.angle((table * signs).sum((1, 2))))
    return gains, phases


def _stack_amplitudes(recording: Recording, entrance: Entrance, omega: Array) -> dict[str, dict[Slot, Complex]]:
    """Amplitudes of every layer that runs the same steps as the entrance, by frequency and direction.

    One sequence carries one frequency in one direction, so that a pass measures as many of them as it has sequences.
    """
    steady, rows = steady_span(recording.layers, entrance.steps), entrance.rows
    slots = [(frequency, turn) for turn in range(min(DIRECTIONS, len(rows))) for frequency in range(len(omega))]
    found: dict[str, dict[Slot, Complex]] = {
        layer.name: {} for layer in recording.layers if len(layer.x) == len(entrance.layer.x)
    }
    for first in range(0, len(slots), len(rows)):
        part = list(zip(rows, slots[first : first + len(rows)], strict=False))
        responses = respond_by_layer(recording, entrance, partial(_sinusoids, entrance, omega, part))
        for name, into in found.items():
            signals = responses[name][steady.start : steady.stop].numpy()
            into |= {slot: amplitudes(signals[:, row], omega[slot[0]], steady) for row, slot in part}
    return found


def _sinusoids(entrance: Entrance, omega: Array, part: Sequence[tuple[int, Slot]], width: int) -> Tensor:
    """A change of the input in which each sequence has the frequency and the direction of its slot."""
    change = torch.zeros(*entrance.layer.live.shape, width, dtype=torch.float64)
    directions = random_directions(min(DIRECTIONS, len(entrance.rows)), width)
    times = torch.arange(entrance.steps, dtype=torch.float64)
    for row, (frequency, turn) in part:
        change[: entrance.steps, row] = torch.outer((omega[frequency] * times).cos(), directions[turn])
    return change


def _size(found: Complex) -> float:
    """The size of amplitudes (directions, width): norm over the width, root mean square over directions."""
    return float(np.sqrt(np.square(np.abs(found)).sum(-1).mean()))
