"""Which of a cell's named values are gates, read from its equations."""

from __future__ import annotations

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
