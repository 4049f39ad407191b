"""What a compiled model and its player answer for the sequences of a batch, in the same form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.exchange.c.compiled import Model, as_floats, as_ids, floats

from unspool.runtime.network import Forecaster, Language, Pooled, Tagger, Translator

Answers = list[Any]


def _language(model: Model, network: Language, batch: Any) -> Answers:
    """Logits after every token of each sequence."""
    ids, found = as_ids(batch[0]), []
    tokens = network.embedding.weight.shape[0]
    for row in ids.T:
        model.start()
        logits = floats(len(row), tokens)
        for step, token in enumerate(row):
            model("step", np.int32(token), logits[step])
        found.append(logits)
    return found


def _play_language(player: Any, network: Language, batch: Any) -> Answers:
    found = []
    for row in np.asarray(batch[0]).T:
        state, logits = player.initial_state(1), []
        for token in row:
            one, state = player.predict(np.array([[token]]), state)
            logits.append(one[0])
        found.append(np.stack(logits))
    return found


def _pooled(model: Model, network: Pooled, batch: Any) -> Answers:
    found = []
    member = network.members[0]
    streamed = hasattr(model.library, f"{model.name}_step")
    for row, length in enumerate(batch.lengths.tolist()):
        model.start()
        y = floats(member.head.weight.shape[0])
        if member.embedding is None:
            steps: Any = as_floats(batch.inputs[:length, row])
        else:
            steps = as_ids(getattr(batch.inputs, "ids", batch.inputs)[:length, row])
        if hasattr(batch.inputs, "spell"):
            _run_spelled(model, steps, _hashes(batch.inputs, row, length), y, streamed)
        elif streamed:
            model("run", steps, length, y)
        else:
            model("run", steps, length, y, model.workspace(length))
        found.append(y)
    return found


def _hashes(words: Any, row: int, length: int) -> list[Any]:
    forms, hashes, starts = words.spell()
    ends = [*starts[1:], len(hashes)]
    return [np.array(hashes[starts[form] : ends[form]], np.uint32) for form in forms[:length, row]]


def _run_spelled(model: Model, ids: Any, hashes: list[Any], y: Any, streamed: bool) -> None:
    if streamed:
        for token, each in zip(ids, hashes, strict=True):
            model("step", np.int32(token), each, len(each))
        model("output", y)
        return
    every = np.concatenate([*hashes, np.zeros(0, np.uint32)]).astype(np.uint32)
    counts = np.array([len(each) for each in hashes], np.uint64)
    model("run", ids, every, counts, len(ids), y, model.workspace(len(ids)))


def _tag(model: Model, network: Tagger, batch: Any) -> Answers:
    """Tags and scores of each sentence, and the probabilities of its labels."""
    found, words = [], batch.inputs
    for row, length in enumerate(batch.lengths.tolist()):
        model.start()
        forms = words.forms[:length, row]
        counts = np.asarray(words.lengths)[forms].astype(np.uint64)
        letters = [words.characters[:count, form] for form, count in zip(forms, counts.tolist(), strict=True)]
        flat = as_ids(np.concatenate([*letters, np.zeros(0, np.int32)]))
        spelled: tuple[Any, ...] = () if network.speller is None else (flat, counts)
        longest = () if network.speller is None else (int(counts.max(initial=0)),)
        tags = np.full(length, -1, np.int32)
        label = () if network.label is None else (floats(len(network.label.head.weight)),)
        workspace = model.workspace(length, *longest)
        model("run", as_ids(words.ids[:length, row]), *spelled, length, tags, *label, workspace)
        width, count = network.stack.input_size, len(network.head.weight)
        scores = workspace[length * width : length * (width + count)].reshape(length, count)
        found.append([tags.astype(np.int64), scores, *label])
    return found


def _play_tag(player: Any, network: Tagger, batch: Any) -> Answers:
    (scores,) = player.score(batch).levels
    found = []
    for row, prediction in enumerate(player.predictions(scores, batch)):
        length = int(batch.lengths[row])
        joint = network.label is not None
        each = (scores.tags if joint else scores)[:length, row]
        tags = prediction.tags.tags if joint else prediction.tags
        found.append([tags, each, *([prediction.labels] if joint else [])])
    return found


def _forecast(model: Model, network: Forecaster, batch: Any) -> Answers:
    past, future, unit = (as_floats(np.swapaxes(one, 0, 1)) for one in (*batch.inputs[:2], batch.inputs[2].T))
    found = []
    for row in range(len(past)):
        model.start()
        y = floats(future.shape[1], network.targets, len(network.quantiles))
        sizes = past.shape[1], future.shape[1]
        workspace = model.workspace(*sizes)
        model("run", past[row], sizes[0], future[row], sizes[1], unit[row], y, workspace)
        found.append(y)
    return found


def _translate(model: Model, network: Translator, batch: Any) -> Answers:
    found = []
    for row, length in enumerate(batch.lengths.tolist()):
        model.start()
        target = np.full(network.longest, -1, np.int32)
        source = as_ids(batch.inputs[:length, row])
        room = model.workspace(length)
        count = model("run", source, length, target, len(target), room, restype=ctypes.c_size_t)
        found.append(target[:count].astype(np.int64))
    return found


def _play_translate(player: Any, network: Translator, batch: Any) -> Answers:
    return [np.array(one.tokens, np.int64) for one in player.predictions(player.score(batch).levels[-1], batch)]


def _play(player: Any, network: Any, batch: Any) -> Answers:
    return list(player.predictions(player.score(batch).levels[-1], batch))


Call = Callable[[Any, Any, Any], Answers]
#: For each kind of network, what calls the compiled model and what calls the player.
CALLS: dict[type, tuple[Call, Call]] = {
    Language: (_language, _play_language),
    Pooled: (_pooled, _play),
    Tagger: (_tag, _play_tag),
    Forecaster: (_forecast, _play),
    Translator: (_translate, _play_translate),
}
