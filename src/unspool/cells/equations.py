"""Equations: what is known of a cell once its `step` has been read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from unspool.cells.symbols import Symbol
from unspool.cells.widths import at_places, factors
from unspool.errors import ArgumentError

RECURRENT = re.compile(r"U\d*_")


@dataclass(frozen=True, eq=False)
class Equations:
    """One step of a cell as a graph of symbols.

    Widths are names of sizes: "input", "hidden", "one", those in `sizes`, and products such as "heads*head". A size may
    be a fraction of another: "hidden/heads".
    """

    title: str
    sizes: Mapping[str, int | str]
    states: Mapping[str, str]  # name → width; the first state is the output
    parameters: Mapping[str, tuple[str, ...]]  # name → widths, e.g. "U_r" → ("hidden", "hidden")
    initial: Mapping[str, float]  # name of a per-unit vector → its first value
    nodes: tuple[Symbol, ...]  # x and the states, then each after its inputs
    named: Mapping[str, Symbol]  # every value with a name, in the order of its computation; new states included
    results: tuple[Symbol, ...]  # the new states
    inputs: Mapping[str, str] = field(default_factory=dict)  # name → width of what a step reads besides x

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
        own = {"input": input_size, "hidden": hidden_size, **self.sizes}
        return math.prod(self._one_size(part, own) for part in factors(width))

    def _one_size(self, name: str, own: Mapping[str, int | str]) -> int:
        size = own[name]
        if isinstance(size, int):
            return size
        whole, _, part = size.partition("/")
        total, count = self._one_size(whole, own), self._one_size(part, own)
        if total % count:
            raise ArgumentError.of(
                f"{whole}_size",
                total,
                f"cannot be divided by `{part}` (={count}) of {self.title}",
                "Change one of them",
            )
        return total // count

    @property
    def hidden_unit(self) -> int:
        """What the hidden size is a multiple of: 4 where the cell has a size "hidden/heads" and 4 heads."""
        parts = [str(size).partition("/") for size in self.sizes.values()]
        return math.lcm(*(int(self.sizes[count]) for whole, _, count in parts if whole == "hidden"))

    @property
    def widths(self) -> tuple[str, ...]:
        """Every width that occurs: "input", "hidden", the cell's own, and whatever values and their sums have."""
        found = dict.fromkeys(("input", "hidden", *self.sizes))
        for node in self.nodes:
            if node.width is not None:
                found[node.width] = None
            if node.operation == "mean":
                rest = range(len(factors(str(node.width))), len(factors(str(node.inputs[0].width))))
                found[at_places(str(node.inputs[0].width), rest)] = None
        for width in tuple(found):
            found.update(dict.fromkeys(factors(width)))
        return tuple(found)

    @property
    def x_widths(self) -> tuple[str, ...]:
        """The widths of what stands side by side in x: the input and then the further inputs."""
        return (str(self.nodes[0].width), *self.inputs.values())

    def x_size(self, input_size: int, hidden_size: int) -> int:
        """How wide x is with the further inputs beside it."""
        return sum(self.size(width, input_size, hidden_size) for width in self.x_widths)

    def input_size_of(self, x_size: int, hidden_size: int) -> int:
        """The input size of a layer whose x, with the further inputs beside it, is so wide."""
        rest = sum(self.size(width, 0, hidden_size) for width in self.x_widths)
        return (x_size - rest) // max(1, self.x_widths.count("input")) if "input" in self.x_widths else hidden_size

    def find_hidden_size(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """The hidden size of a layer whose parameters or states have these shapes; None if they do not depend on it."""
        widths = {**self.parameters, **{state: (width,) for state, width in self.states.items()}}
        for name, shape in shapes.items():
            for width, size in zip(widths[name], shape[-len(widths[name]) :], strict=True):
                found = self._solve(width, size)
                if found is not None:
                    return found
        return None

    def _solve(self, width: str, size: int) -> int | None:
        """The hidden size at which a width has a size; None if it does not depend on it."""
        power = sum(self._depends_on_hidden(part) for part in factors(width))
        if not power or "input" in factors(width):
            return None
        unit = math.lcm(*(whole for whole in self.sizes.values() if isinstance(whole, int)))
        root: float = (size / self.size(width, unit, unit)) ** (1 / power)
        return round(unit * root)

    def _depends_on_hidden(self, name: str) -> bool:
        return name == "hidden" or str(self.sizes.get(name, "")).startswith("hidden/")

    def check_sizes(self, input_size: int, hidden_size: int) -> None:
        """Refuse sizes at which a value cannot be seen as one of another width."""
        size = partial(self.size, input_size=input_size, hidden_size=hidden_size)
        for width in self.widths:
            size(width)
        for node in self.nodes:
            if node.operation == "view":
                self._check_view(node, size)

    def _check_view(self, node: Symbol, size: Callable[[str], int]) -> None:
        old, new = str(node.inputs[0].width), str(node.width)
        if size(old) != size(new):
            problem = f"is not the {size(new)} of {new!r}, as which {self.title} sees it"
            raise ArgumentError.of(f"size of {old!r}", size(old), problem, "Change the sizes")

    def shapes(self, input_size: int, hidden_size: int) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter."""
        self.check_sizes(input_size, hidden_size)
        return {
            name: tuple(self.size(width, input_size, hidden_size) for width in widths)
            for name, widths in self.parameters.items()
        }

    def count_parameters(self, input_size: int, hidden_size: int) -> int:
        """How many numbers are learned."""
        return sum(map(math.prod, self.shapes(input_size, hidden_size).values()))
