"""Language models in C: a token in, the logits of the next one out."""

from __future__ import annotations

import numpy as np

from unspool.errors import ArgumentError
from unspool.exchange.c.source import REFUSED, AffineMap, Lookup, Source, refuse_unknown
from unspool.exchange.c.stack import streams, write_stack
from unspool.exchange.c.weights import Matrix
from unspool.runtime.network import Language


def write_language(source: Source, network: Language) -> None:
    """Write `feed`, `logits`, `step` and `run` of a language model.

    Args:
        source: The file.
        network: The model.
    """
    if not streams(network.stack):
        problem = "does not run step by step"
        raise ArgumentError.of("stack", network.stack.delay, problem, "Train a language model in one direction")
    code = write_stack(source, "stack", network.stack, whole=False)
    head = source.linear("head", network.head)
    projection = None if network.projection is None else source.linear("projection", network.projection)
    tokens, width = network.embedding.weight.shape
    outputs = network.stack.output_size
    source.constants |= {"TOKENS": tokens, "UNITS": outputs}
    source.fields += [f"{code.state} stack;", f"float output[{outputs}]; /* of the top layer */"]
    source.start += ["@_stack_start(w, &s->stack);", f"@_clear(s->output, {outputs});"]
    source.export(
        f"Read a token, without the logits of the next. Returns {REFUSED}.",
        "int @_feed(@_state *s, int32_t token)",
        [
            *refuse_unknown("&token", "1", tokens),
            f"float x[{width}];",
            *_embed(source, network, head),
            "@_stack_step(w, &s->stack, x, s->output);",
            "return 0;",
        ],
    )
    source.export(
        "The logits (tokens) of the next token.",
        "void @_logits(const @_state *s, float *logits)",
        _head_lines(head, projection),
    )
    source.export(
        f"Read a token; the logits (tokens) of the next. Returns {REFUSED}.",
        "int @_step(@_state *s, int32_t token, float *logits)",
        ["if (@_feed(s, token) != 0)", "    return -1;", "@_logits(s, logits);", "return 0;"],
    )
    source.export(
        f"Read several tokens; the logits (tokens) of the next. Returns {REFUSED}.",
        "int @_run(@_state *s, const int32_t *tokens, size_t count, float *logits)",
        [
            *refuse_unknown("tokens", "count", tokens),
            "for (size_t t = 0; t < count; t++)",
            "    (void)@_feed(s, tokens[t]);",
            "@_logits(s, logits);",
            "return 0;",
        ],
    )
    source.export_units("output")
    _write_sampling(source, tokens)


def _embed(source: Source, network: Language, head: AffineMap) -> list[str]:
    """A tied embedding is the head's matrix, and is not kept twice."""
    tied = network.embedding.weight
    if tied.shape == network.head.weight.shape and np.array_equal(tied, network.head.weight):
        return _read_column(head.matrix)
    lookup: Lookup = source.embedding("embedding", network.embedding)
    return lookup.lines("token", "x")


def _read_column(matrix: Matrix) -> list[str]:
    place = "(size_t)token"
    sizes = f"{matrix.columns}, {matrix.rows}"
    clear = f"@_clear(x, {matrix.columns});"
    if matrix.scale is None:
        return [clear, f"@_add_column(x, {matrix.name}, {place}, {sizes});"]
    return [clear, f"@_add_column_int8(x, {matrix.name}, {matrix.scale}, {place}, {sizes});"]


def _head_lines(head: AffineMap, projection: AffineMap | None) -> list[str]:
    if projection is None:
        return head.lines("s->output", "logits")
    between = [f"float features[{projection.outputs}];", *projection.lines("s->output", "features")]
    return [*between, *head.lines("features", "logits")]


def _write_sampling(source: Source, tokens: int) -> None:
    source.export(
        "Logits become probabilities; at a temperature of 0, the most likely token is certain. "
        "A logit of minus infinity bans its token.",
        "void @_probabilities(float *logits, float temperature)",
        [
            f"const int best = @_largest(logits, {tokens});",
            "const float highest = logits[best]; /* becomes 0 at any temperature, however low */",
            f"for (int j = 0; j < {tokens}; j++)",
            "    logits[j] = temperature > 0.0f ? (logits[j] - highest) / temperature : j == best ? 0.0f : -1e30f;",
            f"@_softmax(logits, {tokens});",
        ],
    )
    source.export(
        "A token by its probability. The random numbers are xorshift32 from the seed, which must not be 0.",
        "int32_t @_sample(const float *probabilities, uint32_t *seed)",
        [
            "*seed ^= *seed << 13;",
            "*seed ^= *seed >> 17;",
            "*seed ^= *seed << 5;",
            f"const float wanted = (float)(*seed >> 8) * 0x1p-24f * @_sum(probabilities, {tokens});",
            "float reached = probabilities[0];",
            "int32_t token = 0;",
            f"while (token < {tokens - 1} && reached <= wanted)",
            "    reached += probabilities[++token];",
            "return token;",
        ],
    )
