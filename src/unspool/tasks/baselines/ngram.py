"""NGram: the language model that counts, as a baseline for networks with a longer memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError

Ids = NDArray[np.int64]


def _empty() -> Ids:
    return np.empty(0, np.int64)


@dataclass
class _Table:
    """Counts of integers. Each integer keeps its place: the number of different ones that came before it."""

    keys: Ids = field(default_factory=_empty)  # sorted
    places: Ids = field(default_factory=_empty)  # of the keys
    counts: Ids = field(default_factory=_empty)  # by place

    def add(self, keys: Ids) -> None:
        """Count these, which may repeat."""
        keys, counts = np.unique(keys, return_counts=True)
        places = self.find(keys)
        new = places < 0
        places[new] = len(self.counts) + np.arange(new.sum())
        self.counts = np.concatenate((self.counts, np.zeros(new.sum(), np.int64)))
        self.counts[places] += counts
        at = np.searchsorted(self.keys, keys[new])
        self.keys, self.places = np.insert(self.keys, at, keys[new]), np.insert(self.places, at, places[new])

    def find(self, keys: Ids) -> Ids:
        """The places of these; −1 for those that were never counted."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.places[at], -1)


class NGram:
    """P(w | the last `order` − 1 words) from counts, with Witten–Bell interpolation.

    With n(c) the number of times that context c was seen, n(c, w) of these before w, k(c) the number of different
    words after it, and c' the context without its oldest word,

        P(w | c) = (n(c, w) + k(c) · P(w | c')) / (n(c) + k(c)),

    down to the empty context, below which all words are equally probable. An unseen context gives P(w | c'). So every
    probability is positive and they sum to 1. Words are ids from 0 to `vocabulary_size` − 1.

    Example:
        model = NGram(order=2, vocabulary_size=3).fit([0, 1, 2, 0, 1, 2])
        model.perplexity([0, 1, 2]), model.distribution([0])
    """

    def __init__(self, order: int, vocabulary_size: int) -> None:
        self.order = check_size("order", order)
        self.vocabulary_size = check_size("vocabulary_size", vocabulary_size)
        if self.vocabulary_size > 2**31:  # a key is a place in a table times this, in 64 bits
            raise ArgumentError.of("vocabulary_size", vocabulary_size, "is above 2³¹", "Map rare words to one id")
        # A context of length k is (the place of its k − 1 newest words, its oldest word): any length in one number.
        self._contexts = [_Table() for _ in range(self.order)]
        self._words = [_Table() for _ in range(self.order)]  # (the place of a context, the word after it)
        self._kinds = [_empty() for _ in range(self.order)]  # k(c) by the place of c
        self._pending: list[tuple[Ids, int]] = []  # sequences, and how many of their first words are context only
        self._last = _empty()

    def fit(self, ids: ArrayLike, *, continues: bool = False) -> Self:
        """Count a sequence, in addition to earlier ones; with `continues`, as the continuation of the last one."""
        ids = self._check("ids", ids)
        before = self._last if continues else ids[:0]
        self._pending.append((np.concatenate((before, ids)), len(before)))
        self._last = self._pending[-1][0][max(0, len(ids) + len(before) - self.order + 1) :].copy()
        return self

    def log_probability(self, ids: ArrayLike) -> NDArray[np.float64]:
        """The natural logarithm of each word's probability after the words before it."""
        relative = self._relative(self._check("ids", ids))
        return np.asarray(np.log(relative) - np.log(self.vocabulary_size))

    def perplexity(self, ids: ArrayLike) -> float:
        """exp of the mean of −log P: 1 for perfect prediction, `vocabulary_size` for the uniform distribution."""
        ids = self._check("ids", ids)
        if not len(ids):
            raise ArgumentError("`ids` is empty, and so has no perplexity. Give at least one word.")
        return float(self.vocabulary_size * np.exp(-np.log(self._relative(ids)).mean()))

    def distribution(self, context: ArrayLike = ()) -> NDArray[np.float64]:
        """The probability of every word after `context`, of which the last `order` − 1 words count."""
        context = self._check("context", context)[::-1]
        self._settle()
        p = np.full(self.vocabulary_size, 1 / self.vocabulary_size)
        place = np.zeros(1, np.int64)
        for k in range(min(self.order, len(context) + 1)):
            place = self._contexts[k].find(self._pack(place, context[k - 1 : k]) if k else place)
            if place[0] < 0:
                break
            words = self._words[k]
            first, end = np.searchsorted(words.keys, self._pack(place, np.array([0, self.vocabulary_size])))
            n, kinds = self._contexts[k].counts[place], self._kinds[k][place]
            p *= kinds / (n + kinds)
            p[words.keys[first:end] % self.vocabulary_size] += words.counts[words.places[first:end]] / (n + kinds)
        return p

    def __repr__(self) -> str:
        return f"NGram(order={self.order}, vocabulary_size={self.vocabulary_size})"

    def _relative(self, ids: Ids) -> NDArray[np.float64]:
        """The probability of each word in units of the uniform one, in which an empty model is exact."""
        self._settle()
        q = np.ones(len(ids))
        at, place = np.arange(len(ids)), np.zeros(len(ids), np.int64)
        for k in range(self.order):
            at, place = at[at >= k], place[at >= k]
            place = self._contexts[k].find(self._pack(place, ids[at - k]) if k else place)
            at, place = at[place >= 0], place[place >= 0]  # a context is unseen if a part of it is
            if not len(at):
                break
            word = self._words[k].find(self._pack(place, ids[at]))
            n_w = np.where(word >= 0, self._words[k].counts[word], 0)
            n, kinds = self._contexts[k].counts[place], self._kinds[k][place]
            q[at] = (n_w * self.vocabulary_size + kinds * q[at]) / (n + kinds)
        return q

    def _settle(self) -> None:
        """Count what was fitted since the last query, all at once."""
        if not self._pending:
            return
        sizes = [len(ids) for ids, _ in self._pending]
        ids = np.concatenate([ids for ids, _ in self._pending])
        age = np.concatenate([np.arange(size) for size in sizes])  # the number of words before each in its sequence
        at = np.flatnonzero(age >= np.repeat([context for _, context in self._pending], sizes))
        place = np.zeros(len(at), np.int64)
        self._pending = []
        for k in range(self.order):
            at, place = at[age[at] >= k], place[age[at] >= k]
            keys = self._pack(place, ids[at - k]) if k else place
            self._contexts[k].add(keys)
            place = self._contexts[k].find(keys)
            self._words[k].add(self._pack(place, ids[at]))
            self._kinds[k] = np.bincount(self._words[k].keys // self.vocabulary_size)

    def _pack(self, place: Ids, word: Ids) -> Ids:
        """A context and a word as one number."""
        return place * self.vocabulary_size + word

    def _check(self, name: str, ids: Any) -> Ids:
        """`ids` as a vector of words of the vocabulary."""
        try:
            ids = np.asarray(ids)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError.of(
                name, ids, f"is not one sequence: {error}", "Give a list of whole numbers"
            ) from error
        if ids.ndim != 1:
            raise ShapeError.of(name, ids.shape, f"has {ids.ndim} dimension(s)", "Give one sequence of ids")
        if len(ids) == 0:
            return _empty()
        if ids.dtype.kind not in "iu":
            raise ArgumentTypeError.of(name, ids, f"is of dtype {ids.dtype}", "Give whole numbers")
        if ids.min() < 0 or ids.max() >= self.vocabulary_size:
            wrong = ids[(ids < 0) | (ids >= self.vocabulary_size)][0]
            remedy = f"Give ids from 0 to {self.vocabulary_size - 1}"
            raise ArgumentError.of(name, int(wrong), "is not in the vocabulary", remedy)
        return np.asarray(ids, np.int64)
