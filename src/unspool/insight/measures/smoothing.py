"""Smoothing: the least error with which a hidden state can be told from noisy readings, and what networks reach.

The state follows z_t = A z_{t−1} + w_t, a reading is x_t = C z_t + v_t; w and v are Gaussian with covariances Q and R.
Who has read x_1 … x_t does best by Kalman's filter; who has read all of x, by the smoother of Rauch, Tung and Striebel.
The first is the limit of a network that reads one way, the second of one that reads both.
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
#: Reads (time, rows, readings) and says (time, rows, state).
Estimator = Callable[[Tensor], Tensor]


class Process:
    """A linear-Gaussian process; its first state has the covariance of all others, so that it must be stable."""

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
                raise ArgumentError.of(name, covariance, "is not a covariance", "Give a symmetric one, not negative")
        if np.linalg.eigvalsh(self.noise).min() <= 0:
            raise ArgumentError.of("noise", self.noise, "leaves readings without error", "Give positive variances")
        radius = float(np.abs(np.linalg.eigvals(self.transition)).max())
        if radius >= 1:
            raise ArgumentError.of(
                "transition", radius, "is a radius of 1 or more: the state grows", "Give less than 1"
            )
        squared = np.kron(self.transition, self.transition)
        start = np.linalg.solve(np.eye(size * size) - squared, self.drive.ravel()).reshape(size, size)
        self.start = (start + start.T) / 2

    def sample(self, steps: int, rows: int, seed: int = 0) -> tuple[Array, Array]:
        """States and readings, each (time, rows, width)."""
        chance = np.random.default_rng(seed)
        size, width = len(self.transition), len(self.reading)
        states = chance.standard_normal((steps, rows, size))
        states[0] = states[0] @ _root(self.start).T
        states[1:] = states[1:] @ _root(self.drive).T
        for step in range(1, steps):
            states[step] += states[step - 1] @ self.transition.T
        noise = chance.standard_normal((steps, rows, width)) @ _root(self.noise).T
        return states, states @ self.reading.T + noise


@dataclass(frozen=True, eq=False)
class Estimate:
    """What is known of the state after reading: means (time, rows, state) and, alike for all rows, covariances."""

    means: Array
    covariances: Array  # (time, state, state): their traces are the expected squared errors
    predicted_means: Array  # before the step's own reading
    predicted_covariances: Array


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Mean squared errors of the state: what must be expected of the best, and what was measured on the same sample."""

    kalman: float  # expected
    rts: float
    kalman_measured: float
    rts_measured: float
    one_way: float  # of the network that reads from the beginning
    both_ways: float
    prior: float  # of one that reads nothing
    kalman_by_step: Array  # (T,) expected
    rts_by_step: Array


def filter_states(process: Process, readings: Array) -> Estimate:
    """Kalman's filter over readings (time, rows, width): what x_1 … x_t say of z_t."""
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
        # Joseph's form: a sum of two squares cannot lose its sign to rounding
        covariance = rest @ covariance @ rest.T + gain @ process.noise @ gain.T
        means[step], covariances[step] = mean, covariance
    return Estimate(means, covariances, predicted_means, predicted_covariances)


def smooth_states(process: Process, found: Estimate) -> Estimate:
    """The pass back by Rauch, Tung and Striebel over what the filter found: what all of x says of z_t."""
    means, covariances = found.means.copy(), found.covariances.copy()
    for step in range(len(means) - 2, -1, -1):
        ahead = found.predicted_covariances[step + 1]
        # a state without noise of its own has no inverse here, and needs none
        gain = (np.linalg.pinv(ahead, hermitian=True) @ process.transition @ found.covariances[step]).T
        means[step] += (means[step + 1] - found.predicted_means[step + 1]) @ gain.T
        covariances[step] += gain @ (covariances[step + 1] - ahead) @ gain.T
    return Estimate(means, covariances, found.predicted_means, found.predicted_covariances)


def measure_smoothing(
    process: Process, one_way: Estimator, both_ways: Estimator, steps: int = 60, rows: int = 256, seed: int = 1
) -> Smoothing:
    """Filter, smoother and two networks on one sample that none of them has seen."""
    for name, value in (("steps", steps), ("rows", rows)):
        if value < 1:
            raise ArgumentError.of(name, value, "is not a positive number", "Give 1 or more")
    states, readings = process.sample(steps, rows, seed)
    filtered = filter_states(process, readings)
    smoothed = smooth_states(process, filtered)
    expected = [np.trace(one.covariances, axis1=1, axis2=2) for one in (filtered, smoothed)]

    def error(told: Array) -> float:
        return float(np.square(told - states).sum(-1).mean())

    return Smoothing(
        float(expected[0].mean()),
        float(expected[1].mean()),
        error(filtered.means),
        error(smoothed.means),
        error(_ask(one_way, readings, states.shape)),
        error(_ask(both_ways, readings, states.shape)),
        float(np.trace(process.start)),
        expected[0],
        expected[1],
    )


class StateReader(nn.Module):
    """A recurrent network that tells the state at each step."""

    def __init__(self, process: Process, cell: str = "gru", hidden: int = 16, bidirectional: bool = False) -> None:
        super().__init__()
        size, width = len(process.transition), len(process.reading)
        self.body = Stack(cell, width, hidden, 1, bidirectional=bidirectional)
        self.read_out = nn.Linear(hidden * (1 + bidirectional), size)

    def forward(self, x: Tensor) -> Tensor:
        """(time, rows, readings) → (time, rows, state)."""
        found: Tensor = self.read_out(self.body(x)[0])
        return found


def train_reader(
    process: Process,
    bidirectional: bool,
    *,
    cell: str = "gru",
    hidden: int = 16,
    steps: int = 60,
    rows: int = 64,
    updates: int = 300,
    rate: float = 0.02,
    seed: int = 0,
) -> StateReader:
    """A network trained on fresh samples of the process to tell its state with the least squared error."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = StateReader(process, cell, hidden, bidirectional)
    optimiser = torch.optim.Adam(reader.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, updates + 1)
    chance = np.random.default_rng(seed)
    for _ in range(updates):
        states, readings = process.sample(steps, rows, int(chance.integers(2**62)))
        told = reader(torch.from_numpy(readings).float())
        loss = (told - torch.from_numpy(states).float()).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return reader.eval()


def _ask(estimator: Estimator, readings: Array, shape: tuple[int, ...]) -> Array:
    with torch.no_grad():
        told = estimator(torch.from_numpy(readings).float())
    if tuple(told.shape) != shape:
        raise ShapeError.of("estimator", tuple(told.shape), f"does not tell states of {shape}", "Give one state a step")
    return told.double().numpy()


def _matrix(name: str, values: ArrayLike) -> Array:
    found = np.atleast_2d(np.asarray(values, np.float64))
    if found.ndim != 2 or not np.isfinite(found).all():
        raise ArgumentError.of(name, values, "is not a matrix of numbers", "Give a number or a matrix")
    return found


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    found: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
