"""Far lags: single steps, further back than counts of contexts reach, that tell what the nearer ones do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.context import SURE, Point, standard_error
from unspool.insight.measures.counting import Orders, Stream, join, mix, refine
from unspool.insight.measures.dependence import Dependence

Array = NDArray[np.float64]
#: A lag is tried if the equal tokens at that distance are this many standard deviations from chance.
MATCHES = 5.0
#: Lags that are tried, and lags that are kept.
TRIED, KEPT = 6, 3
#: Pairs of data that drifts depend on each other at every lag: a lag is tried from this many times the median on, and
#: this many deviations above it, as the middle half has them.
ABOVE, OUTLYING = 2.0, 6.0
#: Lags are tried up to this fraction of the steps, and need not stand out from fewer than so many.
FURTHEST, FEW = 0.35, 30
#: What a lag adds counts if it is this fraction of what is gained already.
ADDS = 0.03


class Knowledge:
    """What near contexts tell, to which lags are added."""

    def __init__(self, stream: Stream, orders: Orders, near: int) -> None:
        self.stream, self.losses, self.entropy = stream, orders.losses[near], float(orders.losses[0].mean())
        self.contexts = [orders.contexts[order] for order in sorted({min(1, near), near})]

    def losses_with(self, lag: int) -> Array:
        """The losses if the token `lag` steps back is known too."""
        return predict(self.stream, self.losses, self.contexts, lag)


def find_far_lags(
    known: Knowledge, null: Knowledge, near: int, pairs: Dependence, shift: float = 0.0
) -> tuple[list[Point], float]:
    """Try single lags beyond the near context, one after the other, the strongest pair first.

    Args:
        known: What near contexts tell.
        null: The same of shuffled data that drifts alike; a lag must tell more than twice what it tells there.
        near: The order of the near context.
        pairs: The dependence of pairs by lag.
        shift: What is added to losses, as it is drift that near contexts seem to tell.

    Returns:
        Predictions from the near context together with the lags that were kept; and the most that a lag that was not
        kept tells of the drift.
    """
    kept, drift = [], 0.0
    for lag in choose_candidates(known.stream, near, pairs):
        losses = known.losses_with(lag)
        difference = known.losses - losses
        told, least = difference.mean(), max(SURE * standard_error(difference), ADDS * (known.entropy - losses.mean()))
        if told <= least:
            continue
        own = max(0.0, float((null.losses - null.losses_with(lag)).mean()))
        if told - own <= max(least, own):
            drift = max(drift, own)
            continue
        shift, known.losses = shift + own, losses
        kept.append(Point(lag, losses + shift, "lag"))
        if len(kept) == KEPT or pairs.repeats:
            break  # what repeats is known after its first return
    return _accumulate(kept), drift


def predict(stream: Stream, losses: Array, contexts: Sequence[NDArray[np.int64]], lag: int) -> Array:
    """The losses if the token `lag` steps back is known too: copied, alone, and with each context.

    Example:
        predict(stream, losses, [np.zeros(len(losses), int)], 30).mean()
    """
    before, nothing = stream.back(lag), np.zeros(len(losses), np.int64)
    probability = np.exp(-losses)
    probability = mix(stream, probability, (before == stream.ids).astype(np.float64), nothing)
    for context in [nothing, *(one for one in contexts if one.any())]:
        probability, _ = refine(stream, probability, join(context, before, stream.size + 1))
    found: Array = -np.log(probability)
    return found


def choose_candidates(stream: Stream, near: int, pairs: Dependence) -> list[int]:
    """Lags beyond the near context at which pairs depend on each other, the strongest first.

    Args:
        stream: The tokens.
        near: The order of the near context.
        pairs: The dependence of pairs by lag.

    Example:
        choose_candidates(stream, 0, measure_mutual_information([stream.ids]))
    """
    if not len(pairs.lags):
        return []
    matches = np.abs(_count_matches(stream, int(pairs.lags[-1])))
    strength = np.maximum(
        _relative(pairs.shares, np.maximum(pairs.noise, _stand_out(pairs.shares))),
        _relative(matches, np.maximum(MATCHES, _stand_out(matches))),
    )
    strength[:near] = strength[int(FURTHEST * len(stream.ids)) :] = 0.0
    around = np.concatenate([[0.0], strength, [0.0]])
    peaks = (strength > 0) & (strength >= around[:-2]) & (strength >= around[2:])
    ordered = np.argsort(-strength, kind="stable")
    return [int(pairs.lags[place]) for place in ordered if peaks[place]][:TRIED]


def _stand_out(values: Array) -> Array:
    """What a value must exceed to stand out from all."""
    if len(values) < FEW:
        return np.zeros(1)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    deviation = (high - low) / 1.349  # of a normal distribution
    return np.array([max(ABOVE * middle, middle + OUTLYING * deviation)])


def _relative(values: Array, least: Array) -> Array:
    """The values above the least ones, in units of the largest; 0 for the others."""
    return np.asarray(np.where(values > least, values, 0.0) / max(float(values.max()), 1e-12))


def _count_matches(stream: Stream, longest: int) -> Array:
    """Equal tokens at each lag, in standard deviations from what independent ones would have."""
    chance = float(np.square(np.bincount(stream.ids) / len(stream.ids)).sum())
    found = np.zeros(longest)
    for lag in range(1, longest + 1):
        within = stream.age[lag:] >= lag
        pairs = int(within.sum())
        equal = int(((stream.ids[lag:] == stream.ids[:-lag]) & within).sum())
        found[lag - 1] = (equal - chance * pairs) / max((pairs * chance * (1 - chance)) ** 0.5, 1e-12)
    return found


def _accumulate(kept: Sequence[Point]) -> list[Point]:
    """A prediction from several lags reads as far back as the furthest of them."""
    furthest = accumulate((one.steps for one in kept), max)
    return [Point(steps, one.losses, one.by) for steps, one in zip(furthest, kept, strict=True)]
