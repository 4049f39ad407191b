"""The inside of one emitted loop: loads, operations and stores in C++, each value once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from unspool.cells.widths import factors
from unspool.engine.graph import COLLECTED, INDEXED, ROW, Node
from unspool.engine.schedule import Program, Schedule, Sink, closure, is_cut

FUNCTIONS = {
    "sigmoid": "vsigmoid",
    "tanh": "vtanh",
    "relu": "vrelu",
    "exp": "vexp",
    "log": "vlog",
    "log1p": "vlog1p",
    "sin": "vsin",
    "cos": "vcos",
    "erf": "verf",
    "softplus": "vsoftplus",
    "sqrt": "vsqrt",
    "absolute": "vabs",
    "minimum": "vminimum",
    "maximum": "vmaximum",
    "where": "vwhere",
}
SLOW = ("sigmoid", "tanh", "exp", "log", "log1p", "sin", "cos", "erf", "softplus")
INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<="}
#: A name that may stand in C++ as it is.
IDENTIFIER = re.compile(r"[A-Za-z]\w*", re.ASCII)
#: What is stored as it is: the name of its pointer, and where that points. `i` is the sink's index, `size` its width.
STORES = {
    "trace": ("trace_{i}", "f.trace[{i}] + b * {size}"),
    "operand": ("operand_{i}", "f.operands[{i}] + r * {size}"),
    "d_operand": ("operand_{i}", "f.operands[{i}] + r * {size}"),
    "cut": ("cut_{i}", "f.cuts[{i}] + r * {size}"),
    "d_map": ("d_map_{i}", "f.d_maps + r * f.maps_stride + f.map_at[{i}]"),
    "d_before": ("d_before_{i}", "f.d_before[{i}] + r * {size}"),
}


class Indices:
    """Where the sizes, parameters and names of a plan stand in the emitted tables."""

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.equations = plan.lowered.equations
        self.sizes = list(self.equations.widths)
        self.parameters = list(self.equations.parameters)
        self.names = {node: name for name, node in plan.lowered.named.items()}

    def size(self, width: str | None) -> int:
        """The index of a size; −1 is one number a row that the cell's own widths do not have."""
        return self.sizes.index(str(width)) if width in self.sizes else -1

    def x_place(self, index: int) -> str:
        """Where in x the input (0) or a further input (from 1 on) begins, or (−1) where the next row does."""
        before = self.equations.x_widths if index < 0 else self.equations.x_widths[:index]
        return " + ".join(f"f.sizes[{self.size(width)}]" for width in before) or "0"


