"""Which of ONNX's own recurrent operators a cell is, found by comparing its equations with theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np

from unspool.cells import GRU, LSTM, Cell, Elman, ResetAfterGRU, sigmoid, tanh
from unspool.cells.equations import Equations
from unspool.cells.symbols import LinearMap, Symbol
from unspool.exchange.onnx.graph import Array
from unspool.runtime.network import Recurrence

Found = dict[Symbol, Symbol]

COMMUTATIVE = frozenset({"add", "multiply", "minimum", "maximum"})


class KeepingGRU(Cell):
    """The GRU of `unspool.cells` with z for 1 − z."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        r = sigmoid(self.linear("r", x, h))
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, r * h))
        return (1 - z) * n + z * h


class AdmittingResetAfterGRU(Cell):
    """The GRU of torch.nn with z for 1 − z."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        r = sigmoid(self.linear("r", x, h))
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x) + r * self.linear("hn", h))
        return (1 - z) * h + z * n


@dataclass(frozen=True)
class Operator:
    """An operator of ONNX in the form that a cell's equations may have.

    Attributes:
        name: ONNX's.
        equations: The step.
        gates: Their linear maps in ONNX's order, each with that of the recurrent part, which may be the same.
        signs: −1 for a gate that is 1 minus ONNX's, as σ(−a) = 1 − σ(a).
        attributes: Those that make ONNX's operator this one.
    """

    name: str
    equations: Equations
    gates: tuple[tuple[str, str], ...]
    signs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@cache
def _operators() -> tuple[Operator, ...]:
    """Every form of ONNX's operators that is known."""
    lstm = Operator("LSTM", LSTM().equations(), tuple((gate, gate) for gate in "iofg"), (1, 1, 1, 1))
    grus = (
        _gru(ResetAfterGRU(), 1, after=True),
        _gru(AdmittingResetAfterGRU(), -1, after=True),
        _gru(KeepingGRU(), 1, after=False),
        _gru(GRU(), -1, after=False),
    )
    return lstm, *grus, *map(_rnn, ("tanh", "relu", "sigmoid"))


def _gru(cell: Cell, sign: int, after: bool) -> Operator:
    gates = (("z", "z"), ("r", "r"), ("n", "hn" if after else "n"))
    return Operator("GRU", cell.equations(), gates, (sign, 1, 1), {"linear_before_reset": int(after)})


def _rnn(activation: str) -> Operator:
    name = activation.capitalize()
    return Operator("RNN", Elman(activation).equations(), (("h", "h"),), (1,), {"activations": [name]})


@dataclass(frozen=True)
class Match:
    """A recurrence as an operator of ONNX.

    W is (gates · hidden, input), R (gates · hidden, hidden) and B (2 · gates · hidden,).

    B has the biases beside W and then those beside R; None if there are none. `order` says at which place each state
    of ONNX's, h and then c, stands among the recurrence's own.
    """

    name: str
    attributes: Mapping[str, Any]
    W: Array
    R: Array
    B: Array | None
    order: tuple[int, ...]


def match_operator(recurrence: Recurrence) -> Match | None:
    """The operator that a recurrence is; None if it is none of ONNX's.

    Args:
        recurrence: Its equations may name gates and states as they like, and order sums and products as they like.

    Returns:
        The operator with its weights.

    Example:
        >>> match_operator(recurrence_of_a_gru).attributes
        {'linear_before_reset': 0}
    """
    if set(recurrence.state_sizes) != {recurrence.hidden_size}:
        return None
    for operator in _operators():
        found = _match(operator.equations, recurrence.equations)
        if found is not None:
            return _weigh(operator, found, recurrence)
    return None


def _weigh(operator: Operator, found: Mapping[Symbol, Symbol], recurrence: Recurrence) -> Match:
    """The weights of an operator, gate after gate."""
    theirs = operator.equations
    maps = {node.detail.name: (node, found[node]) for node in theirs.nodes if node.operation == "linear"}
    read = {gate: _parts(*maps[gate], found, recurrence) for gate in maps}
    zeros = np.zeros(recurrence.hidden_size)
    rows, biases = [], []
    for (input_gate, state_gate), sign in zip(operator.gates, operator.signs, strict=True):
        rows.append((sign * read[input_gate]["x"], sign * read[state_gate]["state"]))
        apart = input_gate != state_gate
        biases.append((sign * read[input_gate].get("bias", zeros), read[state_gate].get("bias", zeros) * apart))
    biased = any("bias" in parts for parts in read.values())
    states = list(recurrence.equations.states)
    before = [node for node in theirs.nodes if node.operation == "state"]
    return Match(
        operator.name,
        operator.attributes,
        np.concatenate([W for W, _ in rows]),
        np.concatenate([R for _, R in rows]),
        np.concatenate([bias for side in zip(*biases, strict=True) for bias in side]) if biased else None,
        tuple(states.index(found[node].detail) for node in before),
    )


def _parts(pattern: Symbol, node: Symbol, found: Mapping[Symbol, Symbol], recurrence: Recurrence) -> dict[str, Array]:
    """The arrays of a map: its matrix of x, that of the other operand, and its bias."""
    linear = node.detail
    parts = {}
    for operand in pattern.inputs:
        matrix = linear.matrices[_place(node, found[operand])]
        parts["x" if operand.operation == "input" else "state"] = recurrence.parameters[matrix]
    if linear.bias is not None:
        parts["bias"] = recurrence.parameters[linear.bias]
    return parts


def _place(node: Symbol, operand: Symbol) -> int:
    """At which place a map reads an operand; symbols have no ==."""
    return next(place for place, value in enumerate(node.inputs) if value is operand)


def _match(pattern: Equations, given: Equations) -> Found | None:
    """Each symbol of the pattern with the one that it is in the given equations; None if these are others.

    The output of both is the first state; the others may stand in any order.
    """
    if len(pattern.results) != len(given.results):
        return None
    for order in permutations(range(1, len(given.results))):
        places = (0, *order)
        states = [_state(given, place) for place in places]
        found: Found = dict(zip((_state(pattern, place) for place in range(len(states))), states, strict=True))
        pairs = [(result, given.results[place]) for result, place in zip(pattern.results, places, strict=True)]
        whole = next(_match_all(pairs, found), None)
        if whole is not None:
            return whole
    return None


def _state(equations: Equations, place: int) -> Symbol:
    return equations.nodes[1 + place]


def _match_all(pairs: list[tuple[Symbol, Symbol]], found: Found) -> Iterator[Found]:
    """Every way in which all pairs are the same expressions, given what is found already."""
    if not pairs:
        yield found
        return
    (a, b), *rest = pairs
    for one in _match_node(a, b, found):
        yield from _match_all(rest, one)


def _match_node(a: Symbol, b: Symbol, found: Found) -> Iterator[Found]:
    if a in found:
        if found[a] is b:
            yield found
        return
    if not _alike(a, b) or any(value is b for value in found.values()):
        return
    for inputs in _orders(b):
        for one in _match_all(list(zip(a.inputs, inputs, strict=True)), found):
            yield {**one, a: b}


def _alike(a: Symbol, b: Symbol) -> bool:
    """Whether two symbols are of one operation on as many operands; maps may have other names, and no bias."""
    if a.operation != b.operation or len(a.inputs) != len(b.inputs) or a.operation == "state":
        return False
    return isinstance(a.detail, LinearMap) or a.detail == b.detail


def _orders(node: Symbol) -> Iterator[tuple[Symbol, ...]]:
    any_order = node.operation in COMMUTATIVE or node.operation == "linear"
    return permutations(node.inputs) if any_order else iter((node.inputs,))
