"""Classifiers and regressors in C: a sequence in, one prediction out."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.exchange.c.interface import Interface
from unspool.exchange.c.pooling import write_pooling
from unspool.exchange.c.source import REFUSED, AffineMap, Lookup, Source, add_row, indent, refuse_unknown
from unspool.exchange.c.stack import StackCode, streams, write_stack
from unspool.runtime.network import Member, Pooled


@dataclass(frozen=True)
class _MemberCode:
    """A member in C; its state is `s->NAME`."""

    name: str
    of: Member
    stack: StackCode
    embedding: Lookup | None
    head: AffineMap

    @property
    def inputs(self) -> int:
        return self.of.stack.input_size


def write_pooled(source: Source, network: Pooled, interface: Interface) -> None:
    """Write `step` and `output` where the layers run step by step, and `run` in any case.

    Args:
        source: The file.
        network: The model.
        interface: Its vocabulary and scales.
    """
    whole = not all(streams(member.stack) for member in network.members)
    members = [_write_member(source, number, member, whole) for number, member in enumerate(network.members, 1)]
    outputs, width = members[0].head.outputs, members[0].of.stack.output_size
    source.constants |= {"OUTPUTS": outputs, "UNITS": width}
    if members[0].embedding is None:
        source.constants["INPUTS"] = members[0].inputs
    source.fields.append(f"float units[{width}]; /* the last output of the top layer */")
    source.start.append(f"@_clear(s->units, {width});")
    _write_inputs(source, members, interface)
    _write_output(source, network, members, interface)
    (_write_whole if whole else _write_steps)(source, members)
    source.export_units("units")


def reads_ngrams(network: Pooled) -> bool:
    """Whether words are read with their n-grams."""
    return any(member.embedding is not None and member.embedding.ngrams is not None for member in network.members)


def _write_member(source: Source, number: int, member: Member, whole: bool) -> _MemberCode:
    name, width = f"member{number}", member.stack.output_size
    code = write_stack(source, f"{name}_stack", member.stack, whole)
    write_pooling(source, f"{name}_pool", member.pooling, width)
    embedding = None if member.embedding is None else source.embedding(f"{name}_embedding", member.embedding)
    fields = [f"{code.state} stack;", f"@_{name}_pool pool;"]
    start = [f"@_{name}_stack_start(w, &m->stack);", f"@_{name}_pool_start(&m->pool);"]
    add = [f"@_{name}_pool_add(w, &m->pool, h);"]
    if member.merger is not None:
        past = member.window * member.stack.input_size
        fields.append(f"float past[{past}]; /* x of the last steps, the newest first */")
        start.append(f"@_clear(m->past, {past});")
        add = _merge(source, name, member, past)
    elif "x" not in "".join(add).split():
        add = ["(void)x;", *add]
    source.types.append(f"typedef struct {{\n{indent(fields)}}} @_{name};\n")
    source.function(f"static void @_{name}_start(const @_weights *w, @_{name} *m)\n{{\n{indent(start)}}}\n")
    head = f"static void @_{name}_add(const @_weights *w, @_{name} *m, const float *h, const float *x)"
    source.function(f"{head}\n{{\n{indent(add)}}}\n")
    source.fields.append(f"@_{name} {name};")
    source.start.append(f"@_{name}_start(w, &s->{name});")
    return _MemberCode(name, member, code, embedding, source.linear(f"{name}_head", member.head))


def _merge(source: Source, name: str, member: Member, past: int) -> list[str]:
    """The pooling reads relu(merger([h_t; x_t; x_{t−1}; …]))."""
    assert member.merger is not None
    merger, inputs, width = (
        source.linear(f"{name}_merger", member.merger),
        member.stack.input_size,
        member.stack.output_size,
    )
    return [
        f"for (int j = {past} - 1; j >= {inputs}; j--)",
        f"    m->past[j] = m->past[j - {inputs}];",
        f"@_copy(m->past, x, {inputs});",
        f"float both[{width + past}], merged[{merger.outputs}];",
        f"@_copy(both, h, {width});",
        f"@_copy(both + {width}, m->past, {past});",
        *merger.lines("both", "merged"),
        f"for (int j = 0; j < {merger.outputs}; j++)",
        "    merged[j] = @_relu(merged[j]);",
        f"@_{name}_pool_add(w, &m->pool, merged);",
    ]


def _write_inputs(source: Source, members: list[_MemberCode], interface: Interface) -> None:
    """What a member's layers read at a step: `@_MEMBER_read(w, token or values, x)`."""
    for member in members:
        head = f"static void @_{member.name}_read(const @_weights *w, {_argument(member)}, float *x)"
        source.function(f"{head}\n{{\n{indent(_read_lines(source, member, interface))}}}\n")


