"""C++ for one cell: its elementwise work as loops that read like the equations, and tables for the driver.

The driver (native/driver.h) walks through time, splits the batch between threads and forms the products; what is
emitted here is what differs from cell to cell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from unspool.cells.equations import Equations
from unspool.cells.latex import latex
from unspool.engine.graph import ROW, Node, lower
from unspool.engine.reverse import reverse
from unspool.engine.schedule import Program, Schedule, Sink, closure, is_cut, schedule
from unspool.errors import BuildError

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

MOST_OPERATIONS, MOST_MAPS = 2000, 60
#: A name that may stand in C++ as it is.
IDENTIFIER = re.compile(r"[A-Za-z]\w*", re.ASCII)


def emit(equations: Equations) -> str:
    """The source of a cell's kernel."""
    maps = sum(node.operation == "linear" for node in equations.nodes)
    if len(equations.nodes) > MOST_OPERATIONS or maps > MOST_MAPS:
        raise BuildError(
            f"{equations.title} has {len(equations.nodes)} operations and {maps} linear maps a step; kernels are made "
            f"for up to {MOST_OPERATIONS} and {MOST_MAPS}, since beyond that compiling takes minutes."
        )
    lowered = lower(equations)
    return _Emitter(schedule(lowered, reverse(lowered))).source()


def emit_products(real: str) -> str:
    """The source of what the kernels of all cells have in common, for `float` or `double`."""
    return f'#include "product.h"\n\nUNSPOOL_PRODUCTS(, {real})\n'


def record_length(equations: Equations, input_size: int, hidden_size: int) -> int:
    """How many numbers the forward pass keeps for each row and step: the slots, and the states after the first."""
    slots = reverse(lower(equations)).slots
    widths = [*(node.width for node in slots), *list(equations.states.values())[1:]]
    return sum(1 if width in (ROW, None) else equations.size(str(width), input_size, hidden_size) for width in widths)


