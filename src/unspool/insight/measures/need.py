"""Need: which earlier inputs the error of the loss still depends on, beyond what the state knows of them.

The gradient of the loss at the output of the highest layer is the error that a head corrects. If it can be predicted
from the input k steps before, given the state and the newest inputs, then the loss would fall if that input were
remembered. The prediction is linear, so that a need for products of inputs alone is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.insight.call import Call
from unspool.insight.recording import Flow, Recording

Array = NDArray[np.float64]

#: Lags and places at most; of more places, evenly spaced sequences and steps are used.
LAGS, PLACES = 128, 2048
#: Fewer places with an error, sequences times steps, tell nothing.
FEWEST_PLACES = 24
#: A lag is measured if at least this fraction of the places has it: by few, chance explains much.
ENOUGH = 0.25
#: Directions at most of the error, and of an input, a state and other inputs that it is predicted from.
ERRORS, PREDICTORS = 4, 16
#: Places for each of these predictors at least.
PLACES_EACH = 8
#: How often the errors are put beside other inputs, to see what chance explains.
ROLLS = 99
#: A smaller part of the error is not worth a longer memory.
LEAST = 0.02


@dataclass(frozen=True, eq=False)
class Need:
    """The part of the error's variance that the input k steps before explains beyond the state, adjusted for chance."""

    lags: NDArray[np.int64]  # (lags,): 1, 2, …
    explained: Array  # (lags,): from 0 to 1, and a little below 0 by chance; NaN where too few places have that lag
    chance: float  # the largest of all lags in 99 trials with errors beside inputs that they do not belong to
    places: int  # steps of sequences with an error

    @property
    def known(self) -> bool:
        """Whether anything could be measured."""
        return bool(np.isfinite(self.explained).any())

    @property
    def furthest(self) -> int:
        """The furthest lag that explains more than chance does; 0 if none does."""
        with np.errstate(invalid="ignore"):
            found = np.flatnonzero(self.explained > max(self.chance, LEAST))
        return int(self.lags[found[-1]]) if len(found) else 0

    @property
    def strongest(self) -> int:
        """The lag that explains most; 0 if none explains more than chance does."""
        return int(self.lags[np.nanargmax(self.explained)]) if self.furthest else 0


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the loss has an error, sequence after sequence: errors and states there, and all inputs."""

    row: NDArray[np.int64]
    time: NDArray[np.int64]
    error: Array  # (places, width)
    state: Array  # (places, width)
    x: Array  # (time, batch, width)

    def at(self, order: NDArray[np.int64]) -> _Places:
        """The places in another order."""
        return _Places(self.row[order], self.time[order], self.error[order], self.state[order], self.x)


def measure_need(recording: Recording) -> Need:
    """Which earlier inputs explain the error of the loss.

    Args:
        recording: a model whose highest layer runs the same steps as the one that reads the input.

    Returns:
        What each lag explains; nothing if the layers do not run the same steps, or if too few steps have an error.

    Example:
        >>> layer, x = unspool.nn.Recurrent("elman", 1, 4), torch.randn(40, 32, 1)
        >>> def loss(layer):  # a random layer that should say what it read 9 steps before
        ...     return (layer(x)[0][9:, :, :1] - x[:-9]).square().mean()
        >>> measure_need(record(layer, loss)).strongest
        9
    """
    places = _find_places(recording)
    count = 0 if places is None else len(places.row)
    if places is None or count < FEWEST_PLACES or not _varies(places.error):
        return Need(np.zeros(0, np.int64), np.zeros(0), np.nan, count)
    most = max(1, min(PREDICTORS, count // PLACES_EACH))
    known = np.concatenate([np.ones((count, 1)), _directions(places.state, most), *_newest(places, most)], 1)
    known = _basis(known)
    error = _without(_directions(places.error, ERRORS), known)
    rolls = np.random.default_rng(0).integers(count // 10 + 1, count - count // 10, ROLLS)
    rolled = np.stack([error, *(np.roll(error, roll, 0) for roll in rolls)], -1)  # (places, width, 1 + rolls)
    lags = np.arange(1, min(LAGS, len(places.x) - 1) + 1, dtype=np.int64)
    order = np.argsort(places.time, kind="stable")  # the places that have a lag are then a slice, not a copy
    places, known, rolled = places.at(order), known[order], rolled[order]
    squares = np.square(rolled).sum(1)[::-1].cumsum(0)[::-1]
    found = np.array([_explained(places, int(lag), known, rolled, squares, most) for lag in lags])
    found = found.reshape(len(lags), -1)
    trials = found[:, 1:]
    chance = float(np.nanmax(trials)) if np.isfinite(trials).any() else np.nan
    return Need(lags, found[:, 0], chance, count)


def _find_places(recording: Recording) -> _Places | None:
    """None if the layer that the loss reads does not run the steps of the input, each once."""
    entrances = [recording.calls[number] for number in recording.entrances]
    heads = _heads(recording)
    calls = [*entrances, *(call for call, _ in heads)]
    names = [call.layer.name for call in recording.calls]
    if len(set(names)) != len(names) or len({call.layer.live.shape for call in calls}) != 1 or not heads:
        return None
    error = torch.cat([found for _, found in heads], -1).transpose(0, 1).numpy()
    state = torch.cat([call.layer.after for call, _ in heads], -1).transpose(0, 1).numpy()
    row, time = np.nonzero((error != 0).any(-1))
    chosen = np.unique(np.linspace(0, max(0, len(row) - 1), min(len(row), PLACES)).astype(np.int64))
    row, time = row[chosen].astype(np.int64), time[chosen].astype(np.int64)
    return _Places(row, time, error[row, time], state[row, time], entrances[0].layer.x.numpy())


def _heads(recording: Recording) -> list[tuple[Call, torch.Tensor]]:
    """The calls that the loss reads without another recurrence between, and its gradient there."""
    flow = Flow(recording.calls)
    flow.add([recording.loss], [torch.ones_like(recording.loss)])
    found = [(call, call.inject(flow.take(number))[0]) for number, call in enumerate(recording.calls)]
    return [(call, error) for call, error in found if bool(error.any())]


def _newest(places: _Places, most: int) -> list[Array]:
    """The input of the same step, and where there is room for more predictors that of the step before."""
    reach = 2 if len(places.row) >= PLACES_EACH * 4 * PREDICTORS else 1
    return [_directions(places.x[(places.time - lag).clip(min=0), places.row], most) for lag in range(reach)]


def _explained(places: _Places, lag: int, known: Array, rolled: Array, squares: Array, most: int) -> Array:
    """What the input of one lag explains of the errors, and of the errors of each roll, (1 + rolls,).

    The places are in the order of time; `squares` are sums of squared errors from each place on.
    """
    first = int(np.searchsorted(places.time, lag))
    within = slice(first, None)
    count, taken = len(places.time) - first, known.shape[1]
    nothing: Array = np.full(rolled.shape[-1], np.nan)
    if count < max(FEWEST_PLACES, 2 * taken, ENOUGH * len(places.row)):
        return nothing
    x = places.x[places.time[within] - lag, places.row[within]]
    here = np.linalg.qr(known[within]).Q
    own = _basis(_without(_directions(x, min(most, count // PLACES_EACH)), here))
    left = count - taken - own.shape[1] - 1
    if not own.shape[1] or left < 1:
        return nothing
    # The errors without what is known of them are not formed: their parts along both bases say enough.
    along = np.concatenate([here, _without(own, here)], 1).T @ rolled[within].reshape(count, -1)
    known_part, part = (np.square(one).sum(0).reshape(rolled.shape[1:]).sum(0) for one in np.split(along, [taken]))
    whole = squares[first] - known_part
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - (1 - part / whole) * (count - taken - 1) / left, np.float64)


def _varies(values: Array) -> bool:
    spread = values.std(0).max(initial=0.0)
    return bool(spread > 1e-9 * np.abs(values).max(initial=0.0))


def _directions(values: Array, most: int) -> Array:
    """Values (places, width), about their mean, along at most `most` directions in which they vary most."""
    centerd: Array = values - values.mean(0)
    if centerd.shape[1] <= most:
        return centerd
    _, axes = np.linalg.eigh(centerd.T @ centerd)
    return np.asarray(centerd @ axes[:, ::-1][:, :most], np.float64)


def _basis(values: Array) -> Array:
    """An orthonormal basis of columns, whatever their sizes, without directions that are rounding."""
    scale = np.abs(values).max(0, initial=0.0)
    left, sizes, _ = np.linalg.svd(values[:, scale > 0] / scale[scale > 0], full_matrices=False)
    return np.asarray(left[:, sizes > 1e-8 * sizes.max(initial=0.0)], np.float64)


def _without(values: Array, basis: Array) -> Array:
    return np.asarray(values - basis @ (basis.T @ values), np.float64)
