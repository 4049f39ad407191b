"""Sums over units and operations on matrices as ONNX operations.

Values are (batch, width) with matrices row after row, so each is cut into (batch, matrices, rows, columns) and joined
again. Shapes are (P, K, V), as `unspool.cells.blocks` has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from unspool.cells.blocks import Shape
from unspool.exchange.onnx.graph import GraphBuilder


def emit_sized(graph: GraphBuilder, operation: str, inputs: list[str], shape: Shape) -> str:
    """Add an operation that acts with sizes to a graph.

    Args:
        graph: Where it goes.
        operation: One of `unspool.cells.blocks.SIZED`.
        inputs: The names of its operands.
        shape: The sizes that it acts with.

    Returns:
        The name of its value, (batch, width).
    """
    return _EMITTERS[operation](graph, inputs, shape)


def _cut(graph: GraphBuilder, value: str, *shape: int) -> str:
    return graph.add("Reshape", value, graph.integers([-1, *shape], "shape"))


def _outer(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    count, rows, columns = shape
    product = graph.add("Mul", _cut(graph, inputs[0], count, rows, 1), _cut(graph, inputs[1], count, 1, columns))
    return _cut(graph, product, math.prod(shape))


def _matvec(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    count, rows, columns = shape
    product = graph.add("MatMul", _cut(graph, inputs[0], *shape), _cut(graph, inputs[1], count, columns, 1))
    return _cut(graph, product, count * rows)


def _vecmat(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    count, rows, columns = shape
    product = graph.add("MatMul", _cut(graph, inputs[0], count, 1, rows), _cut(graph, inputs[1], *shape))
    return _cut(graph, product, count * columns)


def _mean(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    return graph.add("ReduceMean", _cut(graph, inputs[0], *shape[:2]), axes=[-1], keepdims=0)


def _sum(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    return graph.add("Mul", _mean(graph, inputs, shape), graph.floats(shape[1]))


def _expand(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    ones = graph.floats(np.ones((1, shape[1])), "ones")
    return _cut(graph, graph.add("Mul", _cut(graph, inputs[0], shape[0], 1), ones), shape[0] * shape[1])


def _columns(graph: GraphBuilder, inputs: list[str], shape: Shape) -> str:
    count, rows, columns = shape
    ones = graph.floats(np.ones((rows, 1)), "ones")
    return _cut(graph, graph.add("Mul", _cut(graph, inputs[0], count, 1, columns), ones), math.prod(shape))


_EMITTERS: Mapping[str, Callable[[GraphBuilder, list[str], Shape], str]] = {
    "outer": _outer,
    "matvec": _matvec,
    "vecmat": _vecmat,
    "mean": _mean,
    "sum": _sum,
    "expand": _expand,
    "columns": _columns,
}
