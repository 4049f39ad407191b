"""C++ for one cell: its elementwise work as loops that read like the equations, and tables for the driver.

The driver (native/driver.h) walks through time, splits the batch between threads and forms the products; what is
emitted here is what differs from cell to cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unspool.cells.equations import Equations
from unspool.cells.latex import latex
from unspool.engine.graph import COLLECTED, INDEXED, ROW, Node, lower
from unspool.engine.loop_body import Body, Indices
from unspool.engine.loops import over_units
from unspool.engine.reverse import reverse
from unspool.engine.schedule import Program, Sink, schedule
from unspool.errors import BuildError

MOST_OPERATIONS, MOST_MAPS = 2000, 60


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
    whole = "UNSPOOL_INT8_PRODUCTS()\n" if real == "float" else ""
    return f'#include "outer.h"\n\nUNSPOOL_PRODUCTS(, {real})\n{whole}'


def record_length(equations: Equations, input_size: int, hidden_size: int) -> int:
    """How many numbers the forward pass keeps for each row and step: the slots, and the states after the first."""
    slots = reverse(lower(equations)).slots
    widths = [*(node.width for node in slots), *list(equations.states.values())[1:]]
    return sum(1 if width in (ROW, None) else equations.size(str(width), input_size, hidden_size) for width in widths)


class _Emitter(Indices):
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
        named = plan.lowered.named
        slots = plan.reversed.slots
        parameters = [self._shape(*widths) for widths in equations.parameters.values()]
        return [
            f"    static constexpr int SIZES = {len(self.sizes)};  // {_inert(', '.join(self.sizes))}",
            _table("STATES", "state_widths", "int", self._sizes(equations.states.values()), list(equations.states)),
            _table("PARAMETERS", "parameters", "Parameter", parameters, self.parameters),
            _table("MAPS", "maps", "Map", self._maps(), [node.detail.name for node in plan.maps]),
            *self._group_tables(),
            *self._block_tables(),
            _table("EXTRAS", "extra_widths", "int", self._sizes(equations.inputs.values()), list(equations.inputs)),
            _table("OPERANDS", "operand_widths", "int", self._widths(plan.operands)),
            _table("BACKS", "backs", "Back", self._backs()),
            _table("SLOTS", "slot_widths", "int", self._widths(slots), self._names(slots)),
            _table("NAMED", "named_widths", "int", self._widths(named.values()), list(named)),
            _table("FORWARD_CUTS", "forward_cut_widths", "int", self._widths(plan.forward.cuts)),
            _table("BACKWARD_CUTS", "backward_cut_widths", "int", self._widths(plan.backward.cuts)),
            f"    static constexpr int FORWARD_LEVELS = {len(plan.forward.sinks)};",
            f"    static constexpr int BACKWARD_LEVELS = {len(plan.backward.sinks)};",
            f"    static constexpr int FORWARD_SUMS = {len(plan.forward.sums)};",
            f"    static constexpr int BACKWARD_SUMS = {len(plan.backward.sums)};",
            f"    static constexpr bool UNITS_APART = {_flag(not self._mixes_units())};",
            f"    static constexpr bool X_UNIT_BY_UNIT = {_flag(plan.reversed.d_x is not None)};",
            f"    static constexpr bool D_BEFORE[] = {{{', '.join(self._direct())}}};",
        ]

    def _maps(self) -> list[str]:
        biases = [node.detail.bias for node in self.plan.maps]
        places = [self.parameters.index(bias) if bias else -1 for bias in biases]
        return [f"{{{self.size(node.width)}, {place}}}" for node, place in zip(self.plan.maps, places, strict=True)]

    def _group_tables(self) -> list[str]:
        """The groups of maps that read one operand, and the matrices of all groups in a row."""
        matrices: list[int] = []
        groups = []
        for group in self.plan.groups:
            origin, index = self._operand(group.operand)
            groups.append(f"{{{origin}, {index}, {group.first}, {group.count}, {len(matrices)}}}")
            matrices += [self.parameters.index(name) for name in group.matrices]
        return [
            _table("GROUPS", "groups", "Group", groups),
            _table("MATRICES", "matrices", "int", list(map(str, matrices))),
        ]

    def _block_tables(self) -> list[str]:
        """The blocks of maps that are ready at one time, and the groups that each of them reads, in a row."""
        readers: list[int] = []
        blocks = []
        for block in self.plan.blocks:
            blocks.append(f"{{{block.first}, {block.count}, {block.level}, {len(readers)}, {len(block.groups)}}}")
            readers += block.groups
        return [
            _table("BLOCKS", "blocks", "Block", blocks),
            _table("READERS", "readers", "int", list(map(str, readers))),
        ]

    def _backs(self) -> list[str]:
        operands, levels = self.plan.operands, self.plan.backward.levels
        return [f"{{{operands.index(self._operand_of(node))}, {levels[node]}}}" for node in self.plan.backs]

    def _direct(self) -> list[str]:
        """Of each state, whether its gradient comes back other than through maps."""
        return [_flag(index in self.plan.reversed.d_before) for index in range(len(self.equations.states))]

    def _mixes_units(self) -> bool:
        """Whether a row's units meet outside the products, as in a normalisation."""
        programs = (self.plan.forward, self.plan.backward)
        rows = any(sink.width == ROW for program in programs for sinks in program.sinks for sink in sinks)
        mixing = (*COLLECTED, *INDEXED, "extra")
        return rows or any(node.operation in mixing for program in programs for node in program.levels)

    def _sizes(self, widths: Iterable[str | None]) -> list[str]:
        return [str(self.size(width)) for width in widths]

    def _widths(self, nodes: Iterable[Node]) -> list[str]:
        return self._sizes(node.width for node in nodes)

    def _names(self, nodes: Iterable[Node]) -> list[str]:
        return [self.names.get(node, "") for node in nodes]

    def _operand(self, node: Node) -> tuple[str, int]:
        if node.operation == "x":
            return "FROM_X", 0
        if node.operation == "before":
            return "FROM_STATE", node.detail
        return "FROM_VALUE", self.plan.operands.index(node)

    def _operand_of(self, back: Node) -> Node:
        """The forward value whose gradient a back product is part of."""
        operand: Node = back.detail[0]
        return operand

    def _shape(self, *widths: str) -> str:
        """The sizes of a parameter; a vector has no second, and blocks are one long vector."""
        if len(widths) == 2:
            return f"{{{self.size(widths[0])}, {self.size(widths[1])}}}"
        return f"{{{self.size('*'.join(widths))}, -1}}"

    # Loops

    def _levels(self, direction: str, program: Program) -> list[str]:
        """A function for each level of a pass, and one that calls the function of a level."""
        flags = "bool KEEP, bool TRACE, " if direction == "forward" else ""
        lines = []
        for level in range(len(program.sinks)):
            lines += [f"    template <{flags}typename real> static void {direction}_{level}(const Frame<real>& f) {{"]
            lines += self._level(program, level)
            lines += ["    }"]
        call = "<KEEP, TRACE>" if direction == "forward" else ""
        lines += [f"    template <{flags}typename real> static void {direction}(int level, const Frame<real>& f) {{"]
        lines += ["        switch (level) {"]
        lines += [
            f"            case {level}: {direction}_{level}{call}(f); break;" for level in range(len(program.sinks))
        ]
        lines += ["        }", "    }"]
        return lines

    def _level(self, program: Program, level: int) -> list[str]:
        """A loop for each width of what is written, those of one number a row last."""
        sinks = program.sinks[level]
        widths = list(dict.fromkeys(sink.width for sink in sinks))
        lines = []
        for width in sorted(widths, key=lambda width: width == ROW):
            chosen = [sink for sink in sinks if sink.width == width]
            lines += self._loop(width, chosen, Body(self, program, level, width))
        return lines

    def _loop(self, width: str, sinks: Sequence[Sink], body: Body) -> list[str]:
        always = [sink for sink in sinks if sink.kind not in ("slot", "trace")]
        for sink in always:
            body.sink(sink)
        body.guarded("KEEP", _of_kind("slot", sinks))
        body.guarded("TRACE", _of_kind("trace", sinks))
        inner = _once_a_row(body, bool(always)) if width == ROW else over_units(self, body)
        return [
            "        for (int r = 0; r < f.rows; ++r) {",
            "            const int64_t b = f.index[r];",
            "            (void)b;",
            *(f"            {line}" for line in inner),
            "        }",
        ]


def _of_kind(kind: str, sinks: Sequence[Sink]) -> list[Sink]:
    return [sink for sink in sinks if sink.kind == kind]


def _once_a_row(body: Body, always: bool) -> list[str]:
    """The work on numbers of which a row has one; without any that is always wanted, only for a tape or a trace."""
    lines = [*body.pointers(), *(f"    {line}" for line in body.lines)]
    opening = "{" if always else "if constexpr (KEEP || TRACE) {"
    return [opening, "    constexpr int64_t j = 0; constexpr One<real> lanes{};", *lines, "}"]


def _flag(value: bool) -> str:
    return "true" if value else "false"


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
