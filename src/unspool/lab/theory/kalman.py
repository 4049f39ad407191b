"""Kalman: linear-Gaussian processes, and the best estimates of their hidden state from noisy readings.

The state follows z_t = A z_{t−1} + w_t, a reading is x_t = C z_t + v_t; w and v are Gaussian with covariances Q and R.
Given x_1 … x_t, the Kalman filter is the best estimator; given all of x, the smoother of Rauch, Tung and Striebel is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import ArgumentError, ShapeError

Array = NDArray[np.float64]


class Process:
    """A stable linear-Gaussian process whose first state has the stationary covariance.

    Args:
        transition: A, a number or a matrix, with a spectral radius below 1.
        reading: C.
        drive: Q, the covariance of w.
        noise: R, the covariance of v.

    Example:
        >>> states, readings = Process(0.95, 1.0, 0.1, 1.0).sample(60, batch_size=4)
        >>> states.shape, readings.shape
        ((60, 4, 1), (60, 4, 1))
    """

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


def filter_states(process: Process, readings: Array) -> Estimate:
    """The Kalman filter over readings (time, batch, width): the estimate of z_t from x_1 … x_t.

    Args:
        process: what the readings come from.
        readings: (time, batch, width).

    Returns:
        Means and covariances of the state at each step.

    Example:
        >>> process = Process(0.95, 1.0, 0.1, 1.0)
        >>> filter_states(process, process.sample(60, 4)[1]).means.shape
        (60, 4, 1)
    """
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
    """The backward pass of Rauch, Tung and Striebel over the filter's estimates: the estimate of z_t from all of x.

    Args:
        process: what the readings come from.
        found: what `filter_states` returned.

    Returns:
        Means and covariances of the state at each step.

    Example:
        >>> process = Process(0.95, 1.0, 0.1, 1.0)
        >>> smooth_states(process, filter_states(process, process.sample(60, 4)[1])).means.shape
        (60, 4, 1)
    """
    means, covariances = found.means.copy(), found.covariances.copy()
    for step in range(len(means) - 2, -1, -1):
        ahead = found.predicted_covariances[step + 1]
        # a state without noise has a singular covariance, for which the pseudoinverse is right
        gain = (np.linalg.pinv(ahead, hermitian=True) @ process.transition @ found.covariances[step]).T
        means[step] += (means[step + 1] - found.predicted_means[step + 1]) @ gain.T
        covariances[step] += gain @ (covariances[step + 1] - ahead) @ gain.T
    return Estimate(means, covariances, found.predicted_means, found.predicted_covariances)


def _matrix(name: str, values: ArrayLike) -> Array:
    found = np.atleast_2d(np.asarray(values, np.float64))
    if found.ndim != 2 or not np.isfinite(found).all():
        raise ArgumentError.of(name, values, "is not a matrix of numbers", "Give a number or a matrix")
    return found


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    found: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
