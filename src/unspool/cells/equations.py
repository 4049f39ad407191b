"""Equations: what is known of a cell once its `step` has been read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from unspool.cells.symbols import Symbol

RECURRENT = re.compile(r"U\d*_")


@dataclass(frozen=True, eq=False)
class Equations:
    """One step of a cell as a graph of symbols.

    Widths are names of sizes: "input", "hidden", and those in `sizes`.
    """

    title: str
    sizes: Mapping[str, int]
    states: Mapping[str, str]  # name → width; the first state is the output
    parameters: Mapping[str, tuple[str, ...]]  # name → widths, e.g. "U_r" → ("hidden", "hidden")
    initial: Mapping[str, float]  # name of a per-unit vector → its first value
    nodes: tuple[Symbol, ...]  # x and the states, then each after its inputs
    named: Mapping[str, Symbol]  # every value with a name, in the order of its computation; new states included
    results: tuple[Symbol, ...]  # the new states

    def __deepcopy__(self, memo: dict[int, object]) -> Equations:
        return self  # nothing in it can change

    @property
    def recurrent_matrices(self) -> tuple[str, ...]:
        """The names of the matrices that do not read x: U_r, U1_h, …"""
        return tuple(name for name in self.parameters if RECURRENT.match(name))

    @property
    def largest_number(self) -> float:
        """The largest magnitude among the numbers that stand in the equations; 0 without any."""
        return max((abs(node.detail) for node in self.nodes if isinstance(node.detail, float)), default=0.0)

    def size(self, width: str, input_size: int, hidden_size: int) -> int:
        """The number that a width stands for in a layer of these sizes."""
        return {"input": input_size, "hidden": hidden_size, **self.sizes}[width]

    def shapes(self, input_size: int, hidden_size: int) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter."""
        return {
            name: tuple(self.size(width, input_size, hidden_size) for width in widths)
            for name, widths in self.parameters.items()
        }

    def count_parameters(self, input_size: int, hidden_size: int) -> int:
        """How many numbers are learned."""
        return sum(map(math.prod, self.shapes(input_size, hidden_size).values()))
