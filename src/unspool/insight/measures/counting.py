"""Counting: how well a token is predicted by what follows the same context elsewhere, for contexts of growing length.

The data is cut into a few parts. A step is predicted from the counts of the other parts, so none is fitted and scored
at once, and nothing can be learned on the way that a network would have to remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
#: Parts of the data: each is predicted from the others.
PARTS = 4
#: Contexts are trusted by how often they were seen, in powers of two up to this one.
BUCKETS = 14
#: Weights that are tried for a bucket, and rounds of expectation and maximization that refine the best of them.
WEIGHTS, ROUNDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 0.999), 3
#: The fewest steps by which the weight of a bucket is known; it is else that of the bucket below.
KNOWN = 8
#: Steps that weights are fitted on.
FITTED = 12_000
#: Longer contexts are tried up to this order, as long as they are this many times the best one, or up to EACH.
LONGEST, EACH, AHEAD = 64, 8, 2
#: A context must have been seen elsewhere at this fraction of the steps.
COVERED = 0.02
#: Different tokens that are distinguished; the rarer ones count as one.
TOKENS = 512


@dataclass(frozen=True, eq=False)
class Stream:
    """Sequences of tokens, one after the other."""

    ids: Ids  # (N,) from 0 to size − 1
    age: Ids  # (N,) the steps before each one in its sequence
    size: int  # different tokens

    @property
    def part(self) -> Ids:
        """The part that each step belongs to."""
        return np.arange(len(self.ids)) * PARTS // max(len(self.ids), 1)

    def back(self, lag: int) -> Ids:
        """The token `lag` steps before each step; `size` where the sequence has not begun."""
        before = np.full(len(self.ids), self.size)
        before[lag:] = np.where(self.age[lag:] >= lag, self.ids[:-lag], self.size)
        return before


def make_stream(sequences: Sequence[NDArray[Any]], most: int, tokens: int = TOKENS) -> Stream:
    """The first sequences, at most so many steps in all; rare tokens count as one.

    Example:
        >>> make_stream([np.array([7, 7, 9]), np.array([9])], most=100).ids
        array([0, 0, 1, 1])
    """
    parts, left = [], most
    for one in sequences:
        parts.append(np.asarray(one[:left], np.int64))
        left -= len(parts[-1])
        if not left:
            break
    ids = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    _, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    age = np.concatenate([np.arange(len(one)) for one in parts]) if parts else ids
    return Stream(np.minimum(rank, tokens - 1)[places.ravel()], age, min(len(counts), tokens))


@dataclass(frozen=True, eq=False)
class Orders:
    """How well steps are predicted from the 0, 1, 2 … steps before them."""

    losses: tuple[Array, ...]  # (N,) −ln P of each step, by order
    contexts: tuple[Ids, ...]  # (N,) the number of the context, by order
    covered: Array  # by order: the fraction of the steps whose context is seen elsewhere

    @property
    def best(self) -> int:
        """The order with the smallest loss."""
        return int(np.argmin([one.mean() for one in self.losses]))


def measure_orders(stream: Stream, longest: int = LONGEST) -> Orders:
    """Predict each step from contexts of growing length.

    Args:
        stream: The tokens.
        longest: The longest context.

    Returns:
        The losses by order, up to where contexts do not come again or longer ones have not helped for long.

    Example:
        measure_orders(make_stream([ids], 100_000)).best
    """
    context = np.zeros(len(stream.ids), np.int64)
    probability, seen = refine(stream, np.full(len(stream.ids), 1 / max(stream.size, 1)), context)
    losses, contexts, covered, best = [-np.log(probability)], [context], [seen], 0
    for order in range(1, longest + 1):
        context = join(context, stream.back(order), stream.size + 1)
        probability, seen = refine(stream, probability, context)
        if order > max(EACH, AHEAD * best + 2) or seen < COVERED:
            break
        losses.append(-np.log(probability))
        contexts.append(context)
        covered.append(seen)
        best = order if losses[order].mean() < losses[best].mean() else best
    return Orders(tuple(losses), tuple(contexts), np.array(covered))


def join(context: Ids, token: Ids, size: int) -> Ids:
    """Number the pairs of a context and a token that occur, from 0."""
    return np.asarray(np.unique(context * size + token, return_inverse=True)[1].ravel())


def refine(stream: Stream, below: Array, context: Ids) -> tuple[Array, float]:
    """The probability of each step by its context, and the fraction of the steps whose context is seen elsewhere.

    The estimate is Witten and Bell's, (n(c, w) + k(c) P') / (n(c) + k(c)), with n(c) the times that context c is seen
    in the other parts, n(c, w) of these before w, k(c) the different tokens after it, and P' the probability by less
    than that context, `below`. It is mixed with P' by weights that depend on n(c).
    """
    if not len(context):
        return below, 0.0
    pair, inverse = np.unique(context * stream.size + stream.ids, return_inverse=True)
    seen, _ = _count_elsewhere(context, stream.part)
    together, table = _count_elsewhere(inverse.ravel(), stream.part)
    contexts = int(context.max()) + 1
    kinds = np.stack([np.bincount(pair // stream.size, column > 0, contexts) for column in table.T], 1)
    k = kinds[context, stream.part]
    estimate = np.where(seen > 0, (together + k * below) / np.maximum(seen + k, 1), below)
    bucket = np.minimum(np.ceil(np.log2(seen + 1)).astype(np.int64), BUCKETS - 1)
    return mix(stream, below, estimate, bucket), float((seen > 0).mean())


def mix(stream: Stream, below: Array, estimate: Array, bucket: Ids) -> Array:
    """Mix two probabilities by weights per bucket; those of a part are fitted on the other parts."""
    mixed = np.empty_like(below)
    for part in range(PARTS if len(below) else 0):
        own = stream.part == part
        weight = _fit_weights(below[~own], estimate[~own], bucket[~own])[bucket[own]]
        mixed[own] = (1 - weight) * below[own] + weight * estimate[own]
    return mixed


def _fit_weights(below: Array, estimate: Array, bucket: Ids) -> Array:
    """The likeliest weight of the estimate in each bucket."""
    every = -(-len(below) // FITTED)
    below, estimate, bucket = below[::every], estimate[::every], bucket[::every]
    counts = np.bincount(bucket, minlength=BUCKETS)
    likelihood = [np.bincount(bucket, np.log((1 - one) * below + one * estimate), BUCKETS) for one in WEIGHTS]
    weights = np.array(WEIGHTS)[np.argmax(likelihood, axis=0)]
    for _ in range(ROUNDS):
        part = weights[bucket] * estimate
        taken = np.bincount(bucket, part / (part + (1 - weights[bucket]) * below), BUCKETS)
        weights = taken / np.maximum(counts, 1)
    known = np.maximum.accumulate(np.where(counts >= KNOWN, np.arange(BUCKETS), 0))
    return np.where(counts[known] >= KNOWN, weights[known], 0.0)


def _count_elsewhere(groups: Ids, part: Ids) -> tuple[Ids, Ids]:
    """How many steps of the other parts have the same group: for each step, and for each group and part."""
    own = np.bincount(groups * PARTS + part, minlength=PARTS * (int(groups.max()) + 1)).reshape(-1, PARTS)
    table = own.sum(1, keepdims=True) - own
    return table[groups, part], table
