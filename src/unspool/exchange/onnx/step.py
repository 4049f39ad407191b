"""One step of a cell as ONNX operations: what the body of a `Scan` is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from unspool.cells.equations import Equations
from unspool.cells.symbols import LinearMap, Symbol
from unspool.errors import CellError
from unspool.exchange.onnx.blocks import BlockEmitter
from unspool.exchange.onnx.graph import Array, GraphBuilder

#: Operations of equations that are one operator of ONNX.
OPERATORS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "negative": "Neg",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "erf": "Erf",
    "softplus": "Softplus",
    "absolute": "Abs",
    "minimum": "Min",
    "maximum": "Max",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "where": "Where",
}


class StepEmitter:
    """Adds the operations of a cell's step to a graph.

    Args:
        graph: Where they go.
        equations: The step.
        parameters: Arrays by their names in the equations.
        sizes: The input size and the hidden size.
    """

    def __init__(
        self, graph: GraphBuilder, equations: Equations, parameters: Mapping[str, Array], sizes: tuple[int, int]
    ) -> None:
        self.graph, self.equations, self.parameters = graph, equations, parameters
        self.blocks = BlockEmitter(graph, partial(equations.size, input_size=sizes[0], hidden_size=sizes[1]))

    def emit(self, x: str, states: Sequence[str]) -> list[str]:
        """The new states from x (batch, input_size) and the old states (batch, width), all by name."""
        before = dict(zip(self.equations.states, states, strict=True))
        values: dict[Symbol, str] = {}
        for node in self.equations.nodes:
            values[node] = self._emit_node(node, [values[value] for value in node.inputs], x, before)
        results = zip(self.equations.results, states, strict=True)
        return [self._for_every_row(node, values[node], state) for node, state in results]

    def _emit_node(self, node: Symbol, inputs: list[str], x: str, before: Mapping[str, str]) -> str:
        match node.operation:
            case "input":
                return x
            case "state":
                return before[node.detail]
            case "vector":
                return self.graph.floats(self.parameters[node.detail].reshape(-1), node.detail)
            case "constant":
                return self.graph.floats(node.detail)
            case "linear":
                return self._linear(node.detail, inputs)
            case "normalise":
                return self._normalise(inputs[0], node.detail)
            case "log1p":
                return self.graph.add("Log", self.graph.add("Add", inputs[0], self.graph.floats(1.0)))
            case "extra":
                raise CellError(
                    f"{self.equations.title} reads {node.detail!r} besides x, and an exported model has x alone."
                )
            case operation if operation not in OPERATORS:
                return self.blocks.emit(node, inputs)
        return self.graph.add(OPERATORS[node.operation], *inputs)

    def _linear(self, linear: LinearMap, operands: Sequence[str]) -> str:
        total = ""
        for matrix, operand in zip(linear.matrices, operands, strict=True):
            product = self.graph.add("MatMul", operand, self._weights(matrix, transposed=True))
            total = self.graph.add("Add", total, product) if total else product
        return total if linear.bias is None else self.graph.add("Add", total, self._weights(linear.bias))

    def _weights(self, name: str, transposed: bool = False) -> str:
        array = self.parameters[name]
        return self.graph.floats(array.T if transposed else array, name)

    def _normalise(self, v: str, epsilon: float) -> str:
        """(v − mean) / √(variance + ε), over the units of a row."""
        centerd = self.graph.add("Sub", v, self.graph.add("ReduceMean", v, axes=[-1], keepdims=1))
        square = self.graph.add("Mul", centerd, centerd)
        variance = self.graph.add("ReduceMean", square, axes=[-1], keepdims=1)
        deviation = self.graph.add("Sqrt", self.graph.add("Add", variance, self.graph.floats(epsilon)))
        return self.graph.add("Div", centerd, deviation)

    def _for_every_row(self, node: Symbol, value: str, state: str) -> str:
        """A new state (batch, width), also where it depends on nothing that has rows."""
        if _has_rows(node):
            return value
        return self.graph.add("Expand", value, self.graph.add("Shape", state))


def _has_rows(root: Symbol) -> bool:
    """Whether a value depends on the input or on a state."""
    pending, seen = [root], {root}
    while pending:
        node = pending.pop()
        if node.operation in ("input", "state"):
            return True
        fresh = [value for value in node.inputs if value not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return False
