"""Sums over units and operations on matrices in ONNX; values are (batch, width), or (width,) where nothing has rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from unspool.cells.blocks import find_shape
from unspool.cells.symbols import Symbol
from unspool.exchange.onnx.graph import GraphBuilder


class BlockEmitter:
    """Adds such operations to a graph.

    Args:
        graph: Where they go.
        size: The number that a width stands for.
    """

    def __init__(self, graph: GraphBuilder, size: Callable[[str], int]) -> None:
        self.graph, self.size = graph, size

    def emit(self, node: Symbol, inputs: Sequence[str]) -> str:
        """The name of the result."""
        add, integers = self.graph.add, self.graph.integers
        match node.operation:
            case "softmax":
                return add("Softmax", inputs[0], axis=-1)
            case "cumsum":
                return add("CumSum", inputs[0], integers(-1))
            case "max":
                return add("ReduceMax", inputs[0], axes=[-1], keepdims=1)
            case "view":
                return inputs[0]
        count, rows, columns = find_shape(node, self.size)
        match node.operation:
            case "sum":
                return add("ReduceSum", self._cut(inputs[0], count, rows), integers([-1]), keepdims=0)
            case "mean":
                return add("ReduceMean", self._cut(inputs[0], count, rows), axes=[-1], keepdims=0)
            case "outer":
                product = add("Mul", self._cut(inputs[0], count, rows, 1), self._cut(inputs[1], count, 1, columns))
                return self._cut(product, count * rows * columns)
            case "matvec":
                v = self._cut(inputs[1], count, columns, 1)
                return self._cut(add("MatMul", self._cut(inputs[0], count, rows, columns), v), count * rows)
            case "vecmat":
                v = self._cut(inputs[0], count, 1, rows)
                return self._cut(add("MatMul", v, self._cut(inputs[1], count, rows, columns)), count * columns)
            case "columns":
                return self._repeated(self._cut(inputs[0], count, 1, columns), (count, rows, columns))
        return self._repeated(self._cut(inputs[0], count, 1), (count, rows))

    def _cut(self, value: str, *shape: int) -> str:
        return self.graph.add("Reshape", value, self.graph.integers([-1, *shape]))

    def _repeated(self, value: str, shape: tuple[int, ...]) -> str:
        whole = self.graph.add("Expand", value, self.graph.integers([1, *shape]))
        return self._cut(whole, math.prod(shape))
