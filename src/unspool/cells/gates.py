"""Which of a cell's named values are gates, and which of them act one after another, read from its equations."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.equations import Equations
from unspool.cells.symbols import Symbol


def find_gates(equations: Equations) -> tuple[str, ...]:
    """The names of gates: values g between 0 and 1 by their form, where g or 1 − g multiplies another value.

    These are sigmoids, sigmoids times a number, and sigmoids f divided by f + i, so that they add up to 1. The state of
    a network whose activation is a sigmoid is not a gate.

    Args:
        equations: Of a cell.

    Returns:
        Names, in the order of the equations.

    Example:
        >>> from unspool.cells.catalogue import find_cell
        >>> find_gates(find_cell("gru").equations())
        ('r', 'z')
    """
    factors = _gating_factors(equations)
    return tuple(name for name, value in equations.named.items() if value in factors and _is_open(value))


def most_open(gate: Symbol) -> float:
    """The value of a gate that is wide open: 1, or the number by which its sigmoid is multiplied."""
    scaled = gate.operation == "multiply" and gate.inputs[0].operation == "constant"
    return float(gate.inputs[0].detail) if scaled and _is_open(gate) else 1.0


def find_series(equations: Equations, keeps: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The gates that keep, together where one acts on what another has kept in the same step.

    Args:
        equations: Of a cell.
        keeps: Names of gates among its values, +1 for one that keeps as it opens, −1 as it closes.

    Returns:
        Names, in the order of the equations.

    Example:
        >>> from unspool.cells import LEM, RHN
        >>> find_series(RHN(depth=2).equations(), RHN(depth=2).keeps)
        (('t1', 't2'),)
        >>> find_series(LEM().equations(), LEM.keeps)
        (('a',), ('b',))
    """
    order = [name for name in equations.named if name in keeps]
    products = {name: _products(equations, equations.named[name], keeps[name]) for name in order}
    series: list[tuple[str, ...]] = []
    for name in order:
        terms = {term for _, value in products[name] for term in _terms(value)}
        before = next((one for one in series if any(kept in terms for kept, _ in products[one[-1]])), None)
        if before is not None and equations.named[before[0]].width == equations.named[name].width:
            series[series.index(before)] = (*before, name)
        else:
            series.append((name,))
    return tuple(series)


def _products(equations: Equations, gate: Symbol, sign: int) -> list[tuple[Symbol, Symbol]]:
    """Products of what a gate keeps with another value, and these values."""
    found = []
    for node in equations.nodes:
        if node.operation == "multiply":
            for factor, other in (node.inputs, node.inputs[::-1]):
                if factor is gate if sign > 0 else _is_inverse(factor, gate):
                    found.append((node, other))
    return found


def _is_inverse(value: Symbol, gate: Symbol) -> bool:
    return value.operation == "subtract" and value.inputs[0].detail == 1 and value.inputs[1] is gate


def _terms(value: Symbol) -> set[Symbol]:
    """The values that are added up in a sum."""
    if value.operation != "add":
        return {value}
    return {term for part in value.inputs for term in _terms(part)}


def _is_open(value: Symbol) -> bool:
    """Whether a value is between 0 and 1 by its form."""
    if value.operation == "multiply":
        number, other = value.inputs
        return number.operation == "constant" and 0 < number.detail <= 1 and other.operation == "sigmoid"
    if value.operation == "divide":
        part, whole = value.inputs
        return part.operation == "sigmoid" and whole.operation == "add" and any(one is part for one in whole.inputs)
    return value.operation == "sigmoid"


def _gating_factors(equations: Equations) -> set[Symbol]:
    """Values v such that v or 1 − v is a factor of a product."""
    factors = {value for node in equations.nodes if node.operation == "multiply" for value in node.inputs}
    factors |= {node.inputs[0] for node in factors if node.operation in ("expand", "columns")}  # a gate per row
    inverted = {node.inputs[1] for node in factors if node.operation == "subtract" and node.inputs[0].detail == 1}
    return factors | inverted
