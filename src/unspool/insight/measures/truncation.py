"""Truncation: how far the gradient of truncated back-propagation is from the whole one, for every window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.insight.measures.flow import norm_of
from unspool.insight.recording import Gradient, Recording

Array = NDArray[np.float64]

#: The share of the gradient that the recommended window may lose.
TOLERANCE = 0.01
#: Windows that are measured unless the caller says how many.
LIMIT = 256
#: Steps of rows times parameters that may be passed through in all; large networks have fewer windows measured.
WORK = 2e10


@dataclass(frozen=True, eq=False)
class Truncation:
    """The bias ‖G − G_k‖ / ‖G‖ of the parameters' gradient with window k; NaN where the gradient is zero.

    Window k keeps the paths that cross fewer than k edges between steps, as `TruncatedBPTT(stride=1)` does. The windows
    end where no path is left, or at the limit.
    """

    labels: tuple[str, ...]
    windows: NDArray[np.int64]  # (windows,): 1, 2, …
    bias: Array  # (units, windows)
    overall: Array  # (windows,): over the parameters of all units
    recommended: int  # the least window whose overall bias is at most TOLERANCE; the last one if none is
    censored: bool  # none is


def measure_truncation(recording: Recording, gradient: Gradient | None = None, limit: int | None = None) -> Truncation:
    """The bias for windows up to at most `limit`; large networks may have fewer measured."""
    if limit is not None and limit < 1:
        raise ArgumentError.of("limit", limit, "leaves no window to measure", "Give at least 1")
    whole = (recording.gradient() if gradient is None else gradient).parameters
    names = [unit.name for unit in recording.units]
    rest = {unit: {name: value.clone() for name, value in whole[unit].items()} for unit in names}
    left = []
    for lag in recording.lags(min(_affordable(recording), LIMIT if limit is None else limit)):
        for unit in names:
            for name, value in lag.parameters[unit].items():
                rest[unit][name] -= value
        left.append([_norm(rest[unit]) for unit in names])
    sizes = np.array([_norm(whole[unit]) for unit in names])
    remaining = np.array(left).T
    overall = _ratio(_together(remaining), _together(sizes))
    enough = np.flatnonzero(np.nan_to_num(overall, nan=np.inf) <= TOLERANCE)
    windows = np.arange(1, len(left) + 1, dtype=np.int64)
    return Truncation(
        labels=tuple(unit.label for unit in recording.units),
        windows=windows,
        bias=_ratio(remaining, sizes[:, None]),
        overall=overall,
        recommended=int(windows[enough[0]] if len(enough) else windows[-1]),
        censored=not len(enough),
    )


def _norm(parameters: Mapping[str, torch.Tensor]) -> float:
    return norm_of(torch.tensor([norm_of(value) for value in parameters.values()], dtype=torch.float64))


def _together(norms: Array) -> Array:
    """Of parts along the first axis."""
    largest = norms.max(0, initial=0.0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return np.asarray(scale * np.sqrt(np.square(norms / scale).sum(0)), np.float64)


def _ratio(part: Array, whole: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), np.float64)


def _affordable(recording: Recording) -> int:
    passed = sum(
        int(unit.live.sum()) * (1 + sum(value.numel() for value in unit.parameters.values()))
        for unit in recording.units
    )
    return max(8, int(WORK / max(passed, 1)))
