"""One step of a cell as a C function, from the cell's graph.

Maps become matrix-vector products into arrays. Between them, everything that acts unit by unit is fused into one loop
per width. A value that a later loop or product reads is kept in an array, all others are constants inside a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from unspool.engine.graph import COLLECTED, ELEMENTWISE, INDEXED, ROW, Lowered, Node, lower, order
from unspool.errors import CellError
from unspool.exchange.c.blocks import BLOCKS, write_block
from unspool.exchange.c.names import Names
from unspool.exchange.c.plain import Plain, as_comment
from unspool.exchange.c.source import Source, indent
from unspool.exchange.c.weights import Matrix
from unspool.runtime.network import Recurrence

INFIX = {
    **{"add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "divide": "{} / {}"},
    **{"less": "{} < {}", "less_equal": "{} <= {}"},
}
CONDITIONS = ("less", "less_equal")
#: An expression longer than this gets a line of its own.
LONG = 60


def write_step(source: Source, part: str, recurrence: Recurrence) -> str:
    """Write the function that advances the states of a recurrence by one step.

    Args:
        source: The file; it gets the function and the weights.
        part: The name of the recurrence within the file.
        recurrence: The cell, its sizes and weights.

    Returns:
        The name of the function, called as `name(w, x, state, …)`; it replaces the states by new ones.
    """
    source.function(_Step(source, part, recurrence).text())
    return f"@_{part}_step"


@dataclass
class _Loop:
    """What is computed for each unit of one width at one stage: lines, and what is written at the end."""

    size: int
    lines: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


class _Step:
    """The text of one function."""

    def __init__(self, source: Source, part: str, recurrence: Recurrence) -> None:
        self.source, self.part, self.of = source, part, recurrence
        self.lowered: Lowered = lower(recurrence.equations)
        self.nodes = order(self.lowered.results)
        self.names = Names(["x", "w", "j"])
        self.states = [self.names.new(name) for name in recurrence.equations.states]
        self.members: dict[str, str | Matrix] = {}
        self.stage = self._stages()
        self.users = self._users()
        self.direct = self._direct()
        self.spoken = self._spoken()
        self.plain = Plain(self.spoken, list(recurrence.equations.states))
        self.texts: dict[Node, str] = {}  # inside a loop, or of a scalar
        self.arrays: dict[Node, str] = {}
        self.declared: list[str] = []

    # ── what is computed when ──

    def _stages(self) -> dict[Node, int]:
        """A product or a sum comes a stage after the values unit by unit that it reads."""
        found: dict[Node, int] = {}
        for node in self.nodes:
            later = int(node.operation == "map" or node.operation in COLLECTED or node.operation in INDEXED)
            found[node] = max((found[v] + later * _is_unitwise(v) for v in node.inputs), default=0)
        return found

    def _users(self) -> dict[Node, list[Node]]:
        users: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for value in node.inputs:
                users[value].append(node)
        return users

    def _direct(self) -> dict[int, bool]:
        """Whether a new state may replace the old one in the loop that computes it: nothing reads the old one later."""
        results = self.lowered.results
        shifted = {node.detail for node in results if node.operation == "before"}
        return {
            index: _is_unitwise(result) and index not in shifted and not self._is_read_after(index, self.stage[result])
            for index, result in enumerate(results)
        }

    def _is_read_after(self, index: int, stage: int) -> bool:
        old = next((node for node in self.nodes if node.operation == "before" and node.detail == index), None)
        return any(self.stage[user] > stage for user in (self.users[old] if old else ()))

    def _spoken(self) -> dict[Node, str]:
        """The names that values have in comments."""
        found: dict[Node, str] = {}
        for name, node in self.lowered.named.items():
            if node.operation not in ("x", "before", "constant", "vector"):
                found.setdefault(node, name)
        return found

    def _is_kept(self, node: Node) -> bool:
        """Whether a value unit by unit is needed outside its loop."""
        late = any(self.stage[user] > self.stage[node] or not _is_unitwise(user) for user in self.users[node])
        deferred = any(not self.direct[index] for index, one in enumerate(self.lowered.results) if one is node)
        return late or deferred

    # ── text ──

    def text(self) -> str:
        body = [line for stage in range(max(self.stage.values()) + 1) for line in self._write_stage(stage)]
        body += self._write_deferred()
        states = "".join(f", float *restrict {name}" for name in self.states)
        head = f"static void @_{self.part}_step(const @_weights *w, const float *restrict x{states})"
        whole = "\n".join((*self.declared, *body))
        unused = [f"(void){name};" for name in ("w", "x", *self.states) if not _mentions(whole, name)]
        title = (
            f"/* {as_comment(self.of.equations.title)}: {self.of.input_size} inputs, {self.of.hidden_size} units. */\n"
        )
        return f"{title}{head}\n{{\n{indent((*unused, *self.declared, *body))}}}\n"

    def _write_stage(self, stage: int) -> Iterable[str]:
        here = [node for node in self.nodes if self.stage[node] == stage]
        for node in here:
            if node.operation == "map":
                yield from self._write_map(node)
            elif node.operation in ("row_sum", "row_max"):
                function = {"row_sum": "@_sum", "row_max": "@_most"}[node.operation]
                text = f"{function}({self._array(node.inputs[0])}, {self._size(node.inputs[0])})"
                yield from self._bind_scalar(node, text)
            elif node.operation in BLOCKS:
                yield from self._write_block(node)
            elif node.operation in ELEMENTWISE and not _is_unitwise(node):
                yield from self._bind_scalar(node, self._expression(node))
        loops: dict[str, _Loop] = {}
        for node in here:
            if _is_unitwise(node):
                assert node.width is not None
                self._write_unitwise(node, loops.setdefault(node.width, _Loop(self._size(node))))
        for loop in loops.values():
            yield f"for (int j = 0; j < {loop.size}; j++) {{"
            yield from (f"    {line}" for line in (*loop.lines, *loop.writes))
            yield "}"

    def _write_map(self, node: Node) -> Iterable[str]:
        name, size = self.names.new(f"sum_{node.detail.name}"), self._size(node)
        self.arrays[node] = name
        self.declared.append(f"float {name}[{size}];")
        yield f"/* {self.plain.line(node)} */"
        if node.detail.bias is None:
            yield f"@_clear({name}, {size});"
        else:
            yield f"@_copy({name}, {self._vector(node.detail.bias)}, {size});"
        for matrix, operand in zip(node.detail.matrices, node.inputs, strict=True):
            yield self.source.product(self._matrix(matrix), self._array(operand), name)

    def _write_block(self, node: Node) -> Iterable[str]:
        """A sum over some factors of a width, or a value as one of another width, into an array of its own."""
        name, size = self.names.new(f"all_{node.operation}"), self._size(node)
        source = self._array(node.inputs[0])
        self.arrays[node] = name
        self.declared.append(f"float {name}[{size}];")
        yield from write_block(node, name, source, self._width)

    def _bind_scalar(self, node: Node, text: str) -> Iterable[str]:
        name = self.names.new(self.spoken.get(node, "total"))
        self.texts[node] = name
        yield f"const float {name} = {text};"

    def _write_unitwise(self, node: Node, loop: _Loop) -> None:
        text = self._expression(node)
        results = [index for index, one in enumerate(self.lowered.results) if one is node and self.direct[index]]
        kept = self._is_kept(node)
        if not (results or kept or node in self.spoken or len(self.users[node]) > 1 or len(text) > LONG):
            self.texts[node] = text if node.operation not in INFIX else f"({text})"
            return
        name = self.names.new(self._wanted_name(node, results))
        self.texts[node] = name
        kind = "int" if node.operation in CONDITIONS else "float"
        comment = self.plain.line(node) if node in self.spoken else ""
        loop.lines.append(f"const {kind} {name} = {text};" + (f" /* {comment} */" if comment else ""))
        loop.writes += [f"{self.states[index]}[j] = {name};" for index in results]
        if kept:
            self._keep(node, name, loop)

    def _wanted_name(self, node: Node, results: list[int]) -> str:
        return f"new_{self.states[results[0]]}" if results else self.spoken.get(node, "v")

    def _keep(self, node: Node, name: str, loop: _Loop) -> None:
        array = self.names.new(f"all_{name}")
        self.arrays[node] = array
        self.declared.append(f"float {array}[{loop.size}];")
        loop.lines.append(f"{array}[j] = {f'{name} ? 1.0f : 0.0f' if node.operation in CONDITIONS else name};")

    def _write_deferred(self) -> Iterable[str]:
        """States that could not be replaced before: first what is a copy of another state, then all writes."""
        writes = []
        for index, result in enumerate(self.lowered.results):
            if self.direct[index] or (result.operation == "before" and result.detail == index):
                continue
            size, text = self.of.state_sizes[index], self._element(result)
            if result.operation == "before":
                name = self.names.new(f"old_{self.states[result.detail]}")
                yield f"float {name}[{size}];"
                yield f"@_copy({name}, {self.states[result.detail]}, {size});"
                text = f"{name}[j]"
            writes.append(f"for (int j = 0; j < {size}; j++)\n    {self.states[index]}[j] = {text};")
        yield from writes

    # ── values ──

    def _expression(self, node: Node) -> str:
        operands = [self._operand(value, self.stage[node]) for value in node.inputs]
        match node.operation:
            case "where":
                return f"({operands[0]} ? {operands[1]} : {operands[2]})"
            case "negative":
                return f"(-{operands[0]})" if not operands[0].startswith("-") else f"(-({operands[0]}))"
            case operation if operation in INFIX:
                return INFIX[operation].format(*operands)
            case operation:
                return f"@_{operation}({', '.join(operands)})"

    def _operand(self, node: Node, stage: int) -> str:
        """A value inside a loop of some stage; one of an earlier loop comes from its array."""
        if _is_unitwise(node) and self.stage[node] < stage:
            array = f"{self.arrays[node]}[j]"
            return f"({array} != 0.0f)" if node.operation in CONDITIONS else array
        return self.texts[node] if node in self.texts else self._element(node)

    def _element(self, node: Node) -> str:
        match node.operation:
            case "constant":
                return number(node.detail)
            case "per_unit":
                return number(1 / self._width(node.detail))
            case _ if not _is_unitwise(node) and node in self.texts:
                return self.texts[node]
            case _:
                return f"{self._array(node)}[{'0' if node.width == ROW else 'j'}]"

    def _array(self, node: Node) -> str:
        match node.operation:
            case "x":
                return "x"
            case "before":
                return str(self.states[node.detail])
            case "vector":
                return self._vector(node.detail)
            case "extra":
                title = self.of.equations.title
                raise CellError(f"{title} reads more than x at a step, and an exported model has x alone.")
            case _ if node not in self.arrays and node in self.texts:
                return f"&{self.texts[node]}"  # one number
            case _:
                return self.arrays[node]

    def _vector(self, name: str) -> str:
        if name not in self.members:
            self.members[name] = self.source.weights.vector(f"{self.part}_{name}", self.of.parameters[name].reshape(-1))
        return str(self.members[name])

    def _matrix(self, name: str) -> Matrix:
        if name not in self.members:
            self.members[name] = self.source.weights.matrix(f"{self.part}_{name}", self.of.parameters[name])
        found = self.members[name]
        assert isinstance(found, Matrix)
        return found

    def _size(self, node: Node) -> int:
        assert node.width is not None
        return self._width(node.width)

    def _width(self, width: str) -> int:
        return self.of.equations.size(width, self.of.input_size, self.of.hidden_size)


def _is_unitwise(node: Node) -> bool:
    """Whether a value is computed for each unit, in a loop."""
    return node.operation in ELEMENTWISE and node.width not in (None, ROW)


def _mentions(text: str, name: str) -> bool:
    """Whether a name occurs as a whole word."""
    return name in Counter(_words(text))


def _words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()


def number(value: float) -> str:
    """A number in float32, as C spells it."""
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if not np.isfinite(rounded):
        return f"@_as_float({'0x7f800000u' if value > 0 else '0xff800000u'})"
    text = f"{float(rounded):.9g}"
    text = f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    return f"({text})" if text.startswith("-") else text
