"""Linear plan: how small changes pass through one step of a cell: by maps, and by factors per unit between them.

A step of the equations consists of linear maps, normalizations, and functions that act unit by unit. Small changes pass
the latter by factors, one per unit. So the first-order change of a step needs only the products with its matrices and
some elementwise products, and its factors can be computed for all steps at once, before any change is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from unspool.cells.equations import Equations
from unspool.cells.symbols import Symbol
from unspool.cells.widths import ONE

#: What ends a chain of functions that act unit by unit.
STAGES = ("linear", "normalise")
#: What neither is a stage nor acts unit by unit.
OVER_UNITS = ("outer", "matvec", "vecmat", "columns", "expand", "view", "sum", "mean", "max", "softmax", "cumsum")


@dataclass(frozen=True, eq=False)
class Stage:
    """A normalization, or all linear maps that read the same values."""

    nodes: tuple[Symbol, ...]  # what it computes
    operands: tuple[Symbol, ...]  # what it reads

    @property
    def is_linear(self) -> bool:
        """Whether it consists of linear maps."""
        return self.nodes[0].operation == "linear"

    def matrices(self, place: int) -> tuple[str, ...]:
        """The names of the matrices that act on one of the operands, one per map."""
        return tuple(node.detail.matrices[place] for node in self.nodes)


@dataclass(frozen=True, eq=False)
class Plan:
    """The parts of one step, in an order in which changes can pass them."""

    x: Symbol
    states: tuple[Symbol, ...]
    vectors: tuple[Symbol, ...]
    stages: tuple[Stage, ...]
    results: tuple[Symbol, ...]
    reads: Mapping[Symbol, tuple[Symbol, ...]]  # result or operand → what it depends on unit by unit
    values: Mapping[Symbol, str]  # every node → a name for its value


def mixes_units(equations: Equations) -> bool:
    """Whether units depend on each other other than by linear maps and normalizations, or a step reads more than x.

    One number that acts on all units mixes them too: its gradient is a sum over them.
    """
    return any(
        node.operation in ("extra", *OVER_UNITS)
        or (node.operation not in STAGES and any(_is_spread(value, node) for value in node.inputs))
        for node in equations.nodes
    )


def _is_spread(value: Symbol, node: Symbol) -> bool:
    """Whether one number of a place becomes one per unit."""
    return value.width == ONE != node.width


@lru_cache(maxsize=64)
def make_plan(equations: Equations) -> Plan:
    """The plan of a cell's equations. Where a cell mixes units, `reads` says too little; the stages are right."""
    nodes = equations.nodes
    states = {node.detail: node for node in nodes if node.operation == "state"}
    begins = {node for node in nodes if node.operation in ("input", "state", "vector")}
    stages = tuple(_stages(nodes))
    leaves = begins | {node for stage in stages for node in stage.nodes}
    roots = {*equations.results, *(operand for stage in stages for operand in stage.operands)}
    return Plan(
        x=next(node for node in nodes if node.operation == "input"),
        states=tuple(states[name] for name in equations.states),
        vectors=tuple(node for node in nodes if node.operation == "vector"),
        stages=stages,
        results=equations.results,
        reads={root: tuple(_unit_by_unit(root, leaves)) for root in roots},
        values={node: str(number) for number, node in enumerate(nodes)},
    )


def _stages(nodes: tuple[Symbol, ...]) -> Iterator[Stage]:
    """Maps that read the same values are one stage, at the place of the first: one product serves them all."""
    done: set[Symbol] = set()
    for node in nodes:
        if node.operation not in STAGES or node in done:
            continue
        alike = [node]
        if node.operation == "linear":
            alike = [
                other
                for other in nodes
                if other.operation == "linear" and list(map(id, other.inputs)) == list(map(id, node.inputs))
            ]
        done.update(alike)
        yield Stage(tuple(alike), node.inputs)


def _unit_by_unit(root: Symbol, leaves: set[Symbol]) -> list[Symbol]:
    """The leaves that a value depends on without another leaf between, each once."""
    found: dict[Symbol, None] = {}
    seen: set[Symbol] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node in leaves:
            found[node] = None
        elif node not in seen:
            seen.add(node)
            waiting.extend(node.inputs)
    return list(found)
