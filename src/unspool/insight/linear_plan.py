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
from unspool.errors import UnspoolError

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


@lru_cache(maxsize=64)
def make_plan(equations: Equations) -> Plan:
    """The plan of a cell's equations.

    Raises:
        UnspoolError: A step does more than maps, normalizations and functions that act unit by unit, as matrix-valued
            states do. Factors per unit would be wrong there.
    """
    nodes = equations.nodes
    mixed = [name for name in OVER_UNITS if any(node.operation == name for node in nodes)]
    if mixed:
        raise UnspoolError(
            f"gradients are not followed through the steps of {equations.title}, which mix units by "
            f"{', '.join(mixed)}. Measures without gradients are complete"
        )
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
