"""Translators in C: token ids in, those of the target out, the most likely token at every step."""

from __future__ import annotations

import math

from unspool.errors import ArgumentError
from unspool.exchange.c.source import AffineMap, Source, refuse_unknown
from unspool.exchange.c.stack import StackCode, streams, write_stack
from unspool.exchange.c.step import number
from unspool.runtime.network import Translator

PADDING, START, END = range(3)


def write_translator(source: Source, network: Translator) -> None:
    """Write `workspace` and `run`, which decodes greedily.

    Args:
        source: The file.
        network: The model.
    """
    if not streams(network.decoder):
        raise ArgumentError.of("decoder", "both directions", "cannot write step by step", "Give one direction")
    encoder = write_stack(source, "encoder", network.encoder, whole=True)
    decoder = write_stack(source, "decoder", network.decoder, whole=False)
    reads, writes = source.embedding("source", network.source), source.embedding("target", network.target)
    head = source.linear("head", network.head)
    width = network.decoder.output_size
    source.constants |= {"SOURCE_TOKENS": network.source.weight.shape[0], "TARGET_TOKENS": head.outputs}
    source.constants |= {"UNITS": width, "LONGEST": network.longest}
    source.fields += [f"{encoder.state} encoder;", f"{decoder.state} decoder;"]
    source.start += ["@_encoder_start(w, &s->encoder);", "@_decoder_start(w, &s->decoder);"]
    keys = f" + count * {width}" if network.keys is not None else ""
    attention = width + 1 if network.keys is not None else 0
    needs = [*encoder.workspace_terms("count"), ("1", head.outputs), ("count", reads.width + attention)]
    source.export_workspace("size_t count", [needs])
    attended, prepared = _attend(source, network, keys)
    source.export(
        f"Ids of a target of at most `limit` tokens, without the end ({END}); returns how many, SIZE_MAX where one of "
        "`tokens` is not one of the model's. Starts from the state that `init` gives.",
        "size_t @_run(@_state *s, const int32_t *tokens, size_t count, int32_t *target, size_t limit, "
        "float *workspace)",
        [
            *refuse_unknown("tokens", "count", reads.table.rows, "SIZE_MAX"),
            "float *const x = workspace;",
            "for (size_t t = 0; t < count; t++) {",
            *(f"    {line}" for line in reads.lines("tokens[t]", f"(x + t * {reads.width})")),
            "}",
            f"float *const logits = x + count * {reads.width} + {encoder.workspace('count')};",
            f"{'const float *const m = ' if network.keys is not None else '(void)'}"
            f"@_encoder_run(w, &s->encoder, x, count, x + count * {reads.width});",
            *_hand_over(encoder, decoder),
            *prepared,
            "size_t written = 0;",
            f"int32_t token = {START};",
            f"for (size_t t = 0; t < limit && t < {network.longest}; t++) {{",
            f"    float e[{writes.width}], q[{width}];",
            *(f"    {line}" for line in writes.lines("token", "e")),
            "    @_decoder_step(w, &s->decoder, e, q);",
            *(f"    {line}" for line in attended),
            *(f"    {line}" for line in head.lines("q", "logits")),
            f"    logits[{PADDING}] = logits[{START}] = -1e30f; /* are never written */",
            f"    token = (int32_t)@_largest(logits, {head.outputs});",
            f"    if (token == {END})",
            "        break;",
            "    target[written++] = token;",
            "}",
            "return written;",
        ],
    )


def _hand_over(encoder: StackCode, decoder: StackCode) -> list[str]:
    """The decoder starts where the encoder ended; of two directions, from their mean."""
    lines = []
    for above, (part,) in zip(encoder.parts, decoder.parts, strict=True):
        for place, member in enumerate(part.members):
            size = part.recurrence.state_sizes[place]
            ends = [f"s->encoder.{one.members[place]}[j]" for one in above]
            mean = ends[0] if len(ends) == 1 else f"({' + '.join(ends)}) / {len(ends)}.0f"
            lines += [f"for (int j = 0; j < {size}; j++)", f"    s->decoder.{member}[j] = {mean};"]
    return lines


def _attend(source: Source, network: Translator, keys: str) -> tuple[list[str], list[str]]:
    """Statements of a step, which put what the head reads in the place of q, and those before all steps."""
    if network.keys is None or network.mix is None:
        return [], []
    key: AffineMap = source.linear("keys", network.keys)
    mix: AffineMap = source.linear("mix", network.mix)
    memory, width, tokens = network.encoder.output_size, network.decoder.output_size, network.head.weight.shape[0]
    before = [
        f"float *const keys = logits + {tokens}, *const a = keys{keys};",
        "for (size_t i = 0; i < count; i++) {",
        *(f"    {line}" for line in key.lines(f"(m + i * {memory})", f"(keys + i * {width})")),
        "}",
    ]
    step = [
        f"float both[{width + memory}];",
        f"@_copy(both, q, {width});",
        f"@_clear(both + {width}, {memory});",
        "for (size_t i = 0; i < count; i++) {",
        "    a[i] = 0.0f;",
        f"    for (int j = 0; j < {width}; j++)",
        f"        a[i] += q[j] * keys[i * {width} + (size_t)j];",
        f"    a[i] *= {number(1 / math.sqrt(width))};",
        "}",
        "if (count > 0)",
        "    @_softmax(a, (int)count);",
        "for (size_t i = 0; i < count; i++)",
        f"    for (int j = 0; j < {memory}; j++)",
        f"        both[{width} + j] += a[i] * m[i * {memory} + (size_t)j];",
        *mix.lines("both", "q"),
        f"for (int j = 0; j < {width}; j++)",
        "    q[j] = @_tanh(q[j]);",
    ]
    return step, before
