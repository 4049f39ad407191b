"""What the graphs of a network must give, by the players on NumPy arrays: the other side of the check."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from unspool.exchange.onnx.graph import Array
from unspool.exchange.onnx.names import state_names
from unspool.runtime.arithmetic import sigmoid, softmax
from unspool.runtime.embedding import embed
from unspool.runtime.forecaster import ForecasterPlayer
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator
from unspool.runtime.pooled import PooledPlayer
from unspool.runtime.stack import StackPlayer, States
from unspool.runtime.tagger import TaggerPlayer
from unspool.runtime.translator import Decoding, TranslatorPlayer

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
    """The outputs of a network's graph by name; of a translator's encoder, or of its decoder for one token each."""
    match network:
        case Language():
            return _language(network, given)
        case Pooled():
            return _pooled(network, given)
        case Tagger():
            return _tagger(network, given)
        case Forecaster():
            past = tuple(given[name].swapaxes(0, 1) for name in ("past", "future"))
            scores = ForecasterPlayer(network).score(SimpleNamespace(inputs=(*past, given["unit"]))).levels[-1]
            return {"quantiles": scores.swapaxes(0, 1)}
        case Translator():
            return _decode(network, given) if given["tokens"].ndim == 1 else _encode(network, given)


def _language(network: Language, given: Values) -> dict[str, Array]:
    player = LanguagePlayer(network)
    output, finals = player.stack.run(embed(network.embedding, given["tokens"].T), given_states(network.stack, given))
    logits = player.head(output).swapaxes(0, 1)
    return {"probabilities": softmax(logits), "logits": logits, **named_states(network.stack, finals)}


def _pooled(network: Pooled, given: Values) -> dict[str, Array]:
    inputs: Any = given["x"].swapaxes(0, 1) if "x" in given else given["tokens"].T
    if "ngrams" in given:
        counts, rows = given["ngram_counts"], given["ngrams"]
        flat = np.concatenate([row[:count] for row, count in zip(rows, counts, strict=True)])
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        spelling = given["forms"].T, flat, starts
        inputs = SimpleNamespace(ids=inputs, spell=lambda: spelling)
    scores = PooledPlayer(network).score(SimpleNamespace(inputs=inputs, lengths=given["lengths"])).levels[-1]
    likely = {"softmax": softmax, "sigmoid": sigmoid}.get(network.output)
    return {"scores": scores, **({} if likely is None else {"probabilities": likely(scores)})}


def _tagger(network: Tagger, given: Values) -> dict[str, Array]:
    inputs = SimpleNamespace(ids=given["tokens"].T)
    if "forms" in given:
        inputs.forms, inputs.characters = given["forms"].T, given["characters"].T
        inputs.lengths = given["character_lengths"]
    scores = TaggerPlayer(network).score(SimpleNamespace(inputs=inputs, lengths=given["lengths"])).levels[-1]
    tags = scores if network.label is None else scores.tags
    found = {"emissions": tags.swapaxes(0, 1)}
    if network.crf is None:
        found["probabilities"] = softmax(found["emissions"])
    if network.label is not None:
        found |= {"label_scores": scores.labels, "label_probabilities": softmax(scores.labels)}
    return found


def _encode(network: Translator, given: Values) -> dict[str, Array]:
    state = TranslatorPlayer(network).encode(given["tokens"].T, given["lengths"])
    found = named_states(network.decoder, state.states)
    if state.keys is not None and state.memory is not None and state.there is not None:
        found |= {"keys": state.keys, "memory": state.memory, "there": state.there.astype(np.float32)}
    return found


def _decode(network: Translator, given: Values) -> dict[str, Array]:
    states = given_states(network.decoder, given)
    assert states is not None
    past = (given["keys"], given["memory"], given["there"] > 0.5) if "keys" in given else ()
    log_p, after = TranslatorPlayer(network).step(Decoding(states, *past), given["tokens"])
    return {"log_probabilities": log_p, **named_states(network.decoder, after.states)}
