"""Stacks in C: layers step by step where all run ahead, and over a whole sequence in any case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unspool.exchange.c.names import Names
from unspool.exchange.c.source import Source, indent
from unspool.exchange.c.step import write_step
from unspool.runtime.network import Layer, Recurrence, Stack

DIRECTIONS = ("ahead", "back")


@dataclass(frozen=True)
class Part:
    """A recurrence in C: its function, and its states as members of the stack's state."""

    step: str
    members: tuple[str, ...]
    recurrence: Recurrence

    def call(self, x: str) -> str:
        """One step from x."""
        states = "".join(f", s->{member}" for member in self.members)
        return f"{self.step}(w, {x}{states});"


@dataclass(frozen=True)
class StackCode:
    """The functions of a stack, named after `name`.

    `@_NAME_start(w, s)` sets the states. `@_NAME_step(w, s, x, y)` is there if the stack can be run step by step, and
    `@_NAME_run(w, s, x, steps, workspace)` otherwise or if it was asked for. It starts from the states that `s` has,
    and returns the output (steps, output_size) in the workspace, which has `workspace(steps)` floats.
    """

    name: str
    of: Stack
    parts: tuple[tuple[Part, ...], ...]

    @property
    def state(self) -> str:
        """The type of the state."""
        return f"@_{self.name}_state"

    def workspace(self, steps: str) -> str:
        """How many floats a run of so many steps needs, as an expression."""
        return f"({steps} + {self.of.delay}) * {sum(self._slots()) + self._padded}"

    def workspace_terms(self, steps: str) -> list[tuple[str, int]]:
        """The same as terms of a sum."""
        width = sum(self._slots()) + self._padded
        return [(steps, width), *([(str(self.of.delay), width)] if self.of.delay else [])]

    @property
    def _padded(self) -> int:
        return self.of.input_size if self.of.delay else 0

    def _slots(self) -> list[int]:
        """Widths of the places for sequences of layers: a layer's is used again when nothing reads it any more."""
        count = 3 if self.of.skip else 2
        widths = [layer.output_size for layer in self.of.layers]
        return [max(widths[slot::count]) for slot in range(min(count, len(widths)))]


def streams(stack: Stack) -> bool:
    """Whether a stack can be run step by step."""
    ahead = all(len(layer.directions) == 1 and not layer.directions[0].reverse for layer in stack.layers)
    return ahead and not stack.delay


def write_stack(source: Source, name: str, stack: Stack, whole: bool) -> StackCode:
    """Write the functions of a stack, over whole sequences or step by step.

    Args:
        source: The file.
        name: The name of the stack within the file.
        stack: The layers.
        whole: Whether to write `run`, and not `step`.

    Returns:
        What calls need to know.
    """
    taken = Names()
    parts = tuple(tuple(_write_parts(source, name, level, layer, taken)) for level, layer in enumerate(stack.layers))
    code = StackCode(name, stack, parts)
    members = [
        f"float {member}[{size}];"
        for one in _flat(code)
        for member, size in zip(one.members, one.recurrence.state_sizes, strict=True)
    ]
    source.types.append(f"typedef struct {{\n{indent(members)}}} {code.state};\n")
    _write_start(source, code)
    (_write_run if whole else _write_stream)(source, code)
    return code


def _flat(code: StackCode) -> Iterable[Part]:
    return (part for layer in code.parts for part in layer)


def _write_parts(source: Source, name: str, level: int, layer: Layer, taken: Names) -> Iterable[Part]:
    for place, recurrence in enumerate(layer.directions):
        both = f"_{DIRECTIONS[place]}" if len(layer.directions) > 1 else ""
        own = f"layer{level + 1}{both}"
        step = write_step(source, f"{name}_{own}", recurrence)
        members = tuple(taken.new(f"{own}_{state}") for state in recurrence.equations.states)
        yield Part(step, members, recurrence)


