"""Embedding, linear maps and poolings in ONNX."""

from __future__ import annotations

import math

from unspool.errors import ArgumentError
from unspool.exchange.onnx.graph import INTEGER, GraphBuilder
from unspool.exchange.onnx.recurrence import Padding, emit_padding
from unspool.runtime.network import Embedding, Linear, Pooling


def emit_linear(graph: GraphBuilder, linear: Linear, x: str) -> str:
    """x Wᵀ + b along the last axis."""
    product = graph.add("MatMul", x, graph.floats(linear.weight.T, "weight"))
    return product if linear.bias is None else graph.add("Add", product, graph.floats(linear.bias, "bias"))


def time_first(graph: GraphBuilder, value: str, rank: int = 3) -> str:
    """(batch, time, …) as (time, batch, …), and the other way around."""
    return graph.add("Transpose", value, perm=[1, 0, *range(2, rank)])


def emit_embedding(graph: GraphBuilder, embedding: Embedding, tokens: str) -> str:
    """The vectors (time, batch, width) of tokens (time, batch), of words with n-grams after further inputs for these.

    `forms` (batch, time) says which of the batch's different words each is, `ngrams` (forms, most) has the rows of
    their n-grams, hashes modulo the number of rows, and `ngram_counts` (forms,) how many of them each has.
    """
    vectors = graph.add("Gather", graph.floats(embedding.weight, "embedding"), tokens, axis=0)
    if embedding.ngrams is None:
        return vectors
    forms = graph.input("forms", INTEGER, ("batch", "time"))
    ngrams = graph.input("ngrams", INTEGER, ("forms", "most"))
    counts = graph.input("ngram_counts", INTEGER, ("forms",))
    spelled = graph.add("Gather", graph.floats(embedding.ngrams, "ngram_embedding"), ngrams, axis=0)
    padding = emit_padding(graph, time_first(graph, spelled), counts)
    mean = _mean(graph, graph.add("Where", padding.valid, time_first(graph, spelled), graph.floats(0.0)), padding)
    return graph.add("Add", vectors, graph.add("Gather", mean, time_first(graph, forms, 2), axis=0))


def emit_pooling(graph: GraphBuilder, pooling: Pooling, h: str, lengths: str) -> str:
    """One vector (batch, width) per sequence of h (time, batch, width), which is zero where a sequence is over."""
    padding = emit_padding(graph, h, lengths)
    match pooling.kind:
        case "mean":
            return _mean(graph, h, padding)
        case "max":
            return _max(graph, h, padding)
        case "last":
            return _last(graph, h, padding, pooling.bidirectional)
        case "attention":
            return _attention(graph, pooling, h, padding)
    raise ArgumentError.of("pooling", pooling.kind, "is not known", "Give last, mean, max or attention")


def _column(graph: GraphBuilder, value: str) -> str:
    """(batch,) as (batch, 1)."""
    return graph.add("Unsqueeze", value, graph.integers([1]))


def _sum(graph: GraphBuilder, h: str) -> str:
    """Over time."""
    return graph.add("ReduceSum", h, graph.integers([0]), keepdims=0)


def _mean(graph: GraphBuilder, h: str, padding: Padding) -> str:
    counts = graph.add("Max", padding.lengths, graph.integers(1))
    return graph.add("Div", _sum(graph, h), _column(graph, graph.add("Cast", counts, to=1)))


def _max(graph: GraphBuilder, h: str, padding: Padding) -> str:
    lowest = graph.add("Where", padding.valid, h, graph.floats(-math.inf))
    highest = graph.add("ReduceMax", lowest, axes=[0], keepdims=0)
    empty = _column(graph, graph.add("Equal", padding.lengths, graph.integers(0)))
    return graph.add("Where", empty, graph.floats(0.0), highest)


def _last(graph: GraphBuilder, h: str, padding: Padding, bidirectional: bool) -> str:
    steps = graph.add("Max", graph.add("Sub", padding.lengths, graph.integers(1)), graph.integers(0))
    by_row = time_first(graph, h)
    end = graph.add("GatherND", by_row, _column(graph, steps), batch_dims=1)
    if not bidirectional:
        return end
    start = graph.add("Gather", h, graph.integers(0), axis=0)
    return graph.add("Concat", _half(graph, end, 0), _half(graph, start, 1), axis=-1)


def _half(graph: GraphBuilder, value: str, which: int) -> str:
    return graph.add_many("Split", [value], 2, axis=-1)[which]


def _attention(graph: GraphBuilder, pooling: Pooling, h: str, padding: Padding) -> str:
    assert pooling.inner is not None
    assert pooling.outer is not None
    scores = emit_linear(graph, pooling.outer, graph.add("Tanh", emit_linear(graph, pooling.inner, h)))
    # A large negative number, not −∞: the softmax of a sequence without steps is then no NaN, and is masked after it.
    masked = graph.add("Where", padding.valid, scores, graph.floats(-1e30))
    alpha = graph.add("Softmax", masked, axis=0)
    return _sum(graph, graph.add("Mul", graph.add("Where", padding.valid, alpha, graph.floats(0.0)), h))
