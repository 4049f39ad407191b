"""Truncation: how far the gradient of truncated backpropagation is from the full one, for every window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.measures.flow import norm_of
from unspool.insight.recording import Gradient, Recording

Array = NDArray[np.float64]

#: The relative error of the gradient that the recommended window may have.
TOLERANCE = 0.01
#: Windows that are measured by default.
LIMIT = 256
#: A window that is longer than this fraction of the longest sequence is only a lower bound: it is short of 1 % because
#: few steps are left that could have longer paths, and with as many steps as the sequence nothing can be lost.
SHOWN = 0.5
#: Steps × parameters to follow gradients through in all; large networks have fewer windows measured.
WORK = 4e10


@dataclass(frozen=True, eq=False)
class Truncation:
    """The bias ‖G − G_k‖ / ‖G‖ of the parameters' gradient with window k; NaN if the gradient is zero.

    Window k keeps the paths that cross fewer than k edges between steps, as `TruncatedBPTT(stride=1)` does. The windows
    end when no path is left, or at the limit.
    """

    labels: tuple[str, ...]
    windows: NDArray[np.int64]  # (windows,): 1, 2, …
    bias: Array  # (layers, windows)
    overall: Array  # (windows,): over the parameters of all layers
    recommended: int  # the smallest window whose overall bias is at most TOLERANCE; the last one if none is
    censored: bool  # `recommended` is only a lower bound: no window is enough, or the sequences are too short to tell
    bptt: int | None = None  # the window of the run's training; None: all steps, or unknown

    @property
    def unmeasured(self) -> bool:
        """Whether the windows end, for want of time, before one is enough."""
        return bool(self.overall[-1] > TOLERANCE)

    @property
    def lost(self) -> float | None:
        """The overall bias with the run's own window; None if it is unknown or longer than what was measured."""
        if self.bptt is None or self.bptt > len(self.windows):
            return None
        return float(self.overall[self.bptt - 1])


def measure_truncation(
    recording: Recording, gradient: Gradient | None = None, limit: int | None = None, bptt: int | None = None
) -> Truncation:
    """The bias of the truncated gradient, by window.

    Args:
        recording: the model.
        gradient: `recording.gradient()`, if it is known already.
        limit: the longest window; large networks may have fewer measured.
        bptt: the window of the run's training, to be judged.

    Returns:
        The bias of each layer and of all together, and the smallest window that is enough.
    """
    if limit is not None and limit < 1:
        raise ArgumentError.of("limit", limit, "leaves no window to measure", "Give at least 1")
    whole = recording.gradient() if gradient is None else gradient
    sizes = np.array([_norm(whole.parameters[layer.name]) for layer in recording.layers])
    remaining = _remaining(recording, whole, min(_affordable(recording), LIMIT if limit is None else limit))
    overall = _ratio(_together(remaining), _together(sizes))
    enough = np.flatnonzero(np.nan_to_num(overall, nan=np.inf) <= TOLERANCE)
    windows = np.arange(1, remaining.shape[1] + 1, dtype=np.int64)
    recommended = int(windows[enough[0]] if len(enough) else windows[-1])
    longest = max(int(layer.live.sum(0).max()) for layer in recording.layers)
    return Truncation(
        labels=recording.labels,
        windows=windows,
        bias=_ratio(remaining, sizes[:, None]),
        overall=overall,
        recommended=recommended,
        censored=not len(enough) or recommended > max(1, SHOWN * longest),
        bptt=bptt,
    )


def _remaining(recording: Recording, whole: Gradient, windows: int) -> Array:
    """Norms of the gradient that each window leaves out, (layers, windows).

    In the model's own precision, as the whole gradient is: large models take half as long.
    """
    steps = recording.make_linear(recording.calls[0].output.dtype)
    given = zip(recording.calls, whole.by_call, steps, strict=True)
    rest = [
        step.pull(states[call.layer.live].to(step.dtype), to_input=False, to_states=False)
        for call, states, step in given
    ]
    left = []
    for lag in recording.lags(windows, steps):
        rest = [one.without(part) for one, part in zip(rest, lag.pulled, strict=True)]
        parameters = recording.find_parameters(rest, steps)
        left.append([_norm(parameters[layer.name]) for layer in recording.layers])
    return np.array(left).T


def _norm(parameters: Mapping[str, Tensor]) -> float:
    return norm_of(torch.tensor([norm_of(value) for value in parameters.values()], dtype=torch.float64))


def _together(norms: Array) -> Array:
    """The norm of parts along the first axis."""
    largest = norms.max(0, initial=0.0)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return np.asarray(scale * np.sqrt(np.square(norms / scale).sum(0)), np.float64)


def _ratio(part: Array, whole: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), np.float64)


def _affordable(recording: Recording) -> int:
    passed = sum(
        int(layer.live.sum()) * (1 + sum(value.numel() for value in layer.parameters.values()))
        for layer in recording.layers
    )
    return max(8, int(WORK / max(passed, 1)))
