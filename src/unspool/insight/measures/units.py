"""Units: one unit at a time: its course over the data, what it responds to, its gates, and what the loss loses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.gates import gate_roles
from unspool.insight.measures.jacobians import longest_rows
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]
Tokens = Sequence[Sequence[str]]

#: Steps of the sequence that is shown.
STEPS = 320
#: Types of token that a unit responds to most, at either end; types must occur at least this often to count.
TYPES, OFTEN = 6, 3
#: Inputs among which the one that a unit follows is searched, and steps that it may lag behind.
INPUTS, LAGS = 64, 16
#: A unit follows an input if their correlation is at least this, and if, of as many inputs and lags as were tried, none
#: would correlate as much by chance in 99 of 100 cases. Steps that resemble those before them count as one.
FOLLOWS, CHANCE = 0.3, 0.01


@dataclass(frozen=True, eq=False)
class Unit:
    """One unit of one layer, over one sequence and over all of the data."""

    label: str  # of the layer
    unit: int
    tokens: tuple[str, ...]  # of the sequence; empty where steps are not tokens
    output: Array  # (steps,)
    names: tuple[str, ...]  # of its gates and of its part of other states, such as c
    gates: tuple[str, ...]  # those among the names that are gates
    values: Array  # (names, steps)
    highest: tuple[str, ...]  # types of token after which the unit is highest on average, the highest first
    lowest: tuple[str, ...]  # and lowest
    explained: float  # fraction of the variance of its output that the type of token explains; NaN without tokens
    follows: int  # the component of the input that it correlates with most; −1 with tokens, or if there is none
    lag: int  # steps by which it lags behind that input
    correlation: float  # with that input; NaN where there is none


def measure_unit(recording: Recording, layer: int, unit: int, tokens: Tokens | None = None) -> Unit:
    """The course of one unit, and what it responds to.

    Args:
        recording: the model.
        layer: a place among `recording.layers`, from 0.
        unit: its number in that layer, from 0.
        tokens: [time][sequence], as the layer read them; None where steps are not tokens.

    Returns:
        The unit over the longest sequence, and its response to tokens, or to inputs, over all of the data.

    Example:
        >>> recording = record(torch.nn.LSTM(3, 4), lambda model: model(torch.randn(9, 2, 3))[0].sum())
        >>> measure_unit(recording, 0, 2).names
        ('i', 'f', 'o', 'c')
    """
    chosen = _choose(recording, layer, unit)
    if tokens is not None and (len(tokens) != len(chosen.live) or any(len(s) != chosen.live.shape[1] for s in tokens)):
        problem = f"does not have a token for each of {tuple(chosen.live.shape)} steps and sequences"
        raise ShapeError.of("tokens", len(tokens), problem, "Give tokens[time][sequence]")
    row = next(iter(longest_rows(chosen, 1)), 0)
    steps = min(int(chosen.live[:, row].sum()), STEPS)
    output = chosen.output[..., unit]
    curves = _curves(chosen, unit)
    highest, lowest, explained = _responses(chosen, output.numpy(), tokens)
    follows, lag, correlation = (-1, 0, np.nan) if tokens is not None else _follow(chosen, output.numpy())
    return Unit(
        label=chosen.label,
        unit=unit,
        tokens=() if tokens is None else tuple(tokens[step][row] for step in range(steps)),
        output=output[:steps, row].numpy(),
        names=tuple(curves),
        gates=tuple(name for name in curves if name in gate_roles(chosen)),
        values=np.array([value[:steps, row] for value in curves.values()]).reshape(len(curves), steps),
        highest=highest,
        lowest=lowest,
        explained=explained,
        follows=follows,
        lag=lag,
        correlation=correlation,
    )


def _choose(recording: Recording, layer: int, unit: int) -> RecordedLayer:
    layers = len(recording.layers)
    if not 0 <= layer < layers:
        raise ArgumentError.of("layer", layer, f"is none of the {layers} layers", f"Give 0 to {layers - 1}")
    chosen = recording.layers[layer]
    width = chosen.output.shape[-1]
    if not 0 <= unit < width:
        raise ArgumentError.of(
            "unit", unit, f"is none of the {width} units of {chosen.label}", f"Give 0 to {width - 1}"
        )
    return chosen


def _curves(layer: RecordedLayer, unit: int) -> dict[str, Array]:
    """The unit's gates, and its part of the states after the first, by name; each (time, batch)."""
    width = layer.output.shape[-1]
    names = [*gate_roles(layer), *list(layer.widths)[1:]]
    return {
        name: layer.named[name][..., unit].numpy()
        for name in dict.fromkeys(names)
        if name in layer.named and layer.named[name].shape[-1] == width
    }


