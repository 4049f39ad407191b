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
        # Only deep transitions have several layers within one step; their cells have a `depth`.
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
