"""What an exported model is given for texts, sentences and numbers, by the names of its inputs; it needs no onnx."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.exchange.onnx.names import state_names
from unspool.runtime.network import Array, Forecaster, Language, Pooled, Stack
from unspool.runtime.run_player import RunPlayer


def make_inputs(player: RunPlayer, examples: Any) -> dict[str, Array]:
    """The inputs of the exported model of a run, by name.

    Args:
        player: What `unspool.load` gives for the run.
        examples: As `player.predict` takes them; one text, or ids, for a language model.

    Returns:
        Arrays; the batch comes first, and numbers are standardized.
    """
    network = player.network
    if isinstance(network, Language):
        return {"tokens": player.encode(examples).T, **_initial_states(network.stack)}
    part = player.task.part_of(examples)  # type: ignore[attr-defined]
    batch = part.batch(np.arange(len(part.lengths)))
    if isinstance(network, Forecaster):
        past, future, unit = (np.asarray(one, np.float32) for one in batch.inputs[:3])
        return {"past": past.swapaxes(0, 1), "future": future.swapaxes(0, 1), "unit": unit}
    lengths = {"lengths": np.asarray(batch.lengths, np.int64)}
    if isinstance(network, Pooled):
        return {**_pooled(network, batch.inputs), **lengths}
    if not hasattr(batch.inputs, "ids"):
        return {"tokens": _integers(batch.inputs).T, **lengths}  # of a translator's encoder
    return {"tokens": _integers(batch.inputs.ids).T, **lengths, **_characters(batch.inputs)}


def _initial_states(stack: Stack) -> dict[str, Array]:
    """The states before the first step: learned, or zeros."""
    found = {}
    for layer, of_layer in zip(stack.layers, state_names(stack), strict=True):
        for one, names in zip(layer.directions, of_layer, strict=True):
            values = one.initial or tuple(np.zeros(size) for size in one.state_sizes)
            for name, value in zip(names, values, strict=True):
                found[f"initial_{name}"] = np.asarray(value, np.float32)[None]
    return found


def _pooled(network: Pooled, inputs: Any) -> dict[str, Array]:
    embedding = network.members[0].embedding
    if embedding is None:
        return {"x": np.asarray(inputs, np.float32).swapaxes(0, 1)}
    tokens = {"tokens": _integers(getattr(inputs, "ids", inputs)).T}
    return tokens if embedding.ngrams is None else {**tokens, **_spelled(inputs, len(embedding.ngrams))}


def _spelled(inputs: Any, rows: int) -> dict[str, Array]:
    """Which of the batch's different words each is, and the n-grams of these, one row for each, filled up with 0."""
    forms, hashes, starts = (np.asarray(one) for one in inputs.spell())
    counts = np.diff(np.append(starts, len(hashes)))
    inside = np.arange(counts.max(initial=0)) < counts[:, None]
    ngrams = np.zeros(inside.shape, np.int64)
    ngrams[inside] = hashes % rows
    return {"forms": _integers(forms).T, "ngrams": ngrams, "ngram_counts": _integers(counts)}


def _characters(words: Any) -> dict[str, Array]:
    if getattr(words, "characters", None) is None:
        return {}
    return {
        "forms": _integers(words.forms).T,
        "characters": _integers(words.characters).T,
        "character_lengths": _integers(words.lengths),
    }


def _integers(given: Any) -> Array:
    return np.asarray(given, np.int64)
