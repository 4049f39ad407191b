"""The way back as a graph: what is kept for it, and its gradients in NumPy against torch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.agreement import by_loop, weights
from tests.engine.random_cells import clear_call, random_cell
from tests.variants import VARIANTS, cell_of, each_cell

from unspool import cells
from unspool.cells import Cell, Symbol, maximum, minimum, sum_units, tanh, where, widths
from unspool.cells.equations import Equations
from unspool.engine import record_length
from unspool.engine.graph import Lowered, Node, lower
from unspool.engine.reverse import reverse

Array = NDArray[np.float64]


# What is kept


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("lstm", "ifgo"),
        ("lstm-projection", "ifgo"),
        ("lstm-open", "ifg"),
        ("gru", "rzn"),
        ("elman", ""),
        ("elman-relu", ""),
        ("elman-sigmoid", ""),
        ("linear", ""),
        ("jordan", "h"),
        ("residual", "f"),
        ("skip-3", ""),
        ("Minimal", "zn"),
        ("PeepholeLSTM", "ifo"),
    ],
)
def test_only_what_cannot_be_recomputed_is_kept(name: str, kept: str) -> None:
    """tanh(c), for one, follows from c, and the slope of tanh from the new state."""
    lowered = lower(VARIANTS[name].equations())
    names = {node: name for name, node in lowered.named.items()}
    slots = [names.get(slot, "") for slot in reverse(lowered).slots]
    unnamed = {"PeepholeLSTM": 1}.get(name, 0)  # the tanh of g has no name there
    assert sorted(filter(None, slots)) == sorted(kept)
    assert slots.count("") == unnamed


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("lstm", 4 * 7 + 7),  # the gates, and c
        ("lstm-projection", 4 * 7 + 7),
        ("gru", 3 * 7),
        ("gru-reset-after", 3 * 7 + 7),  # r multiplies a product, which is kept too
        ("elman", 0),
        ("skip-3", 2 * 7),  # the two states behind h
        ("ThreeStates", None),
    ],
)
def test_record_length(name: str, numbers: int | None) -> None:
    equations = VARIANTS[name].equations()
    lowered = lower(equations)
    kept = [slot.width for slot in reverse(lowered).slots] + list(equations.states.values())[1:]
    expected = sum(equations.size(str(width), 5, 7) if width else 1 for width in kept)
    assert record_length(equations, 5, 7) == expected
    assert numbers in (None, expected)


# The reverse, evaluated in NumPy, against torch


class Numbers:
    """Evaluates nodes of the engine for one step of a batch: a plain reading of what each operation means."""

    def __init__(self, equations: Equations, values: Mapping[str, Array], x: Array, states: list[Array]) -> None:
        self.parameters, self.x, self.states = values, x, states
        self.equations = equations
        self.known: dict[Node, Any] = {}
        self.after: list[Array] = []
        self.d_after: list[Array] = []
        self.stored: list[Array] = []
        self.hidden = equations.find_hidden_size({name: value.shape for name, value in values.items()}) or 0
        self.input = equations.input_size_of(x.shape[1], self.hidden)

    def size(self, width: str) -> int:
        return self.equations.size(width, self.input, self.hidden)

    def part_of_x(self, index: int) -> Array:
        """The input (0) or a further input (from 1 on)."""
        sizes = [self.size(width) for width in self.equations.x_widths]
        return np.split(self.x, np.cumsum(sizes)[:-1], 1)[index]

    def factors(self, value: Any, width: str) -> Array:
        """A value with a dimension for the rows and one for each factor."""
        parts = [self.size(part) for part in widths.factors(width)]
        return np.broadcast_to(value, (len(self.x), math.prod(parts))).reshape(len(self.x), *parts)

    def expand(self, node: Node, value: Any) -> Array:
        whole = [self.size(part) for part in widths.factors(str(node.width))]
        parts = self.factors(value, str(node.inputs[0].width))
        lost = [place + 1 for place in range(len(whole)) if place not in node.detail]
        return np.broadcast_to(np.expand_dims(parts, lost), (len(self.x), *whole)).reshape(len(self.x), -1)

    def reduce(self, node: Node, value: Any) -> Array:
        parts = self.factors(value, str(node.inputs[0].width))
        lost = tuple(place + 1 for place in range(parts.ndim - 1) if place not in node.detail)
        total: Array = parts.sum(lost).reshape(len(self.x), -1)
        return total

    def cumsum(self, node: Node, value: Any) -> Array:
        whole = self.factors(value, str(node.width)).reshape(len(self.x), -1)
        return whole[:, ::-1].cumsum(1)[:, ::-1] if node.detail else whole.cumsum(1)

    def __call__(self, node: Node) -> Any:
        if node not in self.known:
            inputs = [self(value) for value in node.inputs]
            self.known[node] = self._compute(node, inputs)
        return self.known[node]

    def _compute(self, node: Node, inputs: list[Any]) -> Any:
        match node.operation:
            case "x" | "extra":
                return self.part_of_x(0 if node.operation == "x" else 1 + node.detail)
            case "expand" | "reduce" | "cumsum":
                return getattr(self, node.operation)(node, inputs[0])
            case "view":
                return inputs[0]
            case "widen":
                return np.broadcast_to(inputs[0], (len(self.x), self.size(str(node.width))))
            case "row_max":
                return inputs[0].max(-1, keepdims=True)
            case "before" | "after" | "d_after" | "stored":
                table = {"before": self.states, "after": self.after, "d_after": self.d_after, "stored": self.stored}
                return table[node.operation][node.detail]
            case "vector":
                return self.parameters[node.detail].reshape(-1)
            case "constant":
                return node.detail
            case "per_unit":
                return 1 / self.size(node.detail)
            case "map":
                total = sum(v @ self.parameters[m].T for v, m in zip(inputs, node.detail.matrices, strict=True))
                return total + (self.parameters[node.detail.bias] if node.detail.bias else 0)
            case "back":
                return sum(g @ self.parameters[m] for g, m in zip(inputs, node.detail[1], strict=True))
            case "row_sum":
                whole = np.broadcast_to(inputs[0], (len(self.x), np.shape(inputs[0])[-1]))
                return whole.sum(-1, keepdims=True)
        functions: dict[str, Callable[..., Any]] = {
            "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
            "negative": np.negative, "minimum": np.minimum, "maximum": np.maximum, "tanh": np.tanh, "exp": np.exp,
            "log": np.log, "sqrt": np.sqrt, "absolute": np.abs, "less": np.less, "less_equal": np.less_equal,
            "where": np.where, "relu": lambda v: np.maximum(v, 0), "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
            "sin": np.sin, "cos": np.cos, "log1p": np.log1p, "softplus": lambda v: np.logaddexp(v, 0),
            "erf": np.vectorize(math.erf),
        }  # fmt: skip
        return functions[node.operation](*inputs)


def gradients_by_graph(lowered: Lowered, numbers: Numbers, d_after: list[Array]) -> dict[str, Array]:
    """All gradients of one step, from the reverse graph."""
    found = reverse(lowered)
    rows = len(numbers.x)
    numbers.after = [np.broadcast_to(numbers(node), d.shape) for node, d in zip(lowered.results, d_after, strict=True)]
    numbers.stored = [numbers(node) for node in found.slots]
    numbers.d_after = d_after
    states = list(lowered.equations.states)
    further: dict[int, Array] = {}
    total: dict[str, Any] = dict.fromkeys(("x", *states, *lowered.equations.parameters), 0.0)
    for index, node in found.d_before.items():
        total[states[index]] += numbers(node)
    if found.d_x is not None:
        total["x"] += numbers(found.d_x)
    for index, node in found.d_extras.items():
        place = len(lowered.equations.x_widths) - len(lowered.equations.inputs) + index
        further[place] = np.broadcast_to(numbers(node), numbers.part_of_x(place).shape)
    for name, node in found.d_vectors.items():
        whole = np.broadcast_to(numbers(node), (rows, numbers.parameters[name].size))
        total[name] += whole.sum(0).reshape(numbers.parameters[name].shape)
    for map_node in (node for node in lowered.nodes if node.operation == "map" and node in found.d_maps):
        linear = map_node.detail
        width = len(numbers.parameters[linear.matrices[0]])
        gradient = np.broadcast_to(numbers(found.d_maps[map_node]), (rows, width))
        for matrix, operand in zip(linear.matrices, map_node.inputs, strict=True):
            value = numbers(found.operands.get(operand, operand))
            total[matrix] += gradient.T @ np.broadcast_to(value, (rows, np.shape(value)[-1]))
            if operand.operation == "x":
                total["x"] += gradient @ numbers.parameters[matrix]
            elif operand.operation == "before":
                total[states[operand.detail]] += gradient @ numbers.parameters[matrix]
        if linear.bias:
            total[linear.bias] += gradient.sum(0)
    total["x"] = np.concatenate(
        [np.broadcast_to(total["x"], numbers.part_of_x(0).shape), *(further[place] for place in sorted(further))], 1
    )
    return total


def check_reverse(cell: Cell, seed: int = 0) -> None:
    call = clear_call(cell, seed, 1, 3, 4, 5)
    expected = by_loop(call)
    lowered = lower(call.layer.equations)
    values = {name: tensor.detach().numpy() for name, tensor in call.layer.cell_parameters().items()}
    states = [state.detach().numpy() for state in call.states]
    numbers = Numbers(call.layer.equations, values, call.x.detach().numpy()[0], states)
    names = list(lowered.equations.states)
    d_after = [weights(f"final {name}", state).numpy() for name, state in zip(names, call.states, strict=True)]
    d_after[0] = d_after[0] + weights("output", expected["output"]).numpy()[0]
    found = gradients_by_graph(lowered, numbers, d_after)
    for index, name in enumerate(names):
        np.testing.assert_allclose(numbers.after[index], expected[f"final {name}"], rtol=1e-12, atol=1e-12)
    for name, gradient in found.items():
        exact = expected[f"d {name}"].numpy().reshape(np.shape(gradient) or expected[f"d {name}"].shape)
        np.testing.assert_allclose(gradient, exact, rtol=1e-11, atol=1e-11, err_msg=name)


OPERATIONS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "square": lambda a, b: a * a,
    "divide": lambda a, b: a / (b * b + 1),
    "negative": lambda a, b: -a,
    "minimum": minimum,
    "maximum": maximum,
    "minimum of equals": lambda a, b: minimum(a, a + 0 * b),
    "where": lambda a, b: where(a < b, a * b, b),
    "where of an earlier comparison": lambda a, b: where(a + b <= 0.2, a * b, where(a + b <= 0.2, 1.0, b)),
    "a number": lambda a, b: where(a < 0.1, 0.3, -0.4) * b,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_reverse_of_each_operation(name: str) -> None:
    """Of states, vectors, maps and maps of intermediate values."""

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        a = self.linear("a", x, h)
        b = self.linear("b", tanh(a))
        pairs = ((a, h), (h, self.vector("v")), (self.vector("w"), a), (a, b), (b, h))
        return sum((OPERATIONS[name](*pair) for pair in pairs), start=0 * h)

    for seed in range(3):
        check_reverse(cell_of(step), seed)


FUNCTIONS = (
    "sigmoid tanh relu exp log log1p sqrt absolute sin cos erf softplus gelu silu log_sigmoid "
    "normalise softmax cumsum sum_units mean_units max_units"
)


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_reverse_of_each_function(name: str) -> None:
    function: Callable[[Symbol], Symbol] = getattr(cells, name)
    inner: Callable[[Symbol], Symbol] = (lambda v: v * v + 0.5) if name in ("log", "sqrt", "log1p") else lambda v: v

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        outside = function(inner(self.linear("a", x, h)))
        mixed = outside * function(inner(h)) + self.linear("b", function(inner(self.vector("v"))))
        return mixed + sum_units(outside * h)

    check_reverse(cell_of(step))


@each_cell
def test_reverse_of_every_cell(cell: Cell) -> None:
    check_reverse(cell)


@pytest.mark.parametrize("tens", range(10))
def test_reverse_of_random_cells(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        check_reverse(random_cell(seed), seed)
