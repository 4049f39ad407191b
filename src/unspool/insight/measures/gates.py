"""Gates: how open the gates of every layer are, over time and over units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.cells.gates import find_gates, most_open
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: The quantiles of every measure that has five.
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Bins of a histogram over [0, 1].
BINS = 20
#: Units that are kept one by one.
SHOWN = 64
#: A gate that is always below this, or always above 1 less it, switches nothing and passes 1 % of a gradient. Of one
#: that opens only to some number it is this fraction.
STUCK = 0.01
#: A gate that keeps the state is stuck open if what it lets go of over the whole sequence is less than this.
LETS_GO = 0.2


@dataclass(frozen=True, eq=False)
class Gate:
    """One gate of one layer; NaN at steps that no sequence has."""

    label: str  # of the layer
    name: str  # in the equations
    role: str  # "keep" the old state, "write" new values, or any other "gate"
    mean: Array  # (time,)
    quantiles: Array  # (time, 5): QUANTILES over sequences and units
    edges: Array  # (21,): of the bins
    histogram: Array  # (20,): fractions of all steps, sequences and units
    over_time: Array  # (time, 20): fractions of sequences and units, by step
    units: Array  # (time, n): the first 64 units, each a mean over sequences
    stuck_shut: float  # fraction of units that are below STUCK at every step
    stuck_open: (
        float  # fraction of units that are above 1 − STUCK at every step; for a gate that keeps, yet nearer to 1
    )


@dataclass(frozen=True, eq=False)
class Gates:
    """Every gate of a model, from the lowest layer up, in the order of the equations."""

    gates: tuple[Gate, ...]


def measure_gates(recording: Recording) -> Gates:
    """How open the gates are; a model without gates has none."""
    return Gates(
        tuple(_gate(layer, name, role) for layer in recording.layers for name, role in gate_roles(layer).items())
    )


def gate_roles(layer: RecordedLayer) -> dict[str, str]:
    """The gates of a layer's equations by name: "keep", "write" or "gate".

    Gates are those that the equations show, and whatever the cell declares to keep or write.
    """
    cell, gates = layer.cell, find_gates(layer.equations)
    roles = {}
    for name in layer.equations.named:
        if name in cell.keeps:
            roles[name] = "keep"
        elif name in cell.writes:
            roles[name] = "write"
        elif name in gates:
            roles[name] = "gate"
    return roles


def _gate(layer: RecordedLayer, name: str, role: str) -> Gate:
    values, live = layer.named[name].numpy(), layer.live.numpy()
    steps, width = len(values), values.shape[-1]
    edges = np.linspace(0, 1, BINS + 1)
    mean = np.full(steps, np.nan)
    quantiles = np.full((steps, len(QUANTILES)), np.nan)
    counts = np.zeros((steps, BINS))
    units = np.full((steps, min(width, SHOWN)), np.nan)
    for step in np.flatnonzero(live.any(1)):
        now = values[step, live[step]]
        mean[step] = now.mean()
        quantiles[step] = np.quantile(now, QUANTILES)
        counts[step] = np.histogram(now.clip(0, 1), edges)[0]
        units[step] = now[:, :SHOWN].mean(0)
    size = live.sum(1, keepdims=True) * float(width)
    opened = values[live] / most_open(layer.equations.named[name])  # of 1, also where a gate is a short step of time
    shut, wide = _stuck(opened, layer.cell.keeps.get(name, 0), int(live.sum(0).max(initial=0)))
    return Gate(
        label=layer.label,
        name=name,
        role=role,
        mean=mean,
        quantiles=quantiles,
        edges=edges,
        histogram=_fractions(counts.sum(0), size.sum()),
        over_time=_fractions(counts, size),
        units=units,
        stuck_shut=shut,
        stuck_open=wide,
    )


def _stuck(values: Array, keeps: int, steps: int) -> tuple[float, float]:
    """Fractions of units that are shut at every place, and open at every place.

    A state that is kept for long is no fault: where a gate keeps, it must let go of next to nothing over all steps.
    """
    if not len(values):
        return np.nan, np.nan
    kept = min(STUCK, LETS_GO / max(1, steps))
    shut, wide = kept if keeps < 0 else STUCK, kept if keeps > 0 else STUCK
    return float((values < shut).all(0).mean()), float((values > 1 - wide).all(0).mean())


def _fractions(counts: Array, size: Array) -> Array:
    fractions = np.full(counts.shape, np.nan)
    np.divide(counts, size, out=fractions, where=size > 0)
    return fractions
