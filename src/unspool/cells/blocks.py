"""The operations on matrices and sums over units, for whatever computes as NumPy's arrays and torch's tensors do.

Each takes (P, K, V): P matrices of K rows and V columns. Sums and expansions take P units from or to K each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from unspool.cells.symbols import MATRICES, Symbol
from unspool.cells.widths import factors, join

Shape = tuple[int, int, int]
#: What needs to know sizes.
SIZED = frozenset({*MATRICES, "sum", "mean"} - {"view"})


def find_shape(node: Symbol, size: Callable[[str], int]) -> Shape:
    """The numbers that an operation of `SIZED` acts with.

    Args:
        node: The operation.
        size: The number that a width stands for.
    """
    if node.operation in ("sum", "mean"):
        kept = size(str(node.width))
        return kept, size(str(node.inputs[0].width)) // kept, 1
    if node.operation == "expand":
        kept = size(str(node.inputs[0].width))
        return kept, size(str(node.width)) // kept, 1
    matrix = {"matvec": node.inputs[0], "vecmat": node.inputs[-1]}.get(node.operation, node)
    *heads, rows, columns = factors(str(matrix.width))
    return math.prod(map(size, heads)), size(join((rows,))), size(columns)


def _cut(v: Any, *shape: int) -> Any:
    return v.reshape(*v.shape[:-1], *shape)


def _whole(v: Any, parts: int) -> Any:
    """The last dimensions as one."""
    return v.reshape(*v.shape[:-parts], math.prod(v.shape[-parts:]))


def _outer(a: Any, b: Any, shape: Shape) -> Any:
    count, rows, columns = shape
    return _whole(_cut(a, count, rows, 1) * _cut(b, count, 1, columns), 3)


def _matvec(matrix: Any, v: Any, shape: Shape) -> Any:
    count, rows, columns = shape
    return _whole(_cut(matrix, count, rows, columns) @ _cut(v, count, columns, 1), 3)


def _vecmat(v: Any, matrix: Any, shape: Shape) -> Any:
    count, rows, columns = shape
    return _whole(_cut(v, count, 1, rows) @ _cut(matrix, count, rows, columns), 3)


BLOCKS: dict[str, Callable[..., Any]] = {
    "outer": _outer,
    "matvec": _matvec,
    "vecmat": _vecmat,
    "view": lambda v: v,
    "sum": lambda v, shape: _cut(v, *shape[:2]).sum(-1),
    "mean": lambda v, shape: _cut(v, *shape[:2]).mean(-1),
    "cumsum": lambda v: v.cumsum(-1),
}


def expand_by(repeat: Callable[[Any, tuple[int, ...]], Any]) -> dict[str, Callable[..., Any]]:
    """`expand` and `columns`, from a function that repeats dimensions of one to a shape, such as numpy.broadcast_to."""

    def expand(v: Any, shape: Shape) -> Any:
        return _whole(repeat(_cut(v, shape[0], 1), (*v.shape[:-1], *shape[:2])), 2)

    def columns(v: Any, shape: Shape) -> Any:
        return _whole(repeat(_cut(v, shape[0], 1, shape[2]), (*v.shape[:-1], *shape)), 3)

    return {"expand": expand, "columns": columns}
