"""Token memory: from how many steps before it a token is predicted, by counts of contexts and by single far lags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.context import LEFT, SURE, Context, Point, choose_shortest, standard_error
from unspool.insight.measures.counting import LONGEST, Orders, Stream, join, make_stream, measure_orders, refine
from unspool.insight.measures.dependence import Dependence
from unspool.insight.measures.far_lags import Knowledge, find_far_lags

Array = NDArray[np.float64]
#: Steps that are read, and the fewest from which something can be learned, by counting and by a network.
STEPS, FEWEST, FEWEST_PROBED = 100_000, 40, 2000
#: Steps that are read to find out whether lines are independent, and those of each line that are compared.
COMPARED, BEGINNING = 40_000, 8
#: The place in a sequence may count if there are so many of them; it is told by so many steps for this fraction of all.
SEVERAL, MOSTLY = 50, 0.9
#: Steps are shuffled within so many stretches of the data, to tell drift from memory.
STRETCHES = 16
#: Drift counts if it has this fraction of the gain, and so many standard errors: a memory must be surer than a drift.
DRIFTS, LIKELY = 0.1, 1.5
#: Counts may miss something if the next longer contexts are not seen elsewhere at this fraction of the steps.
RARE = 0.9


#: Why no recurrent network is tried if none is given.
NOT_ASKED = "it would not change the plan"
#: The steps that a recurrent network predicts, and by the length of the context −ln P of each.
Probe = Callable[[Stream], tuple[NDArray[np.int64], Mapping[int, Array]]]
Pairs = Callable[[Sequence[NDArray[Any]]], Dependence]


def measure_tokens(
    sequences: Sequence[NDArray[Any]],
    pairs: Dependence,
    *,
    limit: int | None = None,
    probe: Probe | None = None,
    seed: int = 0,
) -> Context:
    """Find the fewest steps that predict the next token about as well as any number of them.

    Args:
        sequences: Arrays (steps,) of ids.
        pairs: The dependence of pairs of these, by lag.
        limit: The longest context.
        probe: Predicts by a recurrent network.
        seed: For the shuffle.

    Returns:
        The memory, and the losses by the length of the context.

    Example:
        measure_tokens([ids], measure_mutual_information([ids])).memory
    """
    stream = make_stream(sequences, STEPS)
    if len(stream.ids) < FEWEST or stream.size < 2:
        return Context((0,), (0.0,), ("nothing",), 0, 0.0, 0.0)
    points, orders, drift = _predict(stream, pairs, limit, seed)
    found = choose_shortest(points)
    found = replace(found, drift=drift / (drift + found.gain) if drift else 0.0, at_least=_ends_early(orders, found))
    if probe is None:
        return replace(found, probed=NOT_ASKED)
    why = _why_not_probed(stream, found, points)
    return replace(found, probed=why) if why else _ask(probe, stream, points, found)


def tells_more(whole: Sequence[NDArray[Any]], parts: Sequence[NDArray[Any]], measure: Pairs) -> bool:
    """Whether steps are predicted better if contexts reach from one part into another.

    Args:
        whole: Sequences of ids.
        parts: The same, cut into more sequences.
        measure: Measures the dependence of pairs.

    Example:
        tells_more([ids], lines, measure_mutual_information)
    """
    losses = []
    for some in (whole, parts):
        stream = make_stream(some, COMPARED)
        lengths = np.diff(np.append(np.flatnonzero(stream.age == 0), len(stream.ids)))
        read = np.split(stream.ids, np.cumsum(lengths)[:-1])
        losses.append(min((one.losses for one in _predict(stream, measure(read), None, 0)[0]), key=np.mean))
    # further on in a part, what is before it is beyond the reach of most contexts
    difference = (losses[1] - losses[0])[stream.age < BEGINNING]
    return bool(difference.mean() > SURE * standard_error(difference))


def _predict(stream: Stream, pairs: Dependence, limit: int | None, seed: int) -> tuple[list[Point], Orders, float]:
    """Predict by counts and by far lags; of data that drifts, without what the drift seems to tell, which is given."""
    longest = min(limit or LONGEST, LONGEST, int(stream.age.max()))
    orders = measure_orders(stream, longest)
    shuffled = _shuffle_nearby(stream, seed)
    null = measure_orders(shuffled, min(longest, max(orders.best, 1)))
    points, drift = _without_drift(orders, null)
    near = choose_shortest(points).memory
    known, unknown = Knowledge(stream, orders, near), Knowledge(shuffled, null, min(near, len(null.losses) - 1))
    shift = float((points[near].losses - orders.losses[near]).mean())
    lags, more = find_far_lags(known, unknown, near, pairs, shift)
    return [*points, *lags, *_locate(stream, orders, near)], orders, max(drift, more)


def _locate(stream: Stream, orders: Orders, near: int) -> list[Point]:
    """The prediction if the place in a sequence is known, for which it must be read from its start."""
    if np.count_nonzero(stream.age == 0) < SEVERAL:
        return []
    place = np.minimum(stream.age, LONGEST)
    probability, _ = refine(stream, np.exp(-orders.losses[near]), place)
    for order in sorted({min(1, near), near} - {0}):
        probability, _ = refine(stream, probability, join(orders.contexts[order], place, LONGEST + 1))
    return [Point(int(np.quantile(stream.age, MOSTLY)) + 1, -np.log(probability), "place")]


def _ends_early(orders: Orders, found: Context) -> bool:
    """Whether counts end at a context beyond which contexts do not come again often enough."""
    counts = found.by[found.steps.index(found.memory)] == "counts" and found.losses[-1] > LEFT * found.losses[0]
    longer = min(found.memory + 1, len(orders.covered) - 1)
    return counts and bool(orders.covered[longer] < RARE)


def _why_not_probed(stream: Stream, found: Context, points: Sequence[Point]) -> str:
    """Why no recurrent network is tried; empty if one is."""
    if len(stream.ids) < FEWEST_PROBED:
        return f"it needs at least {FEWEST_PROBED:,} steps"
    if found.drift:
        return "the data drifts, which it would learn too"
    if min(one.losses.mean() for one in points) < LEFT * points[0].losses.mean():
        return "nothing is left to predict"
    return ""


def _ask(probe: Probe, stream: Stream, points: Sequence[Point], found: Context) -> Context:
    """What a recurrent network sees beyond the other predictions, if anything."""
    targets, losses = probe(stream)
    counted = [Point(one.steps, one.losses[targets], one.by) for one in points]
    probed = [Point(steps, values, "probe") for steps, values in losses.items()]
    best, better = (min(some, key=lambda one: one.losses.mean()).losses for some in (counted, probed))
    difference = best - better
    gain = float((counted[0].losses - better).mean())
    if difference.mean() <= max(SURE * standard_error(difference), LEFT * gain):
        return found
    return replace(choose_shortest([*counted, *probed]), hidden=True, at_least=True)  # a small network learns in part


def _without_drift(orders: Orders, null: Orders) -> tuple[list[Point], float]:
    """Predictions from contexts without what these tell of shuffled data: where in the data a step is; and how much.

    Where that is as much as all the rest, the rest may be drift as well, and counts for nothing.
    """
    points = [Point(order, losses, "counts" if order else "nothing") for order, losses in enumerate(orders.losses)]
    gained = float((orders.losses[0] - orders.losses[orders.best]).mean())
    difference = null.losses[0] - null.losses[null.best]
    drift = float(difference.mean())
    if drift <= max(LIKELY * standard_error(difference), DRIFTS * gained):
        return points, 0.0
    if gained - drift <= drift:
        return [Point(one.steps, points[0].losses, one.by) for one in points], drift
    means = [float((null.losses[0] - one).mean()) for one in null.losses]
    shifts = [max(0.0, means[min(one.steps, len(means) - 1)]) for one in points]
    return [Point(one.steps, one.losses + more, one.by) for one, more in zip(points, shifts, strict=True)], drift


def _shuffle_nearby(stream: Stream, seed: int) -> Stream:
    """Each stretch in random order."""
    chance, ids = np.random.default_rng(seed), stream.ids.copy()
    for places in np.array_split(np.arange(len(ids)), STRETCHES):
        ids[places] = chance.permutation(ids[places])
    return replace(stream, ids=ids)
