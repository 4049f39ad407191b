"""Generation with a language model: sampling and beam search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from unspool.cells.cell import check_size
from unspool.decoding.sampling import (
    Ids,
    Sampling,
    check_ids,
    check_logits,
    is_finite,
    log_softmax,
    without,
)
from unspool.decoding.sequences import Beams
from unspool.decoding.states import take_rows
from unspool.errors import ArgumentError, ShapeError


class Predictor(Protocol):
    """A language model as generation sees it, in evaluation mode."""

    def predict(self, ids: Ids, state: Any) -> tuple[NDArray[Any], Any]:
        """The logits (batch, vocabulary) of the token after the last of `ids` (time, batch), and the new state.

        The state is any nesting of tuples and lists of arrays, or of tensors, whose first axis is the batch; None is
        the state before the first token.
        """
        ...


def generate(
    model: Predictor, prompt: Sequence[int], count: int, sampling: Sampling, generator: np.random.Generator
) -> Iterator[int]:
    """Sample a continuation.

    Args:
        model: The language model.
        prompt: Ids of the prompt, one at least.
        count: How many ids to sample.
        sampling: How they are sampled.
        generator: The source of random numbers.

    Returns:
        An iterator over the ids, each as soon as it is sampled.

    Example:
        list(generate(model, vocabulary.ids("The "), 80, Sampling(0.8), np.random.default_rng(0)))
    """
    return _generate(model, _read_prompts("prompt", [prompt]), check_size("count", count), sampling, generator)


def _generate(
    model: Predictor, ids: Ids, count: int, sampling: Sampling, generator: np.random.Generator
) -> Iterator[int]:
    state = None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        ids = sampling.draw(logits, generator.random(1))[None]
        yield int(ids[0, 0])


def generate_many(
    model: Predictor,
    prompts: Sequence[int] | Sequence[Sequence[int]],
    samples: int,
    count: int,
    sampling: Sampling,
    generator: np.random.Generator,
    stop_id: int | None = None,
) -> list[list[int]]:
    """Sample several continuations at once.

    What a sample draws depends on the generator, on `samples` and on its own past, not on when the others stop.

    Args:
        model: The language model.
        prompts: One prompt for all samples, or one per sample, all of the same length.
        samples: How many continuations.
        count: The most ids of each.
        sampling: How ids are sampled.
        generator: The source of random numbers.
        stop_id: The id at which a continuation ends, which is left out.

    Returns:
        The ids of each continuation.
    """
    check_size("samples", samples)
    check_size("count", count)
    _check_stop(stop_id, sampling.banned)
    ids = _spread_prompts(prompts, samples)
    written: list[list[int]] = [[] for _ in range(samples)]
    live, state = np.arange(samples), None
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        drawn = sampling.draw(logits, generator.random(samples)[live])
        continues = np.flatnonzero(drawn != (-1 if stop_id is None else stop_id))
        if len(continues) < len(live):
            live, drawn, state = live[continues], drawn[continues], take_rows(state, continues)
        for sample, token in zip(live.tolist(), drawn.tolist(), strict=True):
            written[sample].append(token)
        if not len(live):
            break
        ids = drawn[None]
    return written


def _spread_prompts(prompts: Sequence[int] | Sequence[Sequence[int]], samples: int) -> Ids:
    """One prompt for all samples, or one per sample, as (time, batch)."""
    if len(prompts) == 0 or np.ndim(prompts[0]) == 0:
        return _read_prompts("prompts", [cast(Sequence[int], prompts)]).repeat(samples, axis=1)
    ids = _read_prompts("prompts", cast(Sequence[Sequence[int]], prompts))
    if len(prompts) != samples:
        problem = f"is not the number of prompts, {len(prompts)}"
        raise ArgumentError.of("samples", samples, problem, "Give one prompt per sample")
    return ids


def beam_search(
    model: Predictor,
    prompt: Sequence[int],
    count: int,
    width: int,
    stop_id: int | None = None,
    length_penalty: float = 0.0,
    banned: Sequence[int] = (),
) -> list[tuple[float, list[int]]]:
    """Search for the most probable continuations.

    A beam that reaches `stop_id` is done and keeps its place, while the others continue up to `count` ids. The stop id
    counts in the probability and in the length, but is not among the ids. Log-probabilities are the model's own:
    banned ids are skipped, and their probability is not redistributed.

    Args:
        model: The language model.
        prompt: Ids of the prompt, one at least.
        count: The most ids of a continuation.
        width: The number of beams.
        stop_id: The id at which a continuation ends.
        length_penalty: Continuations are ranked by log-probability / length**length_penalty.
        banned: Ids that never occur.

    Returns:
        Pairs of log-probability and ids, the best first; fewer than `width` where there are fewer sequences.
    """
    check_size("count", count)
    check_size("width", width)
    if not (is_finite(length_penalty) and length_penalty >= 0):
        raise ArgumentError.of("length_penalty", length_penalty, "is not a number from 0 on", "Give 0 for none")
    _check_stop(stop_id, check_ids("banned", banned))
    ids, state = _read_prompts("prompt", [prompt]), None
    beams = Beams(width, stop_id, count, length_penalty, best=width)
    for _ in range(count):
        logits, state = _predict(model, ids, state)
        _check_stop(stop_id, (), logits.shape[1])
        parents = beams.grow(without(log_softmax(check_logits(logits)), banned))
        if not beams.live:
            break
        ids, state = np.array([[beam.tokens[-1] for beam in beams.live]], np.int64), take_rows(state, np.array(parents))
    if not beams.live and not beams.done:
        raise ArgumentError.of("banned", tuple(banned), "leaves no possible token", "Ban fewer")
    return [(beam.log_probability, list(beam.tokens)) for beam in beams.ranked()]


def _predict(model: Predictor, ids: Ids, state: Any) -> tuple[NDArray[Any], Any]:
    """One call of the model."""
    logits, state = model.predict(ids, state)
    if logits.ndim != 2 or len(logits) != ids.shape[1]:
        remedy = "Let `predict` give the logits after the last token"
        raise ShapeError.of("logits", tuple(logits.shape), f"is not ({ids.shape[1]}, vocabulary)", remedy)
    return logits, state


def _read_prompts(name: str, prompts: Sequence[Sequence[int]]) -> Ids:
    """Prompts of one length as (time, batch)."""
    ids = [check_ids(name, prompt) for prompt in prompts]
    if lengths := {len(one) for one in ids} - {len(ids[0])}:
        problem = f"are not of one length: {len(ids[0])} and {min(lengths)}"
        raise ShapeError.of(name, prompts, problem, "Generate from those of each length separately")
    if not ids[0]:
        raise ArgumentError.of(name, prompts[0], "has no ids", "Give at least one, such as that of a new line")
    return np.array(ids, np.int64).T


def _check_stop(stop_id: int | None, banned: Sequence[int], size: int | None = None) -> None:
    """Refuse a stop id that can never occur."""
    if stop_id is None:
        return
    check_size("stop_id", stop_id, 0)
    if stop_id in banned:
        raise ArgumentError.of("stop_id", stop_id, "is banned, so that nothing would stop", "Take it out of `banned`")
    if size is not None and stop_id >= size:
        raise ArgumentError.of("stop_id", stop_id, f"is not in the vocabulary of {size}", f"Give an id below {size}")
