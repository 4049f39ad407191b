"""Activation: which values are at the flat ends of tanh or at the zero of relu, where no gradient passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unspool.cells.evaluate import Evaluator
from unspool.cells.symbols import Symbol
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording
from unspool.nn.operations import OPERATIONS

Array = NDArray[np.float64]

#: Beyond this value a tanh passes less than 6 % of a gradient.
SATURATED = 0.97
FUNCTIONS = ("tanh", "relu")


@dataclass(frozen=True, eq=False)
class Activity:
    """One tanh or relu of one layer; NaN where no sequence has a step."""

    label: str
    name: str  # in the equations; "tanh(c)" for a value without a name
    function: str  # "tanh" or "relu"
    saturated: float  # fraction of values beyond ±0.97; 0 for a relu, which has no upper end
    dead: float  # fraction of units that are 0 at every step of every sequence
    by_unit: Array  # (n,): fraction of steps at which the unit is saturated or, for a relu, 0


@dataclass(frozen=True, eq=False)
class Activations:
    """Every tanh and relu of a model, from the lowest layer up, in the order of the equations."""

    values: tuple[Activity, ...]


def measure_activations(recording: Recording) -> Activations:
    """Saturated and dead activations; a linear model has none."""
    return Activations(
        tuple(
            _activity(layer.label, name, function, value[layer.live].numpy())
            for layer in recording.layers
            for name, function, value in _values(layer)
        )
    )


def _values(layer: RecordedLayer) -> Iterator[tuple[str, str, Tensor]]:
    """Name, function and values of every tanh and relu."""
    known = {value: name for name, value in layer.equations.named.items()}
    nodes = _name_nodes(layer, known)
    unnamed = {name: node for name, node in nodes.items() if node not in known}
    values = {**layer.named, **(_compute(layer, unnamed) if unnamed else {})}
    for name, node in nodes.items():
        yield name, node.operation, values[name]


def _name_nodes(layer: RecordedLayer, known: Mapping[Symbol, str]) -> dict[str, Symbol]:
    names: dict[str, Symbol] = {}
    for node in layer.equations.nodes:
        if node.operation in FUNCTIONS:
            name = known.get(node) or f"{node.operation}({_operand(node.inputs[0], known)})"
            names[name if name not in names else f"{name} {len(names) + 1}"] = node
    return names


def _compute(layer: RecordedLayer, nodes: dict[str, Symbol]) -> dict[str, Tensor]:
    """Values that the equations do not name, which were not recorded."""
    evaluate = Evaluator(dataclasses.replace(layer.equations, named=nodes), OPERATIONS)
    flat = layer.before.flatten(0, 1)
    _, values = evaluate(layer.parameters, layer.x.flatten(0, 1), tuple(layer.split(flat).values()))
    return {name: value.expand(len(flat), -1).reshape(*layer.live.shape, -1) for name, value in values.items()}


def _operand(value: Symbol, known: Mapping[Symbol, str]) -> str:
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
