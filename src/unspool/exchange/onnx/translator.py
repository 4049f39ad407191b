"""The translator in ONNX, as two graphs: one reads a source, the other makes one step of the target."""

from __future__ import annotations

import math

from unspool.exchange.onnx.graph import FLOAT, INTEGER, GraphBuilder
from unspool.exchange.onnx.parts import emit_embedding, emit_linear, time_first
from unspool.exchange.onnx.recurrence import emit_padding
from unspool.exchange.onnx.stack import AllStates, emit_stack, input_states, output_states
from unspool.runtime.network import Stack, Translator


def emit_encoder(network: Translator) -> GraphBuilder:
    """`tokens` (batch, time) and `lengths` in; the decoder's first states out, as `final_…`.

    With attention, `keys` and `memory` (batch, time, width) and `there` (batch, time), 1 within a source, are outputs.
    """
    graph = GraphBuilder()
    tokens = graph.input("tokens", INTEGER, ("batch", "time"))
    lengths = graph.input("lengths", INTEGER, ("batch",))
    x = emit_embedding(graph, network.source, time_first(graph, tokens, 2))
    found = emit_stack(graph, network.encoder, x, lengths)
    output_states(graph, network.decoder, _merge_directions(graph, network.encoder, found.finals))
    if network.keys is not None:
        memory = time_first(graph, found.output)
        keys = emit_linear(graph, network.keys, memory)
        graph.output("keys", keys, FLOAT, ("batch", "time", len(network.keys.weight)))
        graph.output("memory", memory, FLOAT, ("batch", "time", network.encoder.output_size))
        valid = graph.add("Squeeze", emit_padding(graph, x, lengths).valid, graph.integers([2]))
        there = graph.add("Cast", time_first(graph, valid, 2), to=1)
        graph.output("there", there, FLOAT, ("batch", "time"))
    return graph


def emit_decoder(network: Translator) -> GraphBuilder:
    """One step: `tokens` (batch,), the states and, with attention, what the encoder gave in; `log_probabilities` out.

    The encoder's `final_…` are the first step's `initial_…`, and each step's `final_…` are the next one's.
    """
    graph = GraphBuilder()
    tokens = graph.input("tokens", INTEGER, ("batch",))
    start = input_states(graph, network.decoder)
    x = emit_embedding(graph, network.target, graph.add("Unsqueeze", tokens, graph.integers([0])))
    found = emit_stack(graph, network.decoder, x, None, start)
    q = graph.add("Squeeze", found.output, graph.integers([0]))
    if network.keys is not None and network.mix is not None:
        seen = _attend(graph, network, q)
        q = graph.add("Tanh", emit_linear(graph, network.mix, graph.add("Concat", q, seen, axis=-1)))
    logits = emit_linear(graph, network.head, q)
    shape = ("batch", len(network.head.weight))
    graph.output("log_probabilities", graph.add("LogSoftmax", logits, axis=-1), FLOAT, shape)
    output_states(graph, network.decoder, found.finals)
    return graph


def _attend(graph: GraphBuilder, network: Translator, q: str) -> str:
    """Σ_s a_s m_s with a = softmax_s(q · keys_s / √width), over the steps of each source."""
    assert network.keys is not None
    width = len(network.keys.weight)
    keys = graph.input("keys", FLOAT, ("batch", "time", width))
    memory = graph.input("memory", FLOAT, ("batch", "time", network.encoder.output_size))
    there = graph.input("there", FLOAT, ("batch", "time"))
    scaled = graph.add("Mul", graph.add("Unsqueeze", q, graph.integers([1])), graph.floats(1 / math.sqrt(width)))
    scores = graph.add("MatMul", scaled, graph.add("Transpose", keys, perm=[0, 2, 1]))
    inside = graph.add("Unsqueeze", graph.add("Greater", there, graph.floats(0.5)), graph.integers([1]))
    masked = graph.add("Where", inside, scores, graph.floats(-1e30))
    weights = graph.add("Where", inside, graph.add("Softmax", masked, axis=-1), graph.floats(0.0))
    return graph.add("Squeeze", graph.add("MatMul", weights, memory), graph.integers([1]))


def _merge_directions(graph: GraphBuilder, encoder: Stack, finals: AllStates) -> AllStates:
    """One state per layer: of a bidirectional layer, the mean of its two."""
    merged: AllStates = []
    for layer, states in zip(encoder.layers, finals, strict=True):
        if len(layer.directions) == 1:
            merged.append(states)
        else:
            merged.append([[graph.add("Mean", *both) for both in zip(*states, strict=True)]])
    return merged
