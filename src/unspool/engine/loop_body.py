"""The inside of one emitted loop: loads, operations and stores in C++, each value once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from unspool.engine.graph import ROW, Node
from unspool.engine.schedule import Program, Schedule, Sink, closure, is_cut

FUNCTIONS = {
    "sigmoid": "vsigmoid",
    "tanh": "vtanh",
    "relu": "vrelu",
    "exp": "vexp",
    "log": "vlog",
    "sqrt": "vsqrt",
    "absolute": "vabs",
    "minimum": "vminimum",
    "maximum": "vmaximum",
    "where": "vwhere",
}
SLOW = ("sigmoid", "tanh", "exp", "log")
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
        self.sizes = ["input", "hidden", *self.equations.sizes]
        self.parameters = list(self.equations.parameters)
        self.names = {node: name for name, node in plan.lowered.named.items()}

    def size(self, width: str | None) -> int:
        """The index of a size; −1 is one number a row."""
        return -1 if width in (ROW, None) else self.sizes.index(str(width))


class Body:
    """The inside of one loop: loads, operations and stores, each value once."""

    def __init__(self, indices: Indices, program: Program, level: int) -> None:
        self.indices = indices
        self.program = program
        self.level = level
        self.lines: list[str] = []
        self.totals: list[int] = []
        self.slow = False  # whether units take long chains of operations
        self._pointers: dict[str, str] = {}
        self._variables: dict[Node, str] = {}

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
                self.totals.append(index)
                self.lines.append(f"total_{index} += lanes.keep({value});")
            case "d_vector":
                pointer = self._pointer(f"d_vector_{index}", f"f.d_vectors[{index}]")
                self.lines.append(f"lanes.store({pointer} + j, lanes.load({pointer} + j) + {value});")
            case "d_x":
                pointer = self._pointer("d_x", f"f.d_x + b * {size}")
                self.lines.append(f"if (f.d_x) lanes.store({pointer} + j, {value});")
            case kind:
                name, place = (text.format(i=index, size=size) for text in STORES[kind])
                self._store(name, place, value)

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
        return f"lanes.load({self._pointer(name, pointer)} + j)"

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
        taken = set(self._variables.values())
        if named is not None and IDENTIFIER.fullmatch(named) and f"{named}_" not in taken:
            return f"{named}_"
        return f"v{len(self._variables)}"

    def _expression(self, node: Node) -> str:
        if is_cut(node, self.level, self.program.levels):
            cut = self.program.cuts.index(node)
            return self._load(f"cut_{cut}", f"f.cuts[{cut}] + r * {self._size(node.width)}")
        read = READS.get(node.operation)
        return self._operation(node) if read is None else read(self, node, self._size(node.width))

    def _operation(self, node: Node) -> str:
        values = [self._variables[value] for value in node.inputs]
        if node.operation in INFIX:
            return f"{values[0]} {INFIX[node.operation]} {values[1]}"
        if node.operation == "negative":
            return f"-{values[0]}"
        return f"{FUNCTIONS[node.operation]}<real>({', '.join(values)})"

    # What is read from memory, by operation: `READS` below lists these.

    def _x(self, node: Node, size: str) -> str:  # noqa: ARG002 - there is one x
        return self._load("x", f"f.x + b * {size}")

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
        return f"broadcast(*({text}))" if node.width == ROW else self._load(name, text)

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
    "before": Body._before,
    "after": Body._after,
    "vector": Body._vector,
    "stored": Body._stored,
    "per_unit": Body._per_unit,
    "map": Body._map,
    "d_after": Body._d_after,
    "back": Body._back,
    "row_sum": Body._row_sum,
}
