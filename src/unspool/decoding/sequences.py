"""Decoding with an encoder–decoder: one sequence per source, token by token, or the best of several beams."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unspool.cells.cell import check_size
from unspool.decoding.sampling import Floats, Ids, draw_places, find_highest
from unspool.decoding.states import take_rows
from unspool.errors import ArgumentError, DivergenceError

#: From a state and the last token of each sequence to the log-probabilities (batch, tokens) of the next, and a state.
Step = Callable[[Any, Ids], tuple[Floats, Any]]
#: From log-probabilities, the places of their sequences in the batch, and the number of the step to a token of each.
Choice = Callable[[Floats, Ids, int], Ids]


@dataclass(frozen=True)
class Decoded:
    """A sequence that a decoder generated.

    Attributes:
        tokens: without start and end.
        log_probability: what the model assigns to the tokens, and to the end if it was reached. Temperature and length
            penalty do not change it.
        finished: whether the end was reached.
    """

    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0
    finished: bool = False

    def then(self, token: int, log_probability: float, end: int | None) -> Decoded:
        """This sequence with one more token; the log-probability is that of the longer sequence."""
        if token == end:
            return replace(self, log_probability=log_probability, finished=True)
        return Decoded((*self.tokens, token), log_probability)


@dataclass(frozen=True)
class Decoder:
    """A decoder that never chooses `start` or `padding`, and ends a sequence with `end`.

    Args:
        step: The model.
        start: The token before every sequence.
        end: The token after it.
        padding: The token beyond the end.

    Example:
        Decoder(step, start=1, end=2, padding=0).write(state, batch_size=8, max_length=20)
    """

    step: Step
    start: int
    end: int
    padding: int

    def write(self, state: Any, batch_size: int, max_length: int, choose: Choice | None = None) -> list[Decoded]:
        """One sequence per source.

        Args:
            state: The state before the first token.
            batch_size: The number of sources.
            max_length: The most steps, that of the end included.
            choose: How tokens are chosen; None: the likeliest ones.
        """
        choose = choose or choose_likeliest
        written = [Decoded()] * batch_size
        rows, tokens = np.arange(batch_size), np.full(batch_size, self.start)
        for t in range(max_length):
            if not len(rows):
                break
            log_p, state = self._choices(state, tokens)
            tokens = choose(log_p, rows, t)
            gains = np.take_along_axis(log_p, tokens[:, None], 1)[:, 0]
            for row, token, gain in zip(rows.tolist(), tokens.tolist(), gains.tolist(), strict=True):
                written[row] = written[row].then(token, written[row].log_probability + gain, self.end)
            live = np.flatnonzero(tokens != self.end)
            rows, tokens, state = rows[live], tokens[live], take_rows(state, live)
        return written

    def search(
        self,
        state: Any,
        batch_size: int,
        max_length: int,
        *,
        width: int = 4,
        length_penalty: float = 0.0,
        best: int = 1,
    ) -> list[list[Decoded]]:
        """The best sequences that `width` beams find for each source, the best one first.

        Args:
            state: The state before the first token.
            batch_size: The number of sources.
            max_length: The most steps, that of the end included.
            width: The number of beams.
            length_penalty: Beams are ranked by log_probability / length**length_penalty, the end counting as a token.
            best: How many are wanted: a search ends as soon as these are certain.
        """
        searches = [Beams(width, self.end, max_length, length_penalty, best) for _ in range(batch_size)]
        for _ in range(max_length):
            last = [beam.tokens[-1] if beam.tokens else self.start for search in searches for beam in search.live]
            if not last:
                break
            log_p, state = self._choices(state, np.array(last, np.int64))
            state = take_rows(state, np.array(_grow(searches, log_p), np.int64))
        return [search.ranked()[:best] for search in searches]

    def _choices(self, state: Any, tokens: Ids) -> tuple[Floats, Any]:
        """`step` in float64, with −∞ for tokens that must not be chosen."""
        found, state = self.step(state, tokens)
        log_p = found.astype(np.float64)
        if np.isnan(log_p).any():
            raise DivergenceError("the model gives NaN for log-probabilities: training may have diverged")
        log_p[:, [token for token in (self.start, self.padding) if token != self.end]] = -math.inf
        return log_p, state


def choose_likeliest(log_p: Floats, rows: Ids, t: int) -> Ids:  # noqa: ARG001
    """The likeliest token of each sequence; of equal ones the first."""
    found: Ids = log_p.argmax(-1)
    return found


def choose_at_random(uniform: Floats, temperature: float) -> Choice:
    """Tokens drawn with the model's probabilities.

    Args:
        uniform: Random numbers (batch, steps) from 0 to below 1.
        temperature: Divides the logits; above 0.
    """

    @np.errstate(over="ignore")
    def choose(log_p: Floats, rows: Ids, t: int) -> Ids:
        highest = log_p.max(-1, keepdims=True)  # taken off first, so that no temperature sends all of them to −∞
        return draw_places(np.exp((log_p - highest) / temperature), uniform[rows, t])

    return choose


def check_beams(width: int, length_penalty: float, best: int | None = None) -> None:
    """Refuse what `search` cannot do."""
    check_size("width", width)
    if best is not None and check_size("best", best) > width:
        raise ArgumentError.of("best", best, f"is more than the {width} beams", "Raise `width`")
    if not (isinstance(length_penalty, int | float) and math.isfinite(length_penalty) and length_penalty >= 0):
        raise ArgumentError.of("length_penalty", length_penalty, "is not a number from 0 on", "Give 0 for none")


@dataclass
class Beams:
    """One search: the beams that are still growing, and those that are done and keep their places.

    Args:
        width: The number of beams.
        end: The token that ends a sequence; None: none does.
        max_length: The most tokens of a sequence, that of the end included.
        length_penalty: Beams are ranked by log_probability / length**length_penalty, the end counting as a token.
        best: How many are wanted: a search ends as soon as these are certain.
    """

    width: int
    end: int | None
    max_length: int
    length_penalty: float
    best: int
    live: list[Decoded] = field(default_factory=lambda: [Decoded()])
    done: list[Decoded] = field(default_factory=list)

    def grow(self, log_p: Floats) -> list[int]:
        """Extend the live beams by the likeliest next tokens. Returns which beam each new live one came from."""
        totals = (log_p + np.array([beam.log_probability for beam in self.live])[:, None]).ravel()
        places = find_highest(totals, self.width - len(self.done))
        grown, parents = [], []
        for total, place in zip(totals[places].tolist(), places.tolist(), strict=True):
            parent, token = divmod(place, log_p.shape[1])
            beam = self.live[parent].then(token, total, self.end)
            if beam.finished:
                self.done.append(beam)
            else:
                grown.append(beam)
                parents.append(parent)
        self.live = grown
        if self._settled():
            self.live, parents = [], []
        return parents

    def ranked(self) -> list[Decoded]:
        """All beams, the best first."""
        return sorted(self.done + self.live, key=self._score, reverse=True)

    def _score(self, beam: Decoded) -> float:
        """Log-probability / length**length_penalty. The first step makes every beam at least one long."""
        return beam.log_probability * math.pow(len(beam.tokens) + beam.finished, -self.length_penalty)

    def _settled(self) -> bool:
        """Whether no live beam can still be among the best: log-probabilities only fall, lengths have a limit."""
        if len(self.done) < self.best:
            return False
        likeliest = max((beam.log_probability for beam in self.live), default=-math.inf)
        hope = likeliest * math.pow(self.max_length, -self.length_penalty)
        return sorted(map(self._score, self.done), reverse=True)[self.best - 1] >= hope


def _grow(searches: Sequence[Beams], log_p: Floats) -> list[int]:
    """Let every search grow by its part of the log-probabilities; which of all beams each new live one came from."""
    parents: list[int] = []
    first = 0
    for search in searches:
        after = first + len(search.live)
        if after > first:
            parents += [first + parent for parent in search.grow(log_p[first:after])]
        first = after
    return parents
