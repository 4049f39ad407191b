"""Evaluates equations on numbers: arrays, tensors, whatever the table of operations computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from unspool.cells.blocks import SIZED, find_shape
from unspool.cells.equations import Equations
from unspool.cells.symbols import Symbol

#: An operation's name → what computes it. "linear" is called as linear(operands, matrices, bias or None),
#: "normalise" as normalise(value, epsilon), "constant" as constant(number, x) for a number beside which no value
#: stands that tells its kind; those of `blocks.SIZED` take a shape last; the others take the values of their inputs.
Operations = Mapping[str, Callable[..., Any]]


#: What is there before a step computes anything.
GIVEN = ("input", "extra", "state", "vector", "constant")


class Evaluator:
    """One step of a cell as a list of instructions over numbered slots.

    Args:
        equations: The step's.
        operations: What computes each operation.
        sizes: The input size and the hidden size, where they are known; else they are found at the first step.
    """

    def __init__(self, equations: Equations, operations: Operations, sizes: tuple[int, int] | None = None) -> None:
        self._equations, self._sizes = equations, sizes
        slots = {node: slot for slot, node in enumerate(equations.nodes)}

        def find(operation: str) -> list[tuple[int, Any]]:
            return [(slot, node.detail) for node, slot in slots.items() if node.operation == operation]

        self._slots = len(slots)
        self._constants = find("constant")
        self._constant = operations["constant"]
        self._alone = {slots[node.inputs[1]] for node in slots if _chooses_numbers(node)}
        self._vectors = find("vector")
        self._blocks = {name for name, widths in equations.parameters.items() if len(widths) > 1}
        self._x, _ = find("input")[0]
        extras = {name: slot for slot, name in find("extra")}
        self._extras = [extras[name] for name in equations.inputs]
        self._parts: list[slice] = []
        self._sized = {slots[node]: node for node in slots if node.operation in SIZED}
        states = {name: slot for slot, name in find("state")}
        self._states = [states[name] for name in equations.states]
        self._instructions = [
            (slots[node], operations[node.operation], [slots[value] for value in node.inputs], node.detail)
            for node in equations.nodes
            if node.operation not in GIVEN
        ]
        self._results = [slots[node] for node in equations.results]
        self._named = {name: slots[node] for name, node in equations.named.items()}

    def __call__(
        self, parameters: Mapping[str, Any], x: Any, states: Sequence[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The new states, and every named value."""
        values: list[Any] = [None] * self._slots
        if (self._sized or self._extras) and not isinstance(self._sizes, _Bound):
            self._bind(parameters, x, states)
        values[self._x] = x
        if self._extras:
            for slot, part in zip((self._x, *self._extras), self._parts, strict=True):
                values[slot] = x[..., part]
        for slot, state in zip(self._states, states, strict=True):
            values[slot] = state
        for slot, constant in self._constants:
            values[slot] = self._constant(constant, x) if slot in self._alone else constant
        for slot, name in self._vectors:
            values[slot] = parameters[name].reshape(-1) if name in self._blocks else parameters[name]
        for slot, compute, inputs, detail in self._instructions:
            operands = [values[index] for index in inputs]
            if detail is None:
                values[slot] = compute(*operands)
            elif isinstance(detail, float | tuple):
                values[slot] = compute(*operands, detail)
            else:
                matrices = [parameters[name] for name in detail.matrices]
                bias = None if detail.bias is None else parameters[detail.bias]
                values[slot] = compute(operands, matrices, bias)
        return tuple(values[slot] for slot in self._results), {name: values[slot] for name, slot in self._named.items()}

    def _bind(self, parameters: Mapping[str, Any], x: Any, states: Sequence[Any]) -> None:
        """Give every operation that needs sizes its own, and each further input its place in x."""
        equations = self._equations
        if self._sizes is None:
            found = [(name, parameters[name]) for name in equations.parameters]
            found += zip(equations.states, states, strict=True)
            hidden = equations.find_hidden_size({name: tuple(value.shape) for name, value in found}) or x.shape[-1]
            self._sizes = equations.input_size_of(x.shape[-1], hidden), hidden
        input_size, hidden_size = self._sizes
        size = partial(equations.size, input_size=input_size, hidden_size=hidden_size)
        ends = accumulate((size(width) for width in equations.x_widths), initial=0)
        self._parts = [slice(first, last) for first, last in pairwise(ends)]
        self._instructions = [
            (slot, compute, inputs, find_shape(self._sized[slot], size) if slot in self._sized else detail)
            for slot, compute, inputs, detail in self._instructions
        ]
        self._sizes = _Bound(self._sizes)


class _Bound(tuple[int, int]):
    """Sizes that the instructions know."""


def _chooses_numbers(node: Symbol) -> bool:
    """Whether both values of a `where` are numbers, so that neither says of which kind the result is."""
    return node.operation == "where" and node.inputs[1].operation == node.inputs[2].operation == "constant"
