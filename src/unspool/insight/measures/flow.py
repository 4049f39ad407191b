"""Gradient flow: the size of the loss's gradient at every step of every layer, and how it fades with distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.call import Call
from unspool.insight.linear_step import LinearStep
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Flow, Gradient, Recording

Array = NDArray[np.float64]
#: A gradient that is zero except at some steps of some sequences: their places, time · batch + sequence, and values.
Places = tuple[Tensor, Tensor]

#: A gradient is gone when less than this fraction of it is left.
HORIZON = 0.01
#: A horizon beyond this fraction of the lags that the data shows is only a lower bound: few steps are left to tell.
SHOWN = 0.9
#: Shorter horizons are told from few lags, too.
SHOWN_AT_LEAST = 8
#: Lags that are followed by default.
LIMIT = 200
#: Steps × parameters to follow gradients through: sources are sampled to stay below, and lags end at twice it.
WORK = 2e9
#: Numbers of states, over all steps, that are made linear at once.
TOGETHER = 2**22
#: Values below this are rounding, and say nothing about a rate.
FLOOR = 1e-12


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """∂L/∂s_t of every layer, where s are all of its states, by time and by distance from the loss.

    A source is a gradient that reaches a layer's states without crossing an edge between steps. `survival` is the norm
    of what has crossed k edges, relative to the norm of the sources that have k steps before them; it is NaN where no
    source has that many. A scalar linear network with weight w has exactly |w|^k.
    """

    labels: tuple[str, ...]
    norms: Array  # (layers, time): root mean square of ‖∂L/∂s_t‖ over sequences; NaN where none has that step
    survival: Array  # (layers, lags)
    rate: Array  # (layers,): factor per step; NaN if fewer than two lags are known
    horizon: NDArray[np.int64]  # (layers,): the last lag before survival first falls below HORIZON
    censored: NDArray[np.bool_]  # (layers,): `horizon` is only a lower bound, at or near the last known lag


def measure_flow(recording: Recording, gradient: Gradient | None = None, limit: int | None = None) -> GradientFlow:
    """The gradient's norm by time, and what is left of it by lag.

    Args:
        recording: the model.
        gradient: `recording.gradient()`, if it is known already.
        limit: number of lags; large networks may have fewer measured.

    Returns:
        Norms, survival, rate and horizon of each layer.

    Example:
        >>> recording = record(torch.nn.GRU(3, 4), lambda model: model(torch.randn(9, 2, 3))[0].sum())
        >>> measure_flow(recording).survival.shape
        (1, 9)
    """
    if limit is not None and limit < 1:
        raise ArgumentError.of("limit", limit, "leaves no lag to measure", "Give at least 1")
    whole = recording.gradient() if gradient is None else gradient
    survival = _survival(recording, limit)
    horizon, censored = zip(*map(_horizon, survival), strict=True)
    return GradientFlow(
        labels=recording.labels,
        norms=padded([_norms(whole.states[layer.name], layer.live) for layer in recording.layers]),
        survival=survival,
        rate=np.array([factor_per_step(row) for row in survival]),
        horizon=np.array(horizon, np.int64),
        censored=np.array(censored),
    )


def norm_of(values: Tensor) -> float:
    """The Euclidean norm of all values, even if their squares overflow or underflow."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not 0 < largest < np.inf:
        return largest
    return largest * float((values / largest).square().sum().sqrt())


def factor_per_step(values: Array, floor: float = FLOOR) -> float:
    """exp of the slope of log values against their index, where they are finite and above the floor; else NaN."""
    with np.errstate(invalid="ignore"):
        steps = np.flatnonzero(np.isfinite(values) & (values > floor))
    if len(steps) < 2:
        return float("nan")
    away = steps - steps.mean()
    return float(np.exp((away * np.log(values[steps])).sum() / np.square(away).sum()))


def padded(rows: Sequence[Array], fill: float = np.nan) -> Array:
    """Rows of unequal length as one array."""
    found = np.full((len(rows), max(map(len, rows))), fill)
    for into, row in zip(found, rows, strict=True):
        into[: len(row)] = row
    return found


def _norms(gradients: Tensor, live: Tensor) -> Array:
    counts = live.sum(1)
    found = [
        norm_of(step[alive]) / float(count) ** 0.5 if count else np.nan
        for step, alive, count in zip(gradients, live, counts, strict=True)
    ]
    return np.array(found, np.float64)


