"""Which of a cell's named values are gates, read from its equations."""

from __future__ import annotations

from unspool.cells.equations import Equations
from unspool.cells.symbols import Symbol


def find_gates(equations: Equations) -> tuple[str, ...]:
    """The names of gates: sigmoids g where g or 1 − g multiplies another value.

    So the state of a network whose activation is a sigmoid is not a gate.

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
    return tuple(name for name, value in equations.named.items() if value.operation == "sigmoid" and value in factors)


def _gating_factors(equations: Equations) -> set[Symbol]:
    """Values v such that v or 1 − v is a factor of a product."""
    factors = {value for node in equations.nodes if node.operation == "multiply" for value in node.inputs}
    factors |= {node.inputs[0] for node in factors if node.operation in ("expand", "columns")}  # a gate per row
    inverted = {node.inputs[1] for node in factors if node.operation == "subtract" and node.inputs[0].detail == 1}
    return factors | inverted
