"""Smoothing: the smallest error of estimates of a hidden state from noisy readings, and what networks reach.

The Kalman filter bounds a network that reads forward, the smoother of Rauch, Tung and Striebel a bidirectional one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError, ShapeError
from unspool.lab.theory.kalman import Process, filter_states, smooth_states
from unspool.nn import Stack

Array = NDArray[np.float64]
#: From readings (time, batch, width) to states (time, batch, state).
Estimator = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Mean squared errors of the state: those expected of the best estimator, and those measured on one sample."""

    kalman: float  # expected
    rts: float
    kalman_measured: float
    rts_measured: float
    forward: float  # of the network that reads forward
    bidirectional: float  # of the network that reads in both directions
    prior: float  # of an estimator that reads nothing
    kalman_by_step: Array  # (T,) expected
    rts_by_step: Array


def measure_smoothing(
    process: Process,
    forward: Estimator,
    bidirectional: Estimator,
    steps: int = 60,
    batch_size: int = 256,
    seed: int = 1,
) -> Smoothing:
    """Compare the filter, the smoother and two networks on one sample that none of them has seen.

    Args:
        process: draws states and readings.
        forward: an estimator that reads forward, such as `train_reader(process, bidirectional=False)`.
        bidirectional: an estimator that reads in both directions.
        steps: length of the sample's sequences.
        batch_size: number of the sample's sequences.
        seed: of the sample.

    Returns:
        Mean squared errors, expected and measured.

    Example:
        >>> process = Process([[0.95]], [[1.0]], [[0.1]], [[1.0]])
        >>> readers = [train_reader(process, both) for both in (False, True)]  # doctest: +SKIP
        >>> measure_smoothing(process, *readers).bidirectional  # doctest: +SKIP
    """
    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if value < 1:
            raise ArgumentError.of(name, value, "is not a positive number", "Give 1 or more")
    states, readings = process.sample(steps, batch_size, seed)
    filtered = filter_states(process, readings)
    smoothed = smooth_states(process, filtered)
    expected = [np.trace(one.covariances, axis1=1, axis2=2) for one in (filtered, smoothed)]

    def error(predicted: Array) -> float:
        return float(np.square(predicted - states).sum(-1).mean())

    return Smoothing(
        float(expected[0].mean()),
        float(expected[1].mean()),
        error(filtered.means),
        error(smoothed.means),
        error(_estimate(forward, readings, states.shape)),
        error(_estimate(bidirectional, readings, states.shape)),
        float(np.trace(process.start)),
        expected[0],
        expected[1],
    )


class StateReader(nn.Module):
    """A recurrent network that predicts the state at each step."""

    def __init__(self, process: Process, cell: str = "gru", hidden: int = 16, bidirectional: bool = False) -> None:
        super().__init__()
        size, width = len(process.transition), len(process.reading)
        self.backbone = Stack(cell, width, hidden, 1, bidirectional=bidirectional)
        self.head = nn.Linear(hidden * (1 + bidirectional), size)

    def forward(self, x: Tensor) -> Tensor:
        """(time, batch, readings) → (time, batch, state)."""
        predicted: Tensor = self.head(self.backbone(x)[0])
        return predicted


def train_reader(
    process: Process,
    bidirectional: bool,
    *,
    cell: str = "gru",
    hidden: int = 16,
    steps: int = 60,
    batch_size: int = 64,
    updates: int = 300,
    lr: float = 0.02,
    seed: int = 0,
) -> StateReader:
    """Train a network on fresh samples of the process to predict its state with the smallest squared error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = StateReader(process, cell, hidden, bidirectional)
    optimizer = torch.optim.Adam(reader.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, updates + 1)
    chance = np.random.default_rng(seed)
    for _ in range(updates):
        states, readings = process.sample(steps, batch_size, int(chance.integers(2**62)))
        predicted = reader(torch.from_numpy(readings).float())
        loss = (predicted - torch.from_numpy(states).float()).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return reader.eval()


def _estimate(estimator: Estimator, readings: Array, shape: tuple[int, ...]) -> Array:
    with torch.no_grad():
        predicted = estimator(torch.from_numpy(readings).float())
    if tuple(predicted.shape) != shape:
        problem = f"is the shape of its prediction, not {shape}"
        raise ShapeError.of("estimator", tuple(predicted.shape), problem, "Predict one state per step")
    return predicted.double().numpy()
