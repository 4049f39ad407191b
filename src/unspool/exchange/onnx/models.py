"""Whole models in ONNX: tokens or numbers in, probabilities, scores or quantiles out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unspool.errors import ArgumentError
from unspool.exchange.onnx.forecaster import emit_forecaster
from unspool.exchange.onnx.graph import FLOAT, INTEGER, GraphBuilder
from unspool.exchange.onnx.parts import emit_embedding, emit_linear, emit_pooling, time_first
from unspool.exchange.onnx.recurrence import emit_padding, mask
from unspool.exchange.onnx.stack import emit_stack, input_states, output_states
from unspool.exchange.onnx.translator import emit_decoder, emit_encoder
from unspool.runtime.network import (
    Forecaster,
    Language,
    Linear,
    Member,
    Network,
    Pooled,
    Pooling,
    Stack,
    Tagger,
    Translator,
)

#: What makes probabilities of scores.
PROBABILITIES: dict[str, tuple[str, dict[str, int]]] = {
    "softmax": ("Softmax", {"axis": -1}),
    "sigmoid": ("Sigmoid", {}),
}


def emit_network(network: Network) -> dict[str, GraphBuilder]:
    """A network as graphs, by their names: one named "model", or of a translator "encoder" and "decoder"."""
    if isinstance(network, Translator):
        return {"encoder": emit_encoder(network), "decoder": emit_decoder(network)}
    for kind, emit in EMITTERS.items():
        if isinstance(network, kind):
            return {"model": emit(network)}
    problem = f"is a {type(network).__name__}, which has no form in ONNX"
    raise ArgumentError.of("network", network, problem, "Give one of the kinds of unspool.runtime.network")


def emit_layers(stack: Stack, *, batch_first: bool = False, lengths: bool = True, states: bool = True) -> GraphBuilder:
    """A stack of layers: `x`, with `lengths` also `lengths`, and with `states` an input and an output for every state.

    Args:
        stack: The layers.
        batch_first: Whether `x` and `output` are (batch, time, width) in place of (time, batch, width).
        lengths: Whether sequences may be shorter than `x`.
        states: Whether the initial states are inputs; otherwise they are the layers' own. Final states are outputs.

    Returns:
        The graph.
    """
    graph = GraphBuilder()
    axes = ("batch", "time") if batch_first else ("time", "batch")
    x = graph.input("x", FLOAT, (*axes, stack.input_size))
    ends = graph.input("lengths", INTEGER, ("batch",)) if lengths else None
    start = input_states(graph, stack) if states else None
    found = emit_stack(graph, stack, time_first(graph, x) if batch_first else x, ends, start)
    output = time_first(graph, found.output) if batch_first else found.output
    graph.output("output", output, FLOAT, (*axes, stack.output_size))
    output_states(graph, stack, found.finals)
    return graph


def emit_language(network: Language) -> GraphBuilder:
    """`tokens` (batch, time) and states in; `probabilities` and `logits` of what follows each, and states, out."""
    graph = GraphBuilder()
    tokens = graph.input("tokens", INTEGER, ("batch", "time"))
    start = input_states(graph, network.stack)
    x = emit_embedding(graph, network.embedding, time_first(graph, tokens, 2))
    found = emit_stack(graph, network.stack, x, None, start)
    features = time_first(graph, found.output)
    if network.projection is not None:
        features = emit_linear(graph, network.projection, features)
    logits = emit_linear(graph, network.head, features)
    shape = ("batch", "time", len(network.head.weight))
    graph.output("probabilities", graph.add("Softmax", logits, axis=-1), FLOAT, shape)
    graph.output("logits", logits, FLOAT, shape)
    output_states(graph, network.stack, found.finals)
    return graph


def emit_pooled(network: Pooled) -> GraphBuilder:
    """`tokens` (batch, time) or `x` (batch, time, features), and `lengths`, in; `probabilities` and `scores` out.

    The scores of several members are the logarithms of their mean probabilities. Numbers have scores alone, and these
    are standardized.
    """
    graph = GraphBuilder()
    first = network.members[0]
    if first.embedding is None:
        given = graph.input("x", FLOAT, ("batch", "time", first.stack.input_size))
        given = time_first(graph, given)
    else:
        given = time_first(graph, graph.input("tokens", INTEGER, ("batch", "time")), 2)
    lengths = graph.input("lengths", INTEGER, ("batch",))
    each = [_emit_member(graph, member, given, lengths) for member in network.members]
    scores = each[0]
    if len(each) > 1:
        likely = [graph.add("Softmax", one, axis=-1) for one in each]
        scores = graph.add("Log", graph.add("Mean", *likely))
    shape = ("batch", len(first.head.weight))
    if network.output in PROBABILITIES:
        name, attributes = PROBABILITIES[network.output]
        graph.output("probabilities", graph.add(name, scores, **attributes), FLOAT, shape)
    graph.output("scores", scores, FLOAT, shape)
    return graph


def _emit_member(graph: GraphBuilder, member: Member, given: str, lengths: str) -> str:
    x = given if member.embedding is None else emit_embedding(graph, member.embedding, given)
    h = emit_stack(graph, member.stack, x, lengths).output
    if member.merger is not None:
        h = _merge(graph, member.merger, h, x, member.window, lengths)
    return emit_linear(graph, member.head, emit_pooling(graph, member.pooling, h, lengths))


def _merge(graph: GraphBuilder, merger: Linear, h: str, x: str, window: int, lengths: str) -> str:
    """relu(merger([h_t; x_t; … x_{t−window+1}])), where x before the start is 0."""
    steps = graph.add("Slice", graph.add("Shape", x), graph.integers([0]), graph.integers([1]))
    past = [x]
    for lag in range(1, window):
        later = graph.add("Pad", x, graph.integers([lag, 0, 0, 0, 0, 0]), graph.floats(0.0))
        past.append(graph.add("Slice", later, graph.integers([0]), steps, graph.integers([0])))
    merged = graph.add("Relu", emit_linear(graph, merger, graph.add("Concat", h, *past, axis=-1)))
    return mask(graph, merged, emit_padding(graph, x, lengths))


def emit_tagger(network: Tagger) -> GraphBuilder:
    """`tokens` (batch, time) and `lengths` in; `emissions` (batch, time, tags) out, with a label its `label_scores`.

    Where words are spelled: `forms` (batch, time), which of the different words each is, `characters` (forms,
    characters), and `character_lengths` (forms,) are further inputs. Without a chain, `probabilities` of the tags are
    an output, too; with one, tags are decoded outside, from the emissions and the chain's scores.
    """
    graph = GraphBuilder()
    tokens = graph.input("tokens", INTEGER, ("batch", "time"))
    lengths = graph.input("lengths", INTEGER, ("batch",))
    v = emit_embedding(graph, network.words, time_first(graph, tokens, 2))
    if network.speller is not None and network.letters is not None:
        v = graph.add("Concat", v, _emit_spelling(graph, network), axis=-1)
    h = emit_stack(graph, network.stack, v, lengths).output
    emissions = emit_linear(graph, network.head, time_first(graph, h))
    shape = ("batch", "time", len(network.head.weight))
    if network.crf is None:
        graph.output("probabilities", graph.add("Softmax", emissions, axis=-1), FLOAT, shape)
    graph.output("emissions", emissions, FLOAT, shape)
    if network.label is not None:
        pooled = emit_pooling(graph, network.label.pooling, h, lengths)
        scores = emit_linear(graph, network.label.head, pooled)
        labels = ("batch", len(network.label.head.weight))
        graph.output("label_probabilities", graph.add("Softmax", scores, axis=-1), FLOAT, labels)
        graph.output("label_scores", scores, FLOAT, labels)
    return graph


def _emit_spelling(graph: GraphBuilder, network: Tagger) -> str:
    """The vectors (time, batch, width) that words get from their characters."""
    assert network.speller is not None
    assert network.letters is not None
    forms = graph.input("forms", INTEGER, ("batch", "time"))
    characters = graph.input("characters", INTEGER, ("forms", "characters"))
    lengths = graph.input("character_lengths", INTEGER, ("forms",))
    letters = emit_embedding(graph, network.letters, time_first(graph, characters, 2))
    h = emit_stack(graph, network.speller, letters, lengths).output
    spelled = emit_pooling(graph, Pooling("last", True, None, None), h, lengths)
    return graph.add("Gather", spelled, time_first(graph, forms, 2), axis=0)


EMITTERS: dict[type, Callable[[Any], GraphBuilder]] = {
    Language: emit_language,
    Pooled: emit_pooled,
    Tagger: emit_tagger,
    Forecaster: emit_forecaster,
}