def _horizon(survival: Array) -> tuple[int, bool]:
    with np.errstate(invalid="ignore"):
        below = np.flatnonzero(survival < HORIZON)
    known = np.flatnonzero(~np.isnan(survival))
    if len(below):
        horizon = int(below[0]) - 1
        return horizon, near_the_end(horizon, len(known))
    return int(known.max(initial=0)), bool(len(known))


def near_the_end(horizon: int, known: int) -> bool:
    """Whether the data ends so soon after a horizon that it is only a lower bound."""
    return horizon > max(SHOWN * known, SHOWN_AT_LEAST)


def _survival(recording: Recording, limit: int | None) -> Array:
    """What is left of the gradient by layer and lag, (layers, lags)."""
    distances = _distances(recording)
    longest = max(1 + int(each.max(initial=0)) for each in distances)
    lags = min(longest, LIMIT if limit is None else limit)
    found = np.zeros((len(recording.layers), lags))
    sources = np.zeros_like(found)
    followed, spent = 0, 0.0
    for lag, parts in enumerate(_split(recording, _affordable(recording, lags), lags)):
        if not lag:
            sources = _sources(recording, parts, distances, lags)
        found[:, lag] = [norm_of(_of_layer(recording, layer, parts)) for layer in recording.layers]
        spent += _work(recording, parts)
        followed = lag + 1
        if followed == lags or spent > 2 * WORK:
            break
    else:
        followed = lags  # nothing was left to follow: the rest is zero
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sources > 0, found / sources, np.nan)[:, :followed]


def _work(recording: Recording, parts: Sequence[Places]) -> float:
    return sum(len(part[0]) * _size(call) for part, call in zip(parts, recording.calls, strict=True))


def _sources(recording: Recording, parts: Sequence[Places], distances: Sequence[NDArray[np.int64]], lags: int) -> Array:
    """Norms of the sources of each layer that have at least 0, 1, … steps before them, (layers, lags)."""
    found = np.zeros((len(recording.layers), lags))
    for row, layer in enumerate(recording.layers):
        values = _of_layer(recording, layer, parts)
        before = np.concatenate(
            [
                steps[places.numpy()]
                for call, steps, (places, _) in zip(recording.calls, distances, parts, strict=True)
                if call.layer.name == layer.name
            ]
        )
        found[row] = [norm_of(values[torch.from_numpy(before >= least)]) for least in range(lags)]
    return found


def _of_layer(recording: Recording, layer: RecordedLayer, parts: Sequence[Places]) -> Tensor:
    """The values of all calls of one layer."""
    return torch.cat(
        [values for call, (_, values) in zip(recording.calls, parts, strict=True) if call.layer.name == layer.name]
    )


def _distances(recording: Recording) -> list[NDArray[np.int64]]:
    """For every call, how many steps of the layer lie before each place; a call may continue an earlier one."""
    found: list[NDArray[np.int64]] = []
    ends: dict[str, NDArray[np.int64]] = {}
    for call in recording.calls:
        lengths = call.ends.numpy().astype(np.int64)
        times = np.arange(len(call.layer.x))[:, None]
        steps = lengths - 1 - times if call.layer.reverse else np.broadcast_to(times, (len(times), len(lengths)))
        continues = call.layer.name in ends and any(start.requires_grad for start in call.starts)
        earlier = ends[call.layer.name] if continues else np.zeros_like(lengths)
        found.append((steps + earlier).ravel())
        ends[call.layer.name] = earlier + lengths
    return found


def _size(call: Call) -> int:
    return sum(value.numel() for value in call.layer.parameters.values()) + 1


def _affordable(recording: Recording, lags: int) -> int:
    return max(8, int(WORK / (lags * sum(map(_size, recording.calls)))))


