"""What the graphs of a network must give, by the player's parts on NumPy arrays: the other side of the check."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unspool.exchange.onnx.forecaster import LEAST_DEVIATION
from unspool.exchange.onnx.graph import Array
from unspool.exchange.onnx.stack import state_names
from unspool.runtime.arithmetic import apply_linear, log_softmax, masked_softmax, sigmoid, softmax, softplus
from unspool.runtime.network import (
    Embedding,
    Forecaster,
    Language,
    Member,
    Network,
    Pooled,
    Pooling,
    Stack,
    Tagger,
    Translator,
)
from unspool.runtime.pooling import pool
from unspool.runtime.stack import StackPlayer, States

Values = Mapping[str, Array]


def expect_layers(stack: Stack, given: Values, batch_first: bool = False) -> dict[str, Array]:
    """The outputs of `models.emit_layers` by name."""
    x = given["x"].swapaxes(0, 1) if batch_first else given["x"]
    output, finals = StackPlayer(stack).run(x, given_states(stack, given), given.get("lengths"))
    return {"output": output.swapaxes(0, 1) if batch_first else output, **named_states(stack, finals)}


def given_states(stack: Stack, given: Values) -> States | None:
    """The inputs that are states, as the player takes them; None if there are none."""
    if not any(name.startswith("initial_") for name in given):
        return None
    return tuple(
        tuple(tuple(given[f"initial_{name}"] for name in names) for names in of_layer)
        for of_layer in state_names(stack)
    )


def named_states(stack: Stack, states: States) -> dict[str, Array]:
    """States by the names of the outputs that they are."""
    names = [name for of_layer in state_names(stack) for direction in of_layer for name in direction]
    values = [value for of_layer in states for direction in of_layer for value in direction]
    return {f"final_{name}": value for name, value in zip(names, values, strict=True)}


def expect_network(network: Network, given: Values) -> dict[str, Array]:
    """The outputs of a network's graph by name; of a translator's encoder, or, where there are states, its decoder."""
    if isinstance(network, Language):
        return _language(network, given)
    if isinstance(network, Pooled):
        return _pooled(network, given)
    if isinstance(network, Tagger):
        return _tagger(network, given)
    if isinstance(network, Forecaster):
        return {"quantiles": _forecast(network, given).swapaxes(0, 1)}
    return _decode(network, given) if given["tokens"].ndim == 1 else _encode(network, given)


def _embed(embedding: Embedding, tokens: Array, given: Values) -> Array:
    """(time, batch, width) from tokens (batch, time)."""
    vectors = embedding.weight[tokens.T]
    if embedding.ngrams is None:
        return np.asarray(vectors)
    counts = given["ngram_counts"]
    inside = np.arange(given["ngrams"].shape[1]) < counts[:, None]
    sums = (embedding.ngrams[given["ngrams"]] * inside[..., None]).sum(1)
    return np.asarray(vectors + (sums / np.maximum(counts, 1)[:, None])[given["forms"].T])


def _language(network: Language, given: Values) -> dict[str, Array]:
    x = _embed(network.embedding, given["tokens"], given)
    output, finals = StackPlayer(network.stack).run(x, given_states(network.stack, given))
    features = output if network.projection is None else apply_linear(network.projection, output)
    logits = apply_linear(network.head, features).swapaxes(0, 1)
    return {"probabilities": softmax(logits), "logits": logits, **named_states(network.stack, finals)}


def _pooled(network: Pooled, given: Values) -> dict[str, Array]:
    each = [_member(member, given) for member in network.members]
    scores = each[0]
    if len(each) > 1:
        scores = np.log(np.mean([softmax(one) for one in each], 0))
    likely = {"softmax": softmax, "sigmoid": sigmoid}.get(network.output)
    return {"scores": scores, **({} if likely is None else {"probabilities": likely(scores)})}


def _member(member: Member, given: Values) -> Array:
    x = given["x"].swapaxes(0, 1) if member.embedding is None else _embed(member.embedding, given["tokens"], given)
    h, _ = StackPlayer(member.stack).run(x, lengths=given["lengths"])
    if member.merger is not None:
        past = [np.concatenate((np.zeros_like(x[:lag]), x))[: len(x)] for lag in range(member.window)]
        h = np.maximum(apply_linear(member.merger, np.concatenate((h, *past), -1)), 0)
    return apply_linear(member.head, pool(member.pooling, h, given["lengths"]))


def _tagger(network: Tagger, given: Values) -> dict[str, Array]:
    lengths, v = given["lengths"], _embed(network.words, given["tokens"], given)
    if network.speller is not None and network.letters is not None:
        ends = given["character_lengths"]
        spelled, _ = StackPlayer(network.speller).run(network.letters.weight[given["characters"].T], lengths=ends)
        last = pool(Pooling("last", True, None, None), spelled, ends)
        v = np.concatenate((v, last[given["forms"].T]), -1)
    h, _ = StackPlayer(network.stack).run(v, lengths=lengths)
    emissions = apply_linear(network.head, h).swapaxes(0, 1)
    found = {"emissions": emissions}
    if network.crf is None:
        found["probabilities"] = softmax(emissions)
    if network.label is not None:
        found["label_scores"] = apply_linear(network.label.head, pool(network.label.pooling, h, lengths))
        found["label_probabilities"] = softmax(found["label_scores"])
    return found


def _forecast(network: Forecaster, given: Values) -> Array:
    past, future, unit = given["past"].swapaxes(0, 1), given["future"].swapaxes(0, 1), given["unit"]
    values, others = past[..., : network.targets], past[..., network.targets :]
    horizon, rows, _ = future.shape
    base, size = np.zeros((1, rows, network.targets)), np.ones((rows, network.targets))
    if network.season:
        base = values[len(values) - network.season + np.arange(horizon) % network.season]
        size = np.sqrt(values.var(0) + (LEAST_DEVIATION * unit) ** 2)
        values = (values - values[-1]) / size
    h, _ = StackPlayer(network.stack).run(np.concatenate((values, others), -1))
    context = np.broadcast_to(pool(network.pooling, h), (horizon, rows, h.shape[-1]))
    place = np.broadcast_to((np.arange(1, horizon + 1) / horizon)[:, None, None], (horizon, rows, 1))
    x = np.concatenate((context, place, future), -1).astype(past.dtype)
    raw = apply_linear(network.head, StackPlayer(network.decoder).run(x)[0])
    raw = raw.reshape(horizon, rows, network.targets, len(network.quantiles))
    return base[..., None] + size[..., None] * _spread(raw, network.quantiles.index(0.5))


def _spread(raw: Array, middle: int) -> Array:
    median = raw[..., middle : middle + 1]
    up = softplus(raw[..., middle + 1 :]).cumsum(-1)
    down = softplus(raw[..., :middle])[..., ::-1].cumsum(-1)[..., ::-1]
    return np.concatenate((median - down, median, median + up), -1)


def _encode(network: Translator, given: Values) -> dict[str, Array]:
    x = _embed(network.source, given["tokens"], given)
    output, finals = StackPlayer(network.encoder).run(x, lengths=given["lengths"])
    means = tuple((tuple(np.mean(both, 0) for both in zip(*layer, strict=True)),) for layer in finals)
    found = named_states(network.decoder, means)
    if network.keys is not None:
        memory = output.swapaxes(0, 1)
        there = np.arange(memory.shape[1]) < given["lengths"][:, None]
        found |= {"keys": apply_linear(network.keys, memory), "memory": memory, "there": there.astype(np.float32)}
    return found


def _decode(network: Translator, given: Values) -> dict[str, Array]:
    x = _embed(network.target, given["tokens"][:, None], given)
    output, finals = StackPlayer(network.decoder).run(x, given_states(network.decoder, given))
    q = output[0]
    if network.keys is not None and network.mix is not None:
        scores = np.einsum("bw,btw->bt", q, given["keys"]) / np.sqrt(q.shape[-1])
        weights = masked_softmax(scores, given["there"] > 0.5)
        seen = np.einsum("bt,btw->bw", weights, given["memory"])
        q = np.tanh(apply_linear(network.mix, np.concatenate((q, seen), -1)))
    logits = apply_linear(network.head, q)
    return {"log_probabilities": log_softmax(logits), **named_states(network.decoder, finals)}