class _Emitter:
    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.equations = plan.lowered.equations
        self.sizes = ["input", "hidden", *self.equations.sizes]
        self.parameters = list(self.equations.parameters)
        self.names = {node: name for name, node in plan.lowered.named.items()}

    def source(self) -> str:
        forward = self._levels("forward", self.plan.forward)
        backward = self._levels("backward", self.plan.backward)
        title = re.sub(r"\W", "", self.equations.title)
        printed = "\n".join(f"//   {_inert(line)}" for line in latex(self.equations).split("\n")[1:-1])
        return "\n".join(
            [
                f"// {title}:",
                printed,
                '#include "driver.h"',
                "",
                "namespace unspool {",
                "",
                "struct Cell {",
                *self._tables(),
                "",
                *forward,
                "",
                *backward,
                "};",
                "",
                "}  // namespace unspool",
                "",
                "UNSPOOL_EXPORT(unspool::Cell)",
                "",
            ]
        )

    # Tables

    def _tables(self) -> list[str]:
        plan, equations = self.plan, self.equations
        states = list(equations.states.values())
        named = plan.lowered.named
        slots = plan.reversed.slots
        matrices: list[int] = []
        groups = []
        for group in plan.groups:
            origin, index = self._operand(group.operand)
            groups.append(f"{{{origin}, {index}, {group.first}, {group.count}, {len(matrices)}}}")
            matrices += [self.parameters.index(name) for name in group.matrices]
        readers: list[int] = []
        blocks = []
        for block in plan.blocks:
            blocks.append(f"{{{block.first}, {block.count}, {block.level}, {len(readers)}, {len(block.groups)}}}")
            readers += block.groups
        backs = [
            f"{{{plan.operands.index(self._operand_of(node))}, {plan.backward.levels[node]}}}" for node in plan.backs
        ]
        parameters = [self._shape(*widths) for widths in equations.parameters.values()]
        maps = [
            f"{{{self._size(node.width)}, {self.parameters.index(node.detail.bias) if node.detail.bias else -1}}}"
            for node in plan.maps
        ]
        direct = ["true" if k in plan.reversed.d_before else "false" for k in range(len(states))]
        return [
            f"    static constexpr int SIZES = {len(self.sizes)};  // {_inert(', '.join(self.sizes))}",
            _table("STATES", "state_widths", "int", self._sizes(states), list(equations.states)),
            _table("PARAMETERS", "parameters", "Parameter", parameters, self.parameters),
            _table("MAPS", "maps", "Map", maps, [node.detail.name for node in plan.maps]),
            _table("GROUPS", "groups", "Group", groups),
            _table("MATRICES", "matrices", "int", [str(index) for index in matrices]),
            _table("BLOCKS", "blocks", "Block", blocks),
            _table("READERS", "readers", "int", [str(group) for group in readers]),
            _table("OPERANDS", "operand_widths", "int", self._sizes(node.width for node in plan.operands)),
            _table("BACKS", "backs", "Back", backs),
            _table("SLOTS", "slot_widths", "int", self._sizes(node.width for node in slots), self._names(slots)),
            _table("NAMED", "named_widths", "int", self._sizes(node.width for node in named.values()), list(named)),
            _table("FORWARD_CUTS", "forward_cut_widths", "int", self._sizes(n.width for n in plan.forward.cuts)),
            _table("BACKWARD_CUTS", "backward_cut_widths", "int", self._sizes(n.width for n in plan.backward.cuts)),
            f"    static constexpr int FORWARD_LEVELS = {len(plan.forward.sinks)};",
            f"    static constexpr int BACKWARD_LEVELS = {len(plan.backward.sinks)};",
            f"    static constexpr int FORWARD_SUMS = {len(plan.forward.sums)};",
            f"    static constexpr int BACKWARD_SUMS = {len(plan.backward.sums)};",
            f"    static constexpr bool UNITS_APART = {'false' if self._mixes_units() else 'true'};",
            f"    static constexpr bool X_UNIT_BY_UNIT = {'true' if plan.reversed.d_x else 'false'};",
            f"    static constexpr bool D_BEFORE[] = {{{', '.join(direct)}}};",
        ]

    def _mixes_units(self) -> bool:
        """Whether a row's units meet outside the products, as in a normalisation."""
        programs = (self.plan.forward, self.plan.backward)
        rows = any(sink.width == ROW for program in programs for sinks in program.sinks for sink in sinks)
        return rows or any(program.sums for program in programs)

    def _sizes(self, widths: Iterable[str | None]) -> list[str]:
        return [str(self._size(width)) for width in widths]

    def _names(self, nodes: Iterable[Node]) -> list[str]:
        return [self.names.get(node, "") for node in nodes]

    def _operand(self, node: Node) -> tuple[str, int]:
        if node.operation == "x":
            return "FROM_X", 0
        if node.operation == "before":
            return "FROM_STATE", node.detail
        return "FROM_VALUE", self.plan.operands.index(node)

    def _operand_of(self, back: Node) -> Node:
        """The forward value whose gradient a back product is part of: its matrices say which."""
        return next(group.operand for group in self.plan.groups if set(group.matrices) & set(back.detail))

    def _shape(self, first: str, second: str | None = None) -> str:
        """The sizes of a parameter; a vector has no second."""
        return f"{{{self._size(first)}, {self._size(second)}}}"

    def _size(self, width: str | None) -> int:
        """The index of a size; −1 is one number a row."""
        return -1 if width in (ROW, None) else self.sizes.index(str(width))

    # Loops

    def _levels(self, direction: str, program: Program) -> list[str]:
        flags = "bool KEEP, bool TRACE, " if direction == "forward" else ""
        lines = []
        for level, sinks in enumerate(program.sinks):
            lines += [f"    template <{flags}typename real> static void {direction}_{level}(const Frame<real>& f) {{"]
            widths = list(dict.fromkeys(sink.width for sink in sinks))
            for width in sorted(widths, key=lambda width: width == ROW):
                chosen = [sink for sink in sinks if sink.width == width]
                always = [sink for sink in chosen if sink.kind not in ("slot", "trace")]
                kept = [sink for sink in chosen if sink.kind == "slot"]
                traced = [sink for sink in chosen if sink.kind == "trace"]
                lines += self._loop(width, level, program, always, kept, traced)
            lines += ["    }"]
        call = "<KEEP, TRACE>" if direction == "forward" else ""
        lines += [f"    template <{flags}typename real> static void {direction}(int level, const Frame<real>& f) {{"]
        lines += ["        switch (level) {"]
        lines += [
            f"            case {level}: {direction}_{level}{call}(f); break;" for level in range(len(program.sinks))
        ]
        lines += ["        }", "    }"]
        return lines

    def _loop(
        self, width: str, level: int, program: Program, always: list[Sink], kept: list[Sink], traced: list[Sink]
    ) -> list[str]:
        body = _Body(self, program, level)
        for sink in always:
            body.sink(sink)
        body.guarded("KEEP", kept)
        body.guarded("TRACE", traced)
        if width == ROW:
            lines = [*body.pointers(), *(f"    {line}" for line in body.lines)]
            inner = ["{", "    constexpr int64_t j = 0; constexpr One<real> lanes{};", *lines, "}"]
            if not always:
                inner = ["if constexpr (KEEP) " + inner[0], *inner[1:]]
        else:
            size, walk = self._size(width), "loop_in_pairs" if body.slow else "loop"
            inner = [
                *body.pointers(),
                *(f"vec<real> total_{index}{{}};" for index in body.totals),
                f"{walk}<real>(f.first[{size}], f.last[{size}], [&](int64_t j, auto lanes) {{",
                *(f"    {line}" for line in body.lines),
                "});",
                *(f"f.sums[{index}][r] = sum<real>(total_{index});" for index in body.totals),
            ]
        return [
            "        for (int r = 0; r < f.rows; ++r) {",
            "            const int64_t b = f.index[r];",
            "            (void)b;",
            *(f"            {line}" for line in inner),
            "        }",
        ]