class Body:
    """The inside of one loop: loads, operations and stores, each value once."""

    def __init__(self, indices: Indices, program: Program, level: int, width: str) -> None:
        self.indices = indices
        self.width = width
        self.program = program
        self.level = level
        self.lines: list[str] = []
        self.totals: list[int] = []
        self.largest: list[int] = []
        self.parts: list[int] = []  # sums over the last factor of the loop's width, by their buffers
        self.reduced: list[int] = []  # buffers of all such sums
        self.scans: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}  # of factors that are read or summed apart
        self._reads_at: tuple[int, ...] | None = None
        self._reads_one = False
        self.slow = False  # whether units take long chains of operations
        self._pointers: dict[str, str] = {}
        self._variables: dict[Node, str] = {}
        self._taken: set[str] = set()

    def pointers(self) -> list[str]:
        return [f"auto* {name} = {text};" for name, text in self._pointers.items()]

    def guarded(self, flag: str, sinks: Sequence[Sink]) -> None:
        """Sinks that only some callers want: what only they need is computed under the flag too."""
        if not sinks:
            return
        outer, known = self.lines, dict(self._variables)
        self.lines = []
        for sink in sinks:
            self.sink(sink)
        outer += [f"if constexpr ({flag}) {{", *(f"    {line}" for line in self.lines), "}"]
        self.lines, self._variables = outer, known

    def sink(self, sink: Sink) -> None:
        """Compute a value and write it where the sink says."""
        value = self._value(sink.node)
        index, size = sink.index, self._size(sink.width)
        match sink.kind:
            case "after":
                self._store_state(index, size, value)
            case "slot":
                self._store(*self._slot(index), value)
            case "sum":
                self._sum(index, value)
            case "reduce":
                self._reduce(index, value)
            case "cumsum":
                self.scans.append(index)
                self._store(f"cut_{index}", f"f.cuts[{index}] + r * {size}", value)
            case "d_extra":
                stride, at = self.indices.x_place(-1), self.indices.x_place(index + 1)
                pointer = self._pointer(f"d_extra_{index}", f"f.d_x + b * ({stride}) + {at}")
                self.lines.append(f"if (f.d_x) lanes.store({pointer} + j, {value});")
            case "d_vector":
                pointer = self._pointer(f"d_vector_{index}", f"f.d_vectors[{index}]")
                self.lines.append(f"lanes.store({pointer} + j, lanes.load({pointer} + j) + {value});")
            case "d_x":
                pointer = self._pointer("d_x", f"f.d_x + b * ({self.indices.x_place(-1)})")
                self.lines.append(f"if (f.d_x) lanes.store({pointer} + j, {value});")
            case kind:
                name, place = (text.format(i=index, size=size) for text in STORES[kind])
                self._store(name, place, value)

    def _sum(self, index: int, value: str) -> None:
        """A row's sum, or its largest unit."""
        if self.program.sums[index].operation == "row_sum":
            self.totals.append(index)
            self.lines.append(f"total_{index} += lanes.keep({value});")
        else:
            self.largest.append(index)
            self.lines.append(f"largest_{index} = vmaximum<real>(largest_{index}, lanes.most({value}));")

    def _reduce(self, index: int, value: str) -> None:
        """A sum over some factors of the loop's width."""
        node = self.program.cuts[index]
        place = self.place(node.detail)
        self.reduced.append(index)
        pointer = self._pointer(f"cut_{index}", f"f.cuts[{index}] + r * {self._size(node.width)}")
        if self._keeps_last(node.detail):
            at = f"{pointer} + (j + at_{place})"
            self.lines.append(f"lanes.store({at}, lanes.load({at}) + {value});")
        else:
            self.parts.append(index)
            self.lines.append(f"part_{index} += lanes.keep({value});")

    def place(self, kept: tuple[int, ...]) -> int:
        """The number of the index `at_…` of the factors at the places `kept`."""
        return self.places.setdefault(kept, len(self.places))

    def _keeps_last(self, kept: tuple[int, ...]) -> bool:
        return len(factors(self.width)) - 1 in kept

    def _store_state(self, index: int, size: str, value: str) -> None:
        """A state goes to the next step; the first is the output, the others are kept for the way back."""
        self._store(f"after_{index}", f"f.after[{index}] + r * {size}", value)
        if index == 0:
            self._store("out", f"f.out + b * {size}", value)
        else:
            kept = self._pointer(f"kept_{index}", f"f.tape + b * f.tape_stride + f.after_at[{index}]")
            self.lines.append(f"if constexpr (KEEP) lanes.store({kept} + j, {value});")

    def _store(self, name: str, pointer: str, value: str) -> None:
        self.lines.append(f"lanes.store({self._pointer(name, pointer)} + j, {value});")

    def _slot(self, index: int) -> tuple[str, str]:
        return f"slot_{index}", f"f.tape + b * f.tape_stride + f.slot_at[{index}]"

    def _pointer(self, name: str, text: str) -> str:
        self._pointers.setdefault(f"{name}_p", text)
        return f"{name}_p"

    def _size(self, width: str | None) -> str:
        return f"f.sizes[{self.indices.size(width)}]"

    def _load(self, name: str, pointer: str) -> str:
        if self._reads_one:
            return f"broadcast(*({pointer}))"
        name, kept = self._pointer(name, pointer), self._reads_at
        if kept is None:
            return f"lanes.load({name} + j)"
        place = self.place(kept)
        return f"lanes.load({name} + (j + at_{place}))" if self._keeps_last(kept) else f"broadcast({name}[at_{place}])"

    def _value(self, root: Node) -> str:
        for node in closure(root, self.level, self.program.levels):
            if node not in self._variables:
                self._variables[node] = self._define(node)
        return self._variables[root]

    def _define(self, node: Node) -> str:
        if node.operation == "constant":
            odd = {math.inf: "INFINITY", -math.inf: "-INFINITY"}
            number = "NAN" if math.isnan(node.detail) else odd.get(node.detail, repr(node.detail))
            return f"broadcast(real({number}))"
        name = self._name(node)
        self.slow = self.slow or node.operation in SLOW
        self.lines.append(f"const auto {name} = {self._expression(node)};")
        return name

    def _name(self, node: Node) -> str:
        named = self.indices.names.get(node)
        if named is None and node.operation == "stored":
            named = self.indices.names.get(self.indices.plan.reversed.slots[node.detail])
        if named is not None and IDENTIFIER.fullmatch(named) and f"{named}_" not in self._taken:
            self._taken.add(f"{named}_")
            return f"{named}_"
        return f"v{len(self._variables)}"

    def _expression(self, node: Node) -> str:
        if node.operation in INDEXED:
            return self._indexed(node)
        if node.operation in ("reduce", "cumsum") or is_cut(node, self.level, self.program.levels):
            return self._read_cut(node)
        read = READS.get(node.operation)
        if read is None:
            return self._operation(node)
        self._reads_one = node.width == ROW
        return read(self, node, self._size(node.width))

    def _indexed(self, node: Node) -> str:
        """A value from elsewhere in memory: of fewer factors than the loop has, or of another width."""
        source, self._reads_one = node.inputs[0], False
        self._reads_at = node.detail if node.operation == "expand" else None
        read = READS.get(source.operation) if source.operation not in COLLECTED else None
        text = self._read_cut(source) if read is None else read(self, source, self._size(source.width))
        self._reads_at = None
        return text

    def _read_cut(self, node: Node) -> str:
        cut = self.program.cuts.index(node)
        self._reads_one = node.width == ROW
        return self._load(f"cut_{cut}", f"f.cuts[{cut}] + r * {self._size(node.width)}")

    def _operation(self, node: Node) -> str:
        values = [self._variables[value] for value in node.inputs]
        if node.operation in INFIX:
            return f"{values[0]} {INFIX[node.operation]} {values[1]}"
        if node.operation in ("negative", "widen"):
            return f"{'-' * (node.operation == 'negative')}{values[0]}"
        return f"{FUNCTIONS[node.operation]}<real>({', '.join(values)})"

    # What is read from memory, by operation: `READS` below lists these.

    def _x(self, node: Node, size: str) -> str:  # noqa: ARG002 - there is one x
        return self._load("x", f"f.x + b * ({self.indices.x_place(-1)})")

    def _extra(self, node: Node, size: str) -> str:  # noqa: ARG002
        stride, at = self.indices.x_place(-1), self.indices.x_place(node.detail + 1)
        return self._load(f"extra_{node.detail}", f"f.x + b * ({stride}) + {at}")

    def _before(self, node: Node, size: str) -> str:  # noqa: ARG002 - a row has its own address
        return self._load(f"before_{node.detail}", f"f.before[{node.detail}][r]")

    def _after(self, node: Node, size: str) -> str:
        index = node.detail
        tape = f"f.tape + b * f.tape_stride + f.after_at[{index}]"
        return self._load(f"after_{index}", f"f.out + b * {size}" if index == 0 else tape)

    def _vector(self, node: Node, size: str) -> str:  # noqa: ARG002
        return self._parameter(node.detail)

    def _stored(self, node: Node, size: str) -> str:  # noqa: ARG002
        name, text = self._slot(node.detail)
        return self._load(name, text)

    def _per_unit(self, node: Node, size: str) -> str:  # noqa: ARG002
        return f"broadcast(real(1) / real({self._size(node.detail)}))"

    def _map(self, node: Node, size: str) -> str:  # noqa: ARG002
        place = self.indices.plan.maps.index(node)
        value = self._load(f"map_{place}", f"f.maps + r * f.maps_stride + f.map_at[{place}]")
        bias = node.detail.bias
        return value if bias is None else f"{value} + {self._parameter(bias)}"

    def _d_after(self, node: Node, size: str) -> str:
        index = node.detail
        value = self._load(f"d_after_{index}", f"f.d_after[{index}] + r * {size}")
        return value if index else f"{value} + {self._load('d_out', 'f.d_out + b * f.d_out_stride')}"

    def _back(self, node: Node, size: str) -> str:
        place = self.indices.plan.backs.index(node)
        return self._load(f"back_{place}", f"f.backs[{place}] + r * {size}")

    def _row_sum(self, node: Node, size: str) -> str:  # noqa: ARG002
        return f"broadcast(f.sums[{self.program.sums.index(node)}][r])"

    def _parameter(self, name: str) -> str:
        place = self.indices.parameters.index(name)
        return self._load(f"parameter_{place}", f"f.parameters[{place}]")


#: How a value is read that no operation of this loop computes.
READS: dict[str, Callable[[Body, Node, str], str]] = {
    "x": Body._x,
    "extra": Body._extra,
    "before": Body._before,
    "after": Body._after,
    "vector": Body._vector,
    "stored": Body._stored,
    "per_unit": Body._per_unit,
    "map": Body._map,
    "d_after": Body._d_after,
    "back": Body._back,
    "row_sum": Body._row_sum,
    "row_max": Body._row_sum,
}
