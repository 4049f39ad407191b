"""Sums over units, and values that are matrices: outer products and contractions.

A value of width "key*value" is a matrix with `key` rows and `value` columns. With "heads*key*value" there is one per
head, and everything here acts head by head.
"""

from __future__ import annotations

from unspool.cells.symbols import CONDITIONS, Symbol, users_line
from unspool.cells.widths import MOST_FACTORS, ONE, factors, is_prefix, join
from unspool.errors import CellError


def sum_units(v: Symbol, keep: str = ONE) -> Symbol:
    """The sum over the units of a row: one number, which fits values of any width.

    Args:
        v: The value.
        keep: A width by which v's begins: then there is a sum for each of its units, as for each head.

    Returns:
        A value of width `keep`.

    Example:
        sum_units(v)  # a number per row of the batch
        sum_units(v, keep="heads")  # of v of width "heads*head": a number per head
    """
    return _reduce("sum", v, keep)


def mean_units(v: Symbol, keep: str = ONE) -> Symbol:
    """The mean over the units of a row; see `sum_units`."""
    return _reduce("mean", v, keep)


def max_units(v: Symbol) -> Symbol:
    """The largest of a row's units, a value of width "one"; equal ones share the gradient."""
    return _reduce("max", v, ONE)


def outer(a: Symbol, b: Symbol) -> Symbol:
    """a bᵀ: a matrix with a row for each unit of a and a column for each unit of b.

    Args:
        a: Of width "key", or "heads*key".
        b: Of width "value", or "heads*value".

    Returns:
        A value of width "key*value", or "heads*key*value".
    """
    rows, columns = _parts("outer", a), _parts("outer", b)
    _check(rows[:-1] == columns[:-1] and 0 < len(rows) < MOST_FACTORS, "outer", a, b)
    return a.graph.node("outer", (a, b), join((*rows, columns[-1])))


def matvec(matrix: Symbol, v: Symbol) -> Symbol:
    """M v: the sum over the columns of M, each times a unit of v.

    Args:
        matrix: Of width "key*value", or "heads*key*value".
        v: Of width "value", or "heads*value".

    Returns:
        A value of width "key", or "heads*key".
    """
    parts, columns = _parts("matvec", matrix), _parts("matvec", v)
    _check(len(parts) > 1 and columns == (*parts[:-2], parts[-1]), "matvec", matrix, v)
    return matrix.graph.node("matvec", (matrix, v), join(parts[:-1]))


def vecmat(v: Symbol, matrix: Symbol) -> Symbol:
    """vᵀ M: the sum over the rows of M, each times a unit of v.

    Args:
        v: Of width "key", or "heads*key".
        matrix: Of width "key*value", or "heads*key*value".

    Returns:
        A value of width "value", or "heads*value".
    """
    rows, parts = _parts("vecmat", v), _parts("vecmat", matrix)
    _check(len(parts) > 1 and rows == parts[:-1], "vecmat", v, matrix)
    return matrix.graph.node("vecmat", (v, matrix), join((*parts[:-2], parts[-1])))


def scale_columns(matrix: Symbol, v: Symbol) -> Symbol:
    """M diag(v): each column of M times a unit of v. For rows write `v * matrix`."""
    return matrix * columns_of(v, str(matrix.width))


def columns_of(v: Symbol, width: str) -> Symbol:
    """A matrix of this width all of whose rows are v."""
    parts, columns = factors(width), _parts("columns", v)
    if len(parts) < 2 or columns != (*parts[:-2], parts[-1]):
        raise CellError(f"{v!r} has not a unit for each column of a value of width {width!r} ({users_line()}).")
    return v.graph.node("columns", (v,), width)


def _reduce(operation: str, v: Symbol, keep: str) -> Symbol:
    _parts(operation, v)
    if not is_prefix(keep, str(v.width)) or keep == v.width:
        raise CellError(
            f"{operation} of {v!r} cannot keep {keep!r} ({users_line()}). Keep 'one', or what the width begins with."
        )
    return v.graph.node(operation, (v,), keep)


def _parts(operation: str, v: object) -> tuple[str, ...]:
    """The factors of a value's width."""
    if not isinstance(v, Symbol) or v.width is None or v.operation in CONDITIONS:
        raise CellError(f"{operation} takes values of the equations, got {CellError.shown(v)} ({users_line()}).")
    return factors(v.width)


def _check(fits: bool, operation: str, a: Symbol, b: Symbol) -> None:
    if not fits:
        raise CellError(
            f"{operation} of {a!r} and {b!r} ({users_line()}): the widths do not fit. A matrix has a width such as "
            "'key*value', or 'heads*key*value' with one for each head; vectors have 'key' or 'heads*key'."
        )