class _Body:
    """The inside of one loop: loads, operations and stores, each value once."""

    def __init__(self, emitter: _Emitter, program: Program, level: int) -> None:
        self.emitter = emitter
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
        value = self._value(sink.node)
        index, size = sink.index, self._size(sink.width)
        match sink.kind:
            case "after":
                self._store(f"after_{index}", f"f.after[{index}] + r * {size}", value)
                if index == 0:
                    self._store("out", f"f.out + b * {size}", value)
                else:
                    kept = self._pointer(f"kept_{index}", f"f.tape + b * f.tape_stride + f.after_at[{index}]")
                    self.lines.append(f"if constexpr (KEEP) lanes.store({kept} + j, {value});")
            case "slot":
                self._store(*self._slot(index), value)
            case "trace":
                self._store(f"trace_{index}", f"f.trace[{index}] + b * {size}", value)
            case "operand" | "d_operand":
                self._store(f"operand_{index}", f"f.operands[{index}] + r * {size}", value)
            case "cut":
                self._store(f"cut_{index}", f"f.cuts[{index}] + r * {size}", value)
            case "sum":
                self.totals.append(index)
                self.lines.append(f"total_{index} += lanes.keep({value});")
            case "d_map":
                self._store(f"d_map_{index}", f"f.d_maps + r * f.maps_stride + f.map_at[{index}]", value)
            case "d_before":
                self._store(f"d_before_{index}", f"f.d_before[{index}] + r * {size}", value)
            case "d_vector":
                pointer = self._pointer(f"d_vector_{index}", f"f.d_vectors[{index}]")
                self.lines.append(f"lanes.store({pointer} + j, lanes.load({pointer} + j) + {value});")
            case "d_x":
                pointer = self._pointer("d_x", f"f.d_x + b * {size}")
                self.lines.append(f"if (f.d_x) lanes.store({pointer} + j, {value});")
            case other:
                raise AssertionError(other)

    def _store(self, name: str, pointer: str, value: str) -> None:
        self.lines.append(f"lanes.store({self._pointer(name, pointer)} + j, {value});")

    def _slot(self, index: int) -> tuple[str, str]:
        return f"slot_{index}", f"f.tape + b * f.tape_stride + f.slot_at[{index}]"

    def _pointer(self, name: str, text: str) -> str:
        self._pointers.setdefault(f"{name}_p", text)
        return f"{name}_p"

    def _size(self, width: str | None) -> str:
        return f"f.sizes[{self.emitter._size(width)}]"

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
        named = self.emitter.names.get(node)
        if named is None and node.operation == "stored":
            named = self.emitter.names.get(self.emitter.plan.reversed.slots[node.detail])
        taken = set(self._variables.values())
        if named is not None and IDENTIFIER.fullmatch(named) and f"{named}_" not in taken:
            return f"{named}_"
        return f"v{len(self._variables)}"

    def _expression(self, node: Node) -> str:
        index = node.detail
        levels = self.program.levels
        size = self._size(node.width)
        if is_cut(node, self.level, levels):
            cut = self.program.cuts.index(node)
            return self._load(f"cut_{cut}", f"f.cuts[{cut}] + r * {size}")
        match node.operation:
            case "x":
                return self._load("x", f"f.x + b * {size}")
            case "before":
                return self._load(f"before_{index}", f"f.before[{index}][r]")
            case "after":
                tape = f"f.tape + b * f.tape_stride + f.after_at[{index}]"
                return self._load(f"after_{index}", f"f.out + b * {size}" if index == 0 else tape)
            case "vector":
                place = self.emitter.parameters.index(index)
                return self._load(f"parameter_{place}", f"f.parameters[{place}]")
            case "stored":
                name, text = self._slot(index)
                return f"broadcast(*({text}))" if node.width == ROW else self._load(name, text)
            case "per_unit":
                return f"broadcast(real(1) / real({self._size(index)}))"
            case "map":
                place = self.emitter.plan.maps.index(node)
                value = self._load(f"map_{place}", f"f.maps + r * f.maps_stride + f.map_at[{place}]")
                if index.bias is None:
                    return value
                bias = self.emitter.parameters.index(index.bias)
                return f"{value} + {self._load(f'parameter_{bias}', f'f.parameters[{bias}]')}"
            case "d_after":
                value = self._load(f"d_after_{index}", f"f.d_after[{index}] + r * {size}")
                return value if index else f"{value} + {self._load('d_out', 'f.d_out + b * f.d_out_stride')}"
            case "back":
                place = self.emitter.plan.backs.index(node)
                return self._load(f"back_{place}", f"f.backs[{place}] + r * {size}")
            case "row_sum":
                return f"broadcast(f.sums[{self.program.sums.index(node)}][r])"
        values = [self._variables[value] for value in node.inputs]
        if node.operation in INFIX:
            return f"{values[0]} {INFIX[node.operation]} {values[1]}"
        if node.operation == "negative":
            return f"-{values[0]}"
        return f"{FUNCTIONS[node.operation]}<real>({', '.join(values)})"


def _inert(text: str) -> str:
    """Text for a comment: one line, whatever the names in it."""
    return re.sub(r"[^ -~]", "?", text).rstrip("\\ ")


def _table(count: str, name: str, kind: str, entries: Sequence[str], comments: Sequence[str] = ()) -> str:
    """A constexpr array; an empty one has a dummy entry, since C++ has no empty arrays."""
    note = f"  // {_inert(', '.join(filter(None, comments)))}" if any(comments) else ""
    filler = "0" if kind == "int" else "{}"
    return (
        f"    static constexpr int {count} = {len(entries)};\n"
        f"    static constexpr {kind} {name}[] = {{{', '.join(entries) or filler}}};{note}"
    )