def _write_start(source: Source, code: StackCode) -> None:
    lines = []
    for part in _flat(code):
        of = part.recurrence
        for place, (member, size) in enumerate(zip(part.members, of.state_sizes, strict=True)):
            if of.initial is None:
                lines.append(f"@_clear(s->{member}, {size});")
            else:
                start = source.weights.vector(f"{code.name}_{member}_start", of.initial[place])
                lines.append(f"@_copy(s->{member}, {start}, {size});")
    if all(part.recurrence.initial is None for part in _flat(code)):
        lines.insert(0, "(void)w;")
    source.function(f"static void @_{code.name}_start(const @_weights *w, {code.state} *s)\n{{\n{indent(lines)}}}\n")


def _read(code: StackCode, level: int, rising: list[tuple[str, int]]) -> tuple[list[str], str]:
    """Statements that bring together what a layer reads, and the expression of it; `rising` is what is below it."""
    if not code.of.skip or len(rising) < 2:
        return [], rising[-1][0]
    (first, width), (second, more) = rising[-2:]
    read = f"read{level + 1}"
    lines = [
        f"float {read}[{width + more}];",
        f"@_copy({read}, {first}, {width});",
        f"@_copy({read} + {width}, {second}, {more});",
    ]
    return lines, read


def _write_stream(source: Source, code: StackCode) -> None:
    lines: list[str] = []
    rising = [("x", code.of.input_size)]
    for level, (layer, (part,)) in enumerate(zip(code.of.layers, code.parts, strict=True)):
        before, read = _read(code, level, rising)
        lines += [*before, part.call(read)]
        output = f"s->{part.members[0]}"
        if layer.residual:
            sum_ = f"sum{level + 1}"
            lines += [f"float {sum_}[{layer.output_size}];", f"@_copy({sum_}, {output}, {layer.output_size});"]
            lines += [f"@_add({sum_}, {read}, {layer.output_size});"]
            output = sum_
        rising.append((output, layer.output_size))
    lines.append(f"@_copy(y, {rising[-1][0]}, {code.of.output_size});")
    head = (
        f"static void @_{code.name}_step(const @_weights *w, {code.state} *s, const float *restrict x, "
        "float *restrict y)"
    )
    source.function(f"{head}\n{{\n{indent(lines)}}}\n")


def _write_run(source: Source, code: StackCode) -> None:
    slots, delay = code._slots(), code.of.delay
    lines, place = [f"const size_t count = steps == 0 ? 0 : steps + {delay};"], "workspace"
    bottom = "x"
    if delay:
        width = code.of.input_size
        lines += [
            f"float *const later = {place};",
            f"for (size_t i = 0; i < count * {width}; i++)",
            f"    later[i] = i < steps * {width} ? x[i] : 0.0f;",
        ]
        bottom, place = "later", f"later + count * {width}"
    for slot, width in enumerate(slots):
        lines.append(f"float *const place{slot + 1} = {place};")
        place = f"place{slot + 1} + count * {width}"
    rising = [(bottom, code.of.input_size)]
    for level, layer in enumerate(code.of.layers):
        target = f"place{level % len(slots) + 1}"
        lines += _run_layer(code, level, layer, rising, target)
        rising.append((target, layer.output_size))
    top = rising[-1][0]
    lines.append(f"return {top} + {delay} * {code.of.output_size};" if delay else f"return {top};")
    head = (
        f"static const float *@_{code.name}_run(const @_weights *w, {code.state} *s, const float *x, size_t steps, "
        "float *workspace)"
    )
    source.function(f"{head}\n{{\n{indent(lines)}}}\n")


def _run_layer(code: StackCode, level: int, layer: Layer, rising: list[tuple[str, int]], target: str) -> Iterable[str]:
    """Loops over time, one per direction; each writes its own columns of the output."""
    offset = 0
    for part in code.parts[level]:
        own = part.recurrence.output_size
        at = [(f"{name} + t * {width}", width) for name, width in rising]
        before, read = _read(code, level, at)
        inside = [
            "const size_t t = count - 1 - i;" if part.recurrence.reverse else "const size_t t = i;",
            *before,
            f"float *const y = {target} + t * {layer.output_size} + {offset};",
            part.call(read),
            f"@_copy(y, s->{part.members[0]}, {own});",
        ]
        if layer.residual:
            inside.append(f"@_add(y, {read} + {offset}, {own});")
        yield "for (size_t i = 0; i < count; i++) {"
        yield from indent(inside).rstrip("\n").split("\n")
        yield "}"
        offset += own
