"""Explanations of one example: what a model makes of it step by step, inside and outside, and which steps matter."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from unspool.data.vocabulary import Words
from unspool.errors import ArgumentError
from unspool.runtime.arithmetic import log_softmax
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.network import Array
from unspool.runtime.player import Player
from unspool.runtime.pooled import PooledPlayer
from unspool.runtime.run_player import RunPlayer
from unspool.runtime.stack import StackPlayer, States
from unspool.runtime.tagger import TaggerPlayer
from unspool.runtime.tracing import trace_stack
from unspool.tasks.batch import Batch, SpelledWords

#: Sequences that are read at once, and steps of one sequence: others have their turn in between.
TOGETHER, STRETCH = 8, 256

Found = TypeVar("Found")
#: An explanation in pieces: it yields when the example has been read and checked, and then after each piece of work.
Course = Generator[None, None, Found]


class TracedExample(NamedTuple):
    """What a model made of an example."""

    steps: list[str]  # its tokens, or its rows of numbers
    outputs: Array | None  # (time, width): what would be predicted after each step; None for a tag per word
    values: list[Array]  # for each channel (time, units)


class Importance(NamedTuple):
    """What each step does to the prediction after the last one."""

    steps: list[str]
    measure: str  # "kl", "probability" or "value"
    output: int | None  # the label, or the number, whose change is told; None: the distribution changes as a whole
    values: NDArray[np.float64]  # (time,); NaN for steps that were not left out


def main_stack(model: Player) -> StackPlayer | None:
    """The layers that read the steps of an example one to one; None where a model is not explained."""
    if isinstance(model, PooledPlayer):
        return model.members[0].stack
    return model.stack if isinstance(model, LanguagePlayer | TaggerPlayer) else None


def trace_example(player: RunPlayer, example: Any, most: int) -> TracedExample:
    """Read an example step by step.

    Args:
        player: A model of whole sequences, or of tags.
        example: A text, a sentence as a list of words, or rows of numbers, as `player.predict` takes it in a list.
        most: More steps are refused.

    Returns:
        Its steps, what would be predicted after each of them, and the values of the layers' channels.

    Raises:
        ArgumentError: The model is of another kind, or the example is too long.

    Example:
        traced = trace_example(unspool.load("runs/intents"), "play some jazz", 256)
    """
    return _complete(tracing_example(player, example, most))


def tracing_example(player: RunPlayer, example: Any, most: int) -> Course[TracedExample]:
    """As `trace_example`, in pieces."""
    model = player.model
    if isinstance(model, TaggerPlayer):
        batch = _batch(player, example, most)
        words = example.split() if isinstance(example, str) else list(example)
        yield
        return TracedExample(words, None, trace_stack(model.stack, model.read(batch.inputs)))
    if not isinstance(model, PooledPlayer):
        raise ArgumentError.of("model", player.task.name, "is not explained from an example", "Trace a session of it")
    batch = _batch(player, example, most)
    steps, member = _spell(player, example, batch.inputs), model.members[0]
    yield
    values = trace_stack(member.stack, member.read(batch.inputs))
    yield
    return TracedExample(steps, (yield from _after_each_step(model, batch.inputs)), values)


def weigh_steps(player: RunPlayer, example: Any, most: int) -> Importance:
    """Leave out one step after the other, and see what becomes of the prediction after the last.

    No gradient is needed, and nothing is approximated: each value is the difference that the step made.

    Args:
        player: A language model, or a model of whole sequences.
        example: A text, ids, or rows of numbers.
        most: How many of the last steps are left out in turn; models of whole sequences refuse more steps.

    Returns:
        For a language model, the Kullback-Leibler divergence in nats from the distribution of the next token to that
        without the step. For labels, how much less probable the predicted label becomes; for numbers, how much lower
        the first of them.

    Example:
        weigh_steps(unspool.load("runs/book"), "The cat sat on the ", 128).values
    """
    return _complete(weighing_steps(player, example, most))


def weighing_steps(player: RunPlayer, example: Any, most: int) -> Course[Importance]:
    """As `weigh_steps`, in pieces."""
    model = player.model
    if isinstance(model, LanguagePlayer):
        return (yield from _weigh_tokens(player, model, example, most))
    if not isinstance(model, PooledPlayer):
        raise ArgumentError.of("model", player.task.name, "has no steps to leave out", "Ask a model of texts or labels")
    inputs = _batch(player, example, most).inputs
    steps, spelled = _count(inputs), _spell(player, example, inputs)
    yield
    every = np.arange(steps)
    kept = np.stack([np.append(np.delete(every, place), 0) for place in every], 1)
    without = yield from _predict(model, inputs, kept, np.full(steps, steps - 1))
    whole = (yield from _predict(model, inputs, every[:, None], np.array([steps])))[0]
    numbers = model.network.output == "none"
    chosen = 0 if numbers else int(whole.argmax())
    measure = "value" if numbers else "probability"
    return Importance(spelled, measure, chosen, whole[chosen] - without[:, chosen])


def _complete(course: Course[Found]) -> Found:
    """The whole explanation at once."""
    while True:
        try:
            next(course)
        except StopIteration as end:
            return cast(Found, end.value)


def _weigh_tokens(player: RunPlayer, model: LanguagePlayer, example: Any, most: int) -> Course[Importance]:
    ids = np.asarray(player.encode(example))[:, 0]
    if not len(ids):
        raise ArgumentError.of("input", example, "has no token", "Give some text")
    steps = [player.decode([one]) for one in ids.tolist()]
    yield
    first = max(len(ids) - most, 0)
    window, start = ids[first:], model.initial_state(1)
    for place in range(0, first, STRETCH):  # tokens before the window are read, and stay
        _, start = model.predict(ids[place : min(place + STRETCH, first), None], start)
        yield
    values = np.full(len(ids), np.nan)
    if len(window) > 1:  # a single token leaves nothing to predict from
        every = np.arange(len(window))
        kept = np.stack([np.delete(every, place) for place in every], 1)
        whole = _log_probabilities(model, window[:, None], start)
        for place in range(0, len(window), TOGETHER):
            yield
            rows = window[kept[:, place : place + TOGETHER]]
            without = _log_probabilities(model, rows, repeat_states(start, rows.shape[1]))
            values[first + place :][: rows.shape[1]] = (np.exp(whole) * (whole - without)).sum(-1)
    return Importance(steps, "kl", None, values)


def repeat_states(states: States, rows: int) -> States:
    """The states of one sequence, for a batch of `rows`."""
    return tuple(tuple(tuple(np.repeat(one, rows, 0) for one in own) for own in layer) for layer in states)


def _log_probabilities(model: LanguagePlayer, ids: NDArray[np.int64], states: States) -> NDArray[np.float64]:
    logits, _ = model.predict(ids, states)
    return np.asarray(log_softmax(logits.astype(np.float64)))


def _batch(player: RunPlayer, example: Any, most: int) -> Batch:
    """One example as the model reads it."""
    batch: Batch = cast(Any, player.task).part_of([example]).batch(np.array([0]))
    steps = _count(batch.inputs)
    if steps > most:
        raise ArgumentError.of("input", steps, f"has more than {most} steps", "Give a shorter one")
    return batch


def _count(inputs: Any) -> int:
    return len(getattr(inputs, "ids", inputs))


def _after_each_step(model: PooledPlayer, inputs: Any) -> Course[Array]:
    """What would be predicted if the sequence ended after each of its steps."""
    steps = _count(inputs)
    places = np.broadcast_to(np.arange(steps)[:, None], (steps, steps))
    return (yield from _predict(model, inputs, places, np.arange(1, steps + 1)))


def _predict(model: PooledPlayer, inputs: Any, places: NDArray[np.int64], lengths: NDArray[np.int64]) -> Course[Array]:
    """Predictions for sequences of steps of one example: `places` (time, batch) says which, in their order."""
    found: list[Any] = []
    for first in range(0, places.shape[1], TOGETHER):
        own = slice(first, first + TOGETHER)
        batch = Batch(_pick(inputs, places[:, own]), lengths[own], None, 1.0)
        found += model.predictions(model.score(batch).levels[-1], batch)
        yield
    return np.stack(found)


def _pick(inputs: Any, places: NDArray[np.int64]) -> Any:
    """Steps of one example in another order, (time, batch, …)."""
    if not isinstance(inputs, SpelledWords):
        return np.asarray(inputs)[places, 0]
    forms, *ngrams = inputs.spell()
    return SpelledWords(np.asarray(inputs.ids)[places, 0], lambda: (np.asarray(forms)[places, 0], *ngrams))


def _spell(player: RunPlayer, example: Any, inputs: Any) -> list[str]:
    """The steps of an example for people."""
    if not isinstance(example, str):
        return [_spell_row(row) for row in example]
    vocabulary = cast(Any, player.task).inputs.vocabulary
    ids = np.asarray(getattr(inputs, "ids", inputs))[:, 0].tolist()
    if isinstance(vocabulary, Words):  # a word that the model does not know is shown as it was written
        words = vocabulary.split(example)
        if len(words) == len(ids):
            return words
    return [vocabulary.decode([one]) for one in ids]


def _spell_row(row: Any) -> str:
    return ", ".join(f"{float(one):.4g}" for one in np.atleast_1d(np.asarray(row, np.float64)))
