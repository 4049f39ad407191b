"""Smoothing: the smallest error of estimates of a hidden state from noisy readings, and what networks reach.

The state follows z_t = A z_{t−1} + w_t, a reading is x_t = C z_t + v_t; w and v are Gaussian with covariances Q and R.
Given x_1 … x_t, the Kalman filter is the best estimator; given all of x, the smoother of Rauch, Tung and Striebel is.
The first bounds a network that reads forward, the second a bidirectional one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError, ShapeError
from unspool.nn import Stack

Array = NDArray[np.float64]
#: From readings (time, batch, width) to states (time, batch, state).
Estimator = Callable[[Tensor], Tensor]


class Process:
    """A stable linear-Gaussian process whose first state has the stationary covariance."""

    def __init__(self, transition: ArrayLike, reading: ArrayLike, drive: ArrayLike, noise: ArrayLike) -> None:
        self.transition, self.reading = _matrix("transition", transition), _matrix("reading", reading)
        self.drive, self.noise = _matrix("drive", drive), _matrix("noise", noise)
        size, width = len(self.transition), len(self.reading)
        wanted = {"transition": (size, size), "reading": (width, size), "drive": (size, size), "noise": (width, width)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise ShapeError.of(name, getattr(self, name).shape, f"is not {shape}", "Give matrices that fit")
        for name in ("drive", "noise"):
            covariance = getattr(self, name)
            if not np.array_equal(covariance, covariance.T) or np.linalg.eigvalsh(covariance).min() < 0:
                remedy = "Give a symmetric positive semidefinite matrix"
                raise ArgumentError.of(name, covariance, "is not a covariance", remedy)
        if np.linalg.eigvalsh(self.noise).min() <= 0:
            raise ArgumentError.of("noise", self.noise, "leaves readings without noise", "Give positive variances")
        radius = float(np.abs(np.linalg.eigvals(self.transition)).max())
        if radius >= 1:
            raise ArgumentError.of(
                "transition", radius, "is a spectral radius of 1 or more: the state grows", "Give less than 1"
            )
        squared = np.kron(self.transition, self.transition)
        start = np.linalg.solve(np.eye(size * size) - squared, self.drive.ravel()).reshape(size, size)
        self.start = (start + start.T) / 2

    def sample(self, steps: int, batch_size: int, seed: int = 0) -> tuple[Array, Array]:
        """States and readings, each (time, batch, width)."""
        chance = np.random.default_rng(seed)
        size, width = len(self.transition), len(self.reading)
        states = chance.standard_normal((steps, batch_size, size))
        states[0] = states[0] @ _root(self.start).T
        states[1:] = states[1:] @ _root(self.drive).T
        for step in range(1, steps):
            states[step] += states[step - 1] @ self.transition.T
        noise = chance.standard_normal((steps, batch_size, width)) @ _root(self.noise).T
        return states, states @ self.reading.T + noise


@dataclass(frozen=True, eq=False)
class Estimate:
    """Means (time, batch, state) of the state after reading, and covariances, which are the same for all sequences."""

    means: Array
    covariances: Array  # (time, state, state): their traces are the expected squared errors
    predicted_means: Array  # before the step's own reading
    predicted_covariances: Array


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


def filter_states(process: Process, readings: Array) -> Estimate:
    """The Kalman filter over readings (time, batch, width): the estimate of z_t from x_1 … x_t."""
    steps, rows = readings.shape[:2]
    size = len(process.transition)
    a, c = process.transition, process.reading
    means, predicted_means = np.empty((2, steps, rows, size))
    covariances, predicted_covariances = np.empty((2, steps, size, size))
    mean, covariance = np.zeros((rows, size)), process.start
    for step in range(steps):
        if step:
            mean, covariance = mean @ a.T, a @ covariance @ a.T + process.drive
        predicted_means[step], predicted_covariances[step] = mean, covariance
        gain = np.linalg.solve(c @ covariance @ c.T + process.noise, c @ covariance).T
        mean = mean + (readings[step] - mean @ c.T) @ gain.T
        rest = np.eye(size) - gain @ c
        # Joseph's form: rounding cannot make a sum of two squares negative
        covariance = rest @ covariance @ rest.T + gain @ process.noise @ gain.T
        means[step], covariances[step] = mean, covariance
    return Estimate(means, covariances, predicted_means, predicted_covariances)


def smooth_states(process: Process, found: Estimate) -> Estimate:
    """The backward pass of Rauch, Tung and Striebel over the filter's estimates: the estimate of z_t from all of x."""
    means, covariances = found.means.copy(), found.covariances.copy()
    for step in range(len(means) - 2, -1, -1):
        ahead = found.predicted_covariances[step + 1]
        # a state without noise has a singular covariance, for which the pseudoinverse is right
        gain = (np.linalg.pinv(ahead, hermitian=True) @ process.transition @ found.covariances[step]).T
        means[step] += (means[step + 1] - found.predicted_means[step + 1]) @ gain.T
        covariances[step] += gain @ (covariances[step + 1] - ahead) @ gain.T
    return Estimate(means, covariances, found.predicted_means, found.predicted_covariances)


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


def _matrix(name: str, values: ArrayLike) -> Array:
    found = np.atleast_2d(np.asarray(values, np.float64))
    if found.ndim != 2 or not np.isfinite(found).all():
        raise ArgumentError.of(name, values, "is not a matrix of numbers", "Give a number or a matrix")
    return found


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    found: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
