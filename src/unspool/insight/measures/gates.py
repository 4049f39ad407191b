"""Gates: how far the gates of every layer stand open, over time and over units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]

#: Which quantiles are told wherever a measure tells five.
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Bins of a histogram over [0, 1].
BINS = 20
#: Units that are shown one by one.
SHOWN = 64


@dataclass(frozen=True, eq=False)
class Gate:
    """One gate of one layer; NaN at steps, and everywhere, where no row lives."""

    label: str  # of the unit that has it
    name: str  # in the equations
    role: str  # "keep" the old state, "write" new values, or any other "gate"
    mean: Array  # (time,)
    quantiles: Array  # (time, 5): QUANTILES over rows and units
    edges: Array  # (21,): of the bins
    histogram: Array  # (20,): shares of all steps, rows and units
    over_time: Array  # (time, 20): shares of rows and units, by step
    units: Array  # (time, n): the first 64 units, each a mean over rows


@dataclass(frozen=True, eq=False)
class Gates:
    """Every gate of a model, from the lowest layer up, in the order of the equations."""

    gates: tuple[Gate, ...]


def measure_gates(recording: Recording) -> Gates:
    """How open the gates were; a model without gates has none."""
    return Gates(tuple(_gate(unit, name, role) for unit in recording.units for name, role in gate_roles(unit).items()))


def gate_roles(unit: Unit) -> dict[str, str]:
    """The gates of a unit's equations by name: "keep", "write" or "gate".

    A gate is a named sigmoid that multiplies another value, itself or what it leaves of 1; and whatever the cell says
    keeps or writes. So the state of a network whose activation is a sigmoid is no gate.
    """
    equations, cell = unit.equations, unit.cell
    factors = {value for node in equations.nodes if node.operation == "multiply" for value in node.inputs}
    inverted = {node.inputs[1] for node in factors if node.operation == "subtract" and node.inputs[0].detail == 1}
    roles = {}
    for name, value in equations.named.items():
        if name in cell.keeps:
            roles[name] = "keep"
        elif name in cell.writes:
            roles[name] = "write"
        elif value.operation == "sigmoid" and (value in factors or value in inverted):
            roles[name] = "gate"
    return roles


def _gate(unit: Unit, name: str, role: str) -> Gate:
    values, live = unit.named[name].numpy(), unit.live.numpy()
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
    return Gate(
        label=unit.label,
        name=name,
        role=role,
        mean=mean,
        quantiles=quantiles,
        edges=edges,
        histogram=_shares(counts.sum(0), size.sum()),
        over_time=_shares(counts, size),
        units=units,
    )


def _shares(counts: Array, size: Array) -> Array:
    shares = np.full(counts.shape, np.nan)
    np.divide(counts, size, out=shares, where=size > 0)
    return shares
