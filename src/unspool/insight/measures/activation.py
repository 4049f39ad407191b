"""Activation: which values sit at the flat ends of tanh or at the zero of relu, where no gradient passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unspool.cells.evaluate import Evaluator
from unspool.cells.symbols import Symbol
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit
from unspool.nn.operations import OPERATIONS

Array = NDArray[np.float64]

#: Beyond this a tanh lets less than 6 % of a gradient pass.
SATURATED = 0.97
FUNCTIONS = ("tanh", "relu")


@dataclass(frozen=True, eq=False)
class Activity:
    """One tanh or relu of one layer; NaN where no row lives."""

    label: str
    name: str  # in the equations; "tanh(c)" for a value that has none
    function: str  # "tanh" or "relu"
    saturated: float  # share of values beyond ±0.97; 0 for a relu, which has no upper end
    dead: float  # share of units that are 0 at every step of every row
    by_unit: Array  # (n,): the share of steps and rows at which the unit is saturated, or, of a relu, 0


@dataclass(frozen=True, eq=False)
class Activations:
    """Every tanh and relu of a model, from the lowest layer up, in the order of the equations."""

    values: tuple[Activity, ...]


def measure_activations(recording: Recording) -> Activations:
    """Saturation and death of the activations; a linear model has none."""
    return Activations(
        tuple(
            _activity(unit.label, name, function, value[unit.live].numpy())
            for unit in recording.units
            for name, function, value in _values(unit)
        )
    )


def _values(unit: Unit) -> Iterator[tuple[str, str, Tensor]]:
    """Name, function and values of every tanh and relu; what the equations do not name is computed once more."""
    known = {value: name for name, value in unit.equations.named.items()}
    nodes = [node for node in unit.equations.nodes if node.operation in FUNCTIONS]
    names: dict[str, Symbol] = {}
    for node in nodes:
        name = known.get(node) or f"{node.operation}({_operand(node.inputs[0], known)})"
        names[name if name not in names else f"{name} {len(names) + 1}"] = node
    missing = {name: node for name, node in names.items() if node not in known}
    found = dict(unit.named)
    if missing:
        evaluate = Evaluator(dataclasses.replace(unit.equations, named=missing), OPERATIONS)
        flat = unit.before.flatten(0, 1)
        _, values = evaluate(unit.parameters, unit.x.flatten(0, 1), tuple(unit.split(flat).values()))
        shape = unit.live.shape
        found |= {name: value.expand(len(flat), -1).reshape(*shape, -1) for name, value in values.items()}
    for name, node in names.items():
        yield name, node.operation, found[name]


def _operand(value: Symbol, known: dict[Symbol, str]) -> str:
    if value.operation == "state":
        return f"old {value.detail}"
    if value.operation == "linear":
        return " + ".join(value.detail.matrices)
    return known.get(value, "…")


def _activity(label: str, name: str, function: str, values: Array) -> Activity:
    flat = np.abs(values) > SATURATED if function == "tanh" else values == 0
    if not len(values):
        return Activity(label, name, function, np.nan, np.nan, np.full(values.shape[-1], np.nan))
    return Activity(
        label=label,
        name=name,
        function=function,
        saturated=float(flat.mean()) if function == "tanh" else 0.0,
        dead=float((values == 0).all(0).mean()),
        by_unit=flat.mean(0),
    )
