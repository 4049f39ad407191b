"""Depth: how many nonlinear layers lie between the input and the answer of one step, beside the optimal number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import ArgumentError
from unspool.insight.measures.depth import optimal_depth
from unspool.insight.recording import Recording

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Depth:
    """The depth of a network beside the depth at which A(N) is largest."""

    effective: int  # N_eff: nonlinear layers from the input to the answer of one step
    optimum: float  # N*, infinite where depth costs nothing (m = 1)
    gain: float  # b
    kept: float  # m
    lowest: float  # A_min
    highest: float  # A_max

    def accuracy(self, depths: ArrayLike) -> Array:
        """A(N) at any depths."""
        n = np.asarray(depths, np.float64)
        return self.lowest + (self.highest - self.lowest) * -np.expm1(-self.gain * n) * self.kept**n


def measure_depth(
    recording: Recording,
    output_layers: int = 1,
    *,
    gain: float = 1.0,
    kept: float = 0.9,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Depth:
    """The depth of a recorded network whose head has `output_layers` layers; `gain` and `kept` are b and m."""
    transitions: dict[int, int] = {}
    for layer in recording.layers:
        # Deep transitions and recurrent highways have several layers within one step: their cells have a `depth`.
        transitions[layer.level] = max(transitions.get(layer.level, 1), int(getattr(layer.cell, "depth", 1)))
    effective = effective_depth(1, output_layers, sum(transitions.values()))
    return Depth(effective, optimal_depth(gain, kept), float(gain), float(kept), float(lowest), float(highest))


def effective_depth(layers: int, output_layers: int = 1, transition: int = 1) -> int:
    """N_eff = L·D + K_out: a stack has D = 1, a deep transition L = 1."""
    for name, value, least in (
        ("layers", layers, 1),
        ("output_layers", output_layers, 0),
        ("transition", transition, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ArgumentError.of(name, value, "is not a number of layers", f"Give an integer of at least {least}")
    return layers * transition + output_layers


def fit_depth(depths: ArrayLike, accuracies: ArrayLike, lowest: float = 0.0, highest: float = 1.0) -> Depth:
    """The b and m with which A(N) comes nearest to measured accuracies, by least squares, and its optimum N*.

    Args:
        depths: N, at least two different ones.
        accuracies: at these depths.
        lowest: A_min, such as the accuracy of guessing.
        highest: A_max.

    Returns:
        The curve; `effective` is the depth with the highest accuracy, the smallest of equal ones.

    Example:
        >>> curve = Depth(3, optimal_depth(0.7, 0.93), 0.7, 0.93, 0.25, 1.0)
        >>> found = fit_depth([1, 2, 3, 4, 6, 8], curve.accuracy([1, 2, 3, 4, 6, 8]), lowest=0.25)
        >>> round(found.gain, 3), round(found.kept, 3)
        (0.7, 0.93)
    """
    n, measured = np.asarray(depths, np.float64), np.asarray(accuracies, np.float64)
    if n.shape != measured.shape or len(np.unique(n)) < 2 or not np.isfinite(measured).all():
        raise ArgumentError.of("accuracies", accuracies, "do not fit the depths", "Give one number per depth")
    if not highest > lowest:
        raise ArgumentError.of("highest", highest, f"is not above `lowest` (={lowest})", "Give such as 1.0")
    gain, kept = _nearest(n, (measured - lowest) / (highest - lowest))
    best = int(n[measured.argmax()])
    return Depth(best, optimal_depth(gain, kept), gain, kept, float(lowest), float(highest))


def _nearest(n: Array, scaled: Array) -> tuple[float, float]:
    """b and m by a grid that closes in on the best point; the error has few minima, which the first grid separates."""
    low, high = np.array([np.log(0.01), 0.05]), np.array([np.log(20.0), 1.0])
    first, last, best = low, high, low
    for _ in range(40):
        logs, kept = np.linspace(low[0], high[0], 41), np.linspace(low[1], high[1], 41)
        curve = -np.expm1(-np.exp(logs)[:, None, None] * n) * kept[:, None] ** n
        place = np.unravel_index(np.square(curve - scaled).sum(-1).argmin(), (41, 41))
        best = np.array([logs[place[0]], kept[place[1]]])
        around = (high - low) / 4
        low, high = np.maximum(best - around, first), np.minimum(best + around, last)
    return float(np.exp(best[0])), float(best[1])
