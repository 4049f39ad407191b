"""Saliency: how much an output depends on each step of the input, by gradient × input and by removing the step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError
from unspool.insight.lesion import loss_with
from unspool.insight.recorder import Edit
from unspool.insight.recording import Gradient, Recording
from unspool.nn.unroll import States

Array = NDArray[np.float64]

#: What a removed step is replaced by.
BASELINES = ("zero", "mean")


@dataclass(frozen=True, eq=False)
class Saliency:
    """How much one number, such as a loss, depends on each step of one sequence."""

    output: float  # the number
    sequence: int
    baseline: str  # what stands for an input that says nothing: "zero", or the "mean" over the data
    product: Array  # (steps,): ∂output/∂x_t · (x_t − baseline): the change that a removal makes, to first order
    gradient: Array  # (steps,): ‖∂output/∂x_t‖
    removal: Array  # (steps,): output − the output with x_t at the baseline; NaN where the time did not suffice


def measure_saliency(
    recording: Recording,
    sequence: int = 0,
    baseline: str = "zero",
    seconds: float | None = None,
    gradient: Gradient | None = None,
    shape: tuple[int, int] | None = None,
) -> Saliency:
    """How much the recorded number depends on each step of a sequence.

    What was recorded decides which output is explained: `record(model, run)` follows the number that `run` returns, a
    loss, or the score of one class at one step. A step is what the lowest layer reads there, such as an embedding.

    Args:
        recording: the model and the chosen output.
        sequence: the number of the sequence in the batch.
        baseline: what a step is replaced by: "zero", or "mean", the mean input.
        seconds: the time that removals may take; the last steps come first. By default all are removed, each in a run
            of its own.
        gradient: of the recording, if it is known already.
        shape: steps and sequences of the layers whose input is explained; by default those of the lowest layer. A model
            that reads words as well as their letters has a layer of letters below that of words.

    Returns:
        Both saliencies by step; above 0 the step raises the output.

    Example:
        >>> x = torch.randn(9, 2, 3)
        >>> recording = record(torch.nn.GRU(3, 4), lambda model: model(x)[0][-1, 0, 2])  # unit 2 at the end
        >>> measure_saliency(recording).product.shape
        (9,)
    """
    if baseline not in BASELINES:
        raise ArgumentError.of("baseline", baseline, "is unknown", f"Choose from {', '.join(BASELINES)}")
    if seconds is not None and (not is_number(seconds) or not seconds >= 0):
        raise ArgumentError.of("seconds", seconds, "is not a time", "Give a number of seconds, or None for all steps")
    names = _entrances(recording) if shape is None else _readers(recording, shape)
    lowest = next(layer for layer in recording.layers if layer.name == names[0])
    rows = lowest.live.shape[1]
    if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence < rows:
        raise ArgumentError.of("sequence", sequence, f"is none of the {rows} sequences", f"Give 0 to {rows - 1}")
    inputs = (recording.gradient() if gradient is None else gradient).inputs
    steps = int(lowest.live[:, sequence].sum())
    zero = torch.zeros_like(lowest.x[0, 0])
    at = zero if baseline == "zero" else lowest.x[lowest.live].mean(0)
    whole = sum((inputs[name] for name in names), torch.zeros_like(lowest.x))[:steps, sequence]
    return Saliency(
        output=float(recording.loss.detach()),
        sequence=sequence,
        baseline=baseline,
        product=(whole * (lowest.x[:steps, sequence] - at)).sum(-1).numpy(),
        gradient=whole.norm(dim=-1).numpy(),
        removal=_remove(recording, names, sequence, steps, at, seconds),
    )


def _entrances(recording: Recording) -> list[str]:
    """Names of the lowest layers, all of which read the same input, over the steps of the first."""
    lengths = {layer.name: (tuple(layer.live.shape), layer.x.shape[-1]) for layer in recording.layers}
    names = list(dict.fromkeys(recording.calls[number].layer.name for number in recording.entrances))
    if not names:
        raise ArgumentError.of("recording", None, "has no layer that reads the input", "Record the whole model")
    return [name for name in names if lengths[name] == lengths[names[0]]]


def _readers(recording: Recording, shape: tuple[int, int]) -> list[str]:
    """Names of the lowest layers that run these steps of these sequences; not those that read the letters of words."""
    fitting = [layer for layer in recording.layers if tuple(layer.live.shape) == tuple(shape)]
    if not fitting:
        raise ArgumentError.of("shape", shape, "is that of no layer", "Give the steps and sequences of a layer")
    return [layer.name for layer in fitting if layer.level == fitting[0].level]


def _remove(
    recording: Recording, names: list[str], sequence: int, steps: int, at: Tensor, seconds: float | None
) -> Array:
    """The output lost by removing each step, the last one first, until the time is over."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    found = np.full(steps, np.nan)
    output = float(recording.loss.detach())
    places = dict(_places(recording, names))
    for step in reversed(range(steps)):
        if time.monotonic() >= until:
            break
        found[step] = output - loss_with(recording, _replace(places, step, sequence, at))
    return found


def _places(recording: Recording, names: list[str]) -> Iterator[tuple[int, int]]:
    """Calls at the entrance, each with the number of its first step."""
    passed = dict.fromkeys(names, 0)
    for number, call in enumerate(recording.calls):
        if call.layer.name in passed:
            yield number, passed[call.layer.name]
            passed[call.layer.name] += len(call.layer.x)


def _replace(places: dict[int, int], step: int, sequence: int, at: Tensor) -> Edit:
    """The edit that puts the baseline in the place of one step of one sequence."""

    def edit(number: int, x: Tensor, starts: States) -> tuple[Tensor, States]:
        own = step - places[number] if number in places else -1
        if 0 <= own < len(x):
            x = x.clone()
            x[own, sequence] = at.to(x)
        return x, starts

    return edit