def _responses(
    layer: RecordedLayer, output: Array, tokens: Tokens | None
) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """The types of token with the highest and the lowest mean, and the part of the variance between types."""
    if tokens is None:
        return (), (), np.nan
    values: dict[str, list[float]] = defaultdict(list)
    for step, row in np.argwhere(layer.live.numpy()):
        values[tokens[step][row]].append(float(output[step, row]))
    everything = np.concatenate([np.array(some) for some in values.values()]) if values else np.zeros(0)
    if not everything.size or not everything.std():
        return (), (), np.nan
    between = sum(len(some) * (np.mean(some) - everything.mean()) ** 2 for some in values.values())
    often = {kind: some for kind, some in values.items() if len(some) >= OFTEN} or values
    order = sorted(often, key=lambda kind: -float(np.mean(often[kind])))
    half = min(TYPES, len(order) // 2)
    explained = float(between / np.square(everything - everything.mean()).sum())
    return tuple(order[:half]), tuple(reversed(order[len(order) - half :])), explained


def _follow(layer: RecordedLayer, output: Array) -> tuple[int, int, float]:
    """The input, its lag and the correlation with it, of the largest size; none if it may be chance."""
    best = -1, 0, np.nan
    lags = range(min(LAGS, len(output) - 1) + 1)
    tries = len(lags) * min(INPUTS, layer.x.shape[-1])
    alike = _persistence(layer, output)
    for lag in lags:
        x, y = _lagged(layer, output, lag)
        found = np.abs(_correlate(x, y)) if len(y) > 2 else np.zeros(0)
        independent = len(y) * (1 - alike) / (1 + alike)  # Bartlett's count
        chance = np.tanh(np.sqrt(2 * np.log(tries / CHANCE) / np.maximum(independent - 3, 1e-9)))
        found = np.where(found >= np.maximum(FOLLOWS, chance), found, 0.0) if len(found) else found
        place = int(found.argmax()) if found.size else 0
        if found.size and found[place] > abs(np.nan_to_num(best[2])) + 1e-12:
            best = place, lag, float(_correlate(x, y)[place])
    return best


def _correlate(x: Array, y: Array) -> Array:
    """Of each column of x with y, both without their means; 0 for what does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (x * y.reshape(len(y), -1)).mean(0) / (x.std(0) * y.std(0))
    return np.where(np.isfinite(found), found, 0.0)


def _persistence(layer: RecordedLayer, output: Array) -> Array:
    """How alike each input and the output are to themselves a step later: the product of both, from 0 to 1."""
    x, live = layer.x.numpy()[..., :INPUTS], layer.live.numpy()
    both = live[1:] & live[:-1]
    if both.sum() < 2:
        return np.zeros(x.shape[-1])
    pairs = [(value[:-1][both], value[1:][both]) for value in (x, output[..., None])]
    own = [_correlate(early - early.mean(0), late - late.mean(0)) for early, late in pairs]
    return np.clip(own[0] * own[1], 0.0, 0.99)


def _lagged(layer: RecordedLayer, output: Array, lag: int) -> tuple[Array, Array]:
    """Inputs, and the unit so many steps after them as it ran, over all sequences; both without their means."""
    x, live = layer.x.numpy()[..., :INPUTS], layer.live.numpy()
    early, late = slice(0, len(live) - lag), slice(lag, None)
    inputs, outputs = (late, early) if layer.reverse else (early, late)
    both = live[early] & live[late]
    read, y = x[inputs][both], output[outputs][both]
    return (read - read.mean(0), y - y.mean()) if len(y) else (read, y)