def _argument(member: _MemberCode) -> str:
    if member.embedding is None:
        return "const float *values"
    return "int32_t token" if member.embedding.ngrams is None else "int32_t token, const uint32_t *hashes, size_t count"


def _read_lines(source: Source, member: _MemberCode, interface: Interface) -> list[str]:
    if member.embedding is None:
        return _scale_lines(source, member, interface)
    lines = member.embedding.lines("token", "x")
    table = member.embedding.ngrams
    if table is None:
        return lines
    width = table.columns
    return [
        *lines,
        f"float spelled[{width}];",
        f"@_clear(spelled, {width});",
        "for (size_t i = 0; i < count; i++)",
        f"    {add_row(table, f'hashes[i] % {table.rows}u', 'spelled')}",
        f"for (int j = 0; j < {width} && count > 0; j++)",
        "    x[j] += spelled[j] / (float)count;",
    ]


def _scale_lines(source: Source, member: _MemberCode, interface: Interface) -> list[str]:
    if interface.inputs is None:
        return ["(void)w;", f"@_copy(x, values, {member.inputs});"]
    mean = source.weights.vector("input_mean", interface.inputs.mean)
    deviation = source.weights.vector("input_deviation", interface.inputs.deviation)
    return [f"for (int j = 0; j < {member.inputs}; j++)", f"    x[j] = (values[j] - {mean}[j]) / {deviation}[j];"]


def _write_output(source: Source, network: Pooled, members: list[_MemberCode], interface: Interface) -> None:
    outputs = members[0].head.outputs
    lines = [f"float scores[{outputs}];", f"@_clear(y, {outputs});"]
    for member in members:
        width = member.head.matrix.columns
        lines += [
            "{",
            f"    float pooled[{width}];",
            f"    @_{member.name}_pool_finish(&s->{member.name}.pool, pooled);",
            *(f"    {line}" for line in member.head.lines("pooled", "scores")),
        ]
        lines += [f"    @_softmax(scores, {outputs});"] if network.output == "softmax" else []
        lines += [f"    @_add(y, scores, {outputs});", "}"]
    if len(members) > 1:
        lines += [f"for (int j = 0; j < {outputs}; j++)", f"    y[j] /= {len(members)}.0f;"]
    if network.output == "sigmoid":
        lines += [f"for (int j = 0; j < {outputs}; j++)", "    y[j] = @_sigmoid(y[j]);"]
    if interface.outputs is not None:
        mean = source.weights.vector("output_mean", interface.outputs.mean)
        deviation = source.weights.vector("output_deviation", interface.outputs.deviation)
        lines += [f"for (int j = 0; j < {outputs}; j++)", f"    y[j] = y[j] * {deviation}[j] + {mean}[j];"]
    source.export(
        "The prediction (outputs) after the steps so far.", "void @_output(const @_state *s, float *y)", lines
    )