def _split(recording: Recording, most: int, lags: int = 1) -> Iterator[list[Places]]:
    """`Recording.lags` of the states by call, sparse, from at most `most` sources per call; about so many are asked."""
    calls, entrances = recording.calls, recording.entrances
    flow = Flow(calls)
    flow.add([recording.loss], [torch.ones_like(recording.loss)])
    given = [_injected(call, flow.take(number)) for number, call in enumerate(calls)]
    carried = [_sampled(places, most, call) for call, (places, _) in zip(calls, given, strict=True)]
    idle = [start for _, start in given]  # of empty sequences, whose start is their end
    flow = Flow(calls)
    steps = [_prepared(call, most * lags) for call in calls]
    while True:
        later = Flow(calls)
        parts = list(carried)
        for number, call in reversed(list(enumerate(calls))):
            came, waiting = _injected(call, flow.take(number))
            parts[number] = places, values = _merged([carried[number], came])
            x, before = _pulled(steps[number](places), values, number not in entrances)
            carried[number], start = _crossed(call, places, before)
            if x is not None:
                _send_down(flow, call, places, x)
            flow.add(list(call.starts), list(call.layer.split(idle[number] + waiting).values()))
            later.add(list(call.starts), list(call.layer.split(start).values()))
        yield parts
        if later.empty and not any(bool(values.any()) for _, values in carried):
            return
        flow, idle = later, [torch.zeros_like(start) for start in idle]


def _send_down(flow: Flow, call: Call, places: Tensor, x: Tensor) -> None:
    """Pass the gradient of a call's input, known at some places, to the layers below."""
    dense = torch.zeros_like(call.x).flatten(0, 1)
    dense[places] = x.to(dense)
    flow.add([call.x], [dense.view_as(call.x)])


def _injected(call: Call, cotangents: Sequence[Tensor | None]) -> tuple[Places, Tensor]:
    """`Call.inject` at the places where it is not zero."""
    rows, width = len(call.ends), call.layer.after.shape[-1]
    found = [(call.ends.new_empty(0), call.layer.after.new_empty(0, width))]
    output = cotangents[0]
    if output is not None:
        places = (output.ne(0).any(-1) & call.layer.live).flatten().nonzero().flatten()
        values = call.layer.after.new_zeros(len(places), width)
        values[:, : output.shape[-1]] = output.flatten(0, 1)[places].to(values)
        found.append((places, values))
    idle = call.layer.after.new_zeros(rows, width)
    if any(got is not None for got in cotangents[1:]):
        pairs = zip(call.finals, cotangents[1:], strict=True)
        final = torch.cat([torch.zeros_like(leaf) if got is None else got for leaf, got in pairs], -1).to(idle)
        some = (call.ends > 0).nonzero().flatten()
        last = torch.zeros_like(some) if call.layer.reverse else call.ends[some] - 1
        found.append((last * rows + some, final[some]))
        idle = final * (call.ends == 0).unsqueeze(-1)
    return _merged(found), idle


def _merged(parts: Sequence[Places]) -> Places:
    """Their sum, every place once."""
    places, order = torch.unique(torch.cat([each for each, _ in parts]), return_inverse=True)
    values = torch.cat([each for _, each in parts])
    return places, values.new_zeros(len(places), values.shape[-1]).index_add_(0, order, values)


def _sampled(found: Places, most: int, call: Call) -> Places:
    """At most `most` places, evenly over the sequences and over the time of each."""
    places, values = found
    if len(places) <= most:
        return found
    by_row = torch.argsort(places % len(call.ends), stable=True)
    chosen = by_row[((torch.arange(most) + 0.5) * (len(places) / most)).long()]
    return places[chosen], values[chosen]


def _prepared(call: Call, visits: int) -> Callable[[Tensor], LinearStep]:
    """The steps at places, linear: all places at once where they are few and each is visited about once or oftener."""
    linear, x, before = call.layer.linear, call.layer.x.flatten(0, 1), call.layer.before.flatten(0, 1)
    if len(x) <= visits and before.numel() <= TOGETHER:
        return linear.at(x, before).pick
    return lambda places: linear.at(x[places], before[places])


def _pulled(step: LinearStep, values: Tensor, to_input: bool) -> tuple[Tensor | None, Tensor]:
    """Gradients of x, if wanted, and of the states before each place from those of the states after it."""
    found = step.pull(values, to_input)
    return found.x if to_input else None, found.states


def _crossed(call: Call, places: Tensor, before: Tensor) -> tuple[Places, Tensor]:
    """`Call.cross` of some places."""
    rows = len(call.ends)
    row, time = places % rows, places // rows
    begins = time == call.ends[row] - 1 if call.layer.reverse else time == 0
    start = before.new_zeros(rows, before.shape[-1])
    start[row[begins]] = before[begins]
    moved = places + rows if call.layer.reverse else places - rows
    return (moved[~begins], before[~begins]), start