def _write_steps(source: Source, members: list[_MemberCode]) -> None:
    lines = []
    first = members[0]
    arguments = _names(first)
    for member in members:
        width = member.of.stack.output_size
        lines += [
            "{",
            f"    float x[{member.inputs}], h[{width}];",
            f"    @_{member.name}_read(w, {arguments}, x);",
            f"    @_{member.name}_stack_step(w, &s->{member.name}.stack, x, h);",
            f"    @_{member.name}_add(w, &s->{member.name}, h, x);",
            *([f"    @_copy(s->units, h, {width});"] if member is first else []),
            "}",
        ]
    returned, said, check, done = _refusal(first, "&token", "1")
    source.export(
        f"Read one step.{said}", f"{returned} @_step(@_state *s, {_argument(first)})", [*check, *lines, *done]
    )
    if first.embedding is not None and first.embedding.ngrams is not None:
        return
    kind, at = ("int32_t", "t") if first.embedding is not None else ("float", f"t * {first.inputs}")
    call = f"x[{at}]" if first.embedding is not None else f"x + {at}"
    returned, said, check, done = _refusal(first, "x", "steps")
    source.export(
        f"Further steps of a sequence, and the prediction (outputs).{said}",
        f"{returned} @_run(@_state *s, const {kind} *x, size_t steps, float *y)",
        [*check, "for (size_t t = 0; t < steps; t++)", f"    (void)@_step(s, {call});", "@_output(s, y);", *done],
    )


def _refusal(first: _MemberCode, ids: str, count: str) -> tuple[str, str, list[str], list[str]]:
    """Of a function that may read ids: its type, what its comment says, the check before all else, and its end."""
    if first.embedding is None:
        return "void", "", [], []
    check = refuse_unknown(ids, count, first.embedding.table.rows)
    return "int", f" Returns {REFUSED}.", check, ["return 0;"]


def _names(member: _MemberCode) -> str:
    if member.embedding is None:
        return "values"
    return "token" if member.embedding.ngrams is None else "token, hashes, count"


def _write_whole(source: Source, members: list[_MemberCode]) -> None:
    lines, first = [], members[0]
    source.fields.append("const float *outputs; /* of the top layer at every step of the last run, in its workspace */")
    source.start.append("s->outputs = NULL;")
    spelled = first.embedding is not None and first.embedding.ngrams is not None
    for member in reversed(members):  # the first comes last, so that its outputs stay in the workspace
        width, inputs = member.of.stack.output_size, member.inputs
        given = f"input + t * {inputs}" if member.embedding is None else "input[t]"
        given += ", hashes + first, counts[t]" if spelled else ""
        advance = ["    first += counts[t];"] if spelled else []
        loop = [*(["size_t first = 0;"] if spelled else []), "for (size_t t = 0; t < steps; t++) {"]
        lines += [
            "{",
            "    float *const x = workspace;",
            *(f"    {line}" for line in loop),
            f"        @_{member.name}_read(w, {given}, x + t * {inputs});",
            *(f"    {line}" for line in advance),
            "    }",
            f"    const float *const h = @_{member.name}_stack_run(w, &s->{member.name}.stack, x, steps, "
            f"x + steps * {inputs});",
            "    for (size_t t = 0; t < steps; t++)",
            f"        @_{member.name}_add(w, &s->{member.name}, h + t * {width}, x + t * {inputs});",
            *(
                [
                    "    s->outputs = h;",
                    "    if (steps > 0)",
                    f"        @_copy(s->units, h + (steps - 1) * {width}, {width});",
                ]
                * (member is first)
            ),
            "}",
        ]
    source.export(
        "The outputs (steps, units) of the top layer in the last run; they are in its workspace.",
        "const float *@_outputs(const @_state *s)",
        ["return s->outputs;"],
    )
    needs = [[("steps", one.inputs), *one.stack.workspace_terms("steps")] for one in members]
    source.export_workspace("size_t steps", needs)
    kind = "float" if first.embedding is None else "int32_t"
    more = ", const uint32_t *hashes, const size_t *counts" if spelled else ""
    returned, said, check, done = _refusal(first, "input", "steps")
    source.export(
        f"The prediction (outputs) for a whole sequence, from the state that `init` gives.{said}",
        f"{returned} @_run(@_state *s, const {kind} *input{more}, size_t steps, float *y, float *workspace)",
        [*check, *lines, "@_output(s, y);", *done],
    )
