"""Smoothing: filter and smoother against conditioning the whole joint Gaussian, and networks against both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from unspool.errors import ArgumentError, ShapeError
from unspool.lab.theory.kalman import Array, Process, filter_states, smooth_states
from unspool.lab.theory.smoothing import StateReader, measure_smoothing, train_reader

SCALAR = Process(0.95, 1.0, 0.1, 1.0)
ROTATING = Process([[0.8, 0.4], [-0.4, 0.8]], [[1.0, 0.2]], [[0.3, 0.1], [0.1, 0.2]], [[0.5]])
SILENT = Process([[0.9, 0.5], [0.0, 0.7]], [[1.0, 0.0], [0.5, 1.0]], [[0.0, 0.0], [0.0, 0.4]], np.diag([1.0, 2.0]))
each_process = pytest.mark.parametrize("process", [SCALAR, ROTATING, SILENT], ids=["scalar", "rotating", "silent"])


def condition(process: Process, readings: Array, seen: int, step: int) -> tuple[Array, Array]:
    """Mean and covariance of z at `step` given x before `seen`, from the covariance of everything with everything."""
    steps, size, width = len(readings), len(process.transition), len(process.reading)
    joint = np.zeros((steps, size, steps, size))
    for a in range(steps):
        for b in range(a, steps):
            joint[b, :, a] = np.linalg.matrix_power(process.transition, b - a) @ process.start
            joint[a, :, b] = joint[b, :, a].T
    whole = joint.reshape(steps * size, steps * size)
    reads = np.kron(np.eye(steps), process.reading)
    of_readings = (reads @ whole @ reads.T + np.kron(np.eye(steps), process.noise))[: seen * width, : seen * width]
    between = (whole @ reads.T)[step * size : (step + 1) * size, : seen * width]
    weights = between @ np.linalg.inv(of_readings)
    mean = readings[:seen].transpose(1, 0, 2).reshape(readings.shape[1], -1) @ weights.T
    return mean, joint[step, :, step] - weights @ between.T


@each_process
def test_filter_and_smoother_are_the_conditional_expectations(process: Process) -> None:
    steps = 7
    _, readings = process.sample(steps, 3)
    filtered = filter_states(process, readings)
    smoothed = smooth_states(process, filtered)
    for step in range(steps):
        for found, seen in ((filtered, step + 1), (smoothed, steps)):
            mean, covariance = condition(process, readings, seen, step)
            np.testing.assert_allclose(found.means[step], mean, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(found.covariances[step], covariance, rtol=1e-9, atol=1e-11)


@each_process
def test_a_smoother_is_never_expected_to_be_worse(process: Process) -> None:
    """By the recursions: P_filter − P_smoother has no negative eigenvalue at any step, and is 0 at the last."""
    filtered = filter_states(process, np.zeros((40, 1, len(process.reading))))
    smoothed = smooth_states(process, filtered)
    gained = filtered.covariances - smoothed.covariances
    assert np.linalg.eigvalsh(gained).min() > -1e-12
    assert np.trace(gained, axis1=1, axis2=2)[:-1].min() > 1e-4
    np.testing.assert_array_equal(gained[-1], 0.0)
    # what is known before a reading is no more than what is known after it
    assert np.linalg.eigvalsh(filtered.predicted_covariances - filtered.covariances).min() > -1e-12


def test_the_scalar_filter_settles_at_riccatis_root() -> None:
    a, q, r = 0.95, 0.1, 1.0
    found = filter_states(SCALAR, np.zeros((200, 1, 1)))
    # P⁻ = a² P⁻ r / (P⁻ + r) + q
    b = r - a * a * r - q
    predicted = (-b + np.sqrt(b * b + 4 * q * r)) / 2
    assert found.predicted_covariances[-1, 0, 0] == pytest.approx(predicted, rel=1e-10)
    assert found.covariances[-1, 0, 0] == pytest.approx(predicted * r / (predicted + r), rel=1e-10)


@each_process
def test_samples_have_the_covariances_that_the_process_says(process: Process) -> None:
    states, readings = process.sample(3, 200_000)
    for step in range(3):
        np.testing.assert_allclose(np.cov(states[step].T).reshape(process.start.shape), process.start, atol=0.03)
    lagged = states[2].T @ states[1] / states.shape[1]
    np.testing.assert_allclose(lagged, process.transition @ process.start, atol=0.03)
    rest = (readings - states @ process.reading.T)[1]
    np.testing.assert_allclose(np.atleast_2d(np.cov(rest.T)), process.noise, atol=0.03)


def test_the_error_is_what_the_covariances_promise() -> None:
    nothing = [StateReader(ROTATING, "elman", 2, both) for both in (False, True)]
    found = measure_smoothing(ROTATING, nothing[0], nothing[1], steps=30, batch_size=4000)
    assert found.kalman_measured == pytest.approx(found.kalman, rel=0.03)
    assert found.rts_measured == pytest.approx(found.rts, rel=0.03)
    assert found.kalman == pytest.approx(found.kalman_by_step.mean())
    assert found.rts == pytest.approx(found.rts_by_step.mean())
    assert found.rts < found.kalman < found.prior == pytest.approx(np.trace(ROTATING.start))


def test_estimators_are_measured_by_their_own_errors() -> None:
    states, readings = SCALAR.sample(9, 5, seed=3)
    found = measure_smoothing(SCALAR, lambda x: x, lambda x: 0.0 * x, steps=9, batch_size=5, seed=3)
    assert found.forward == pytest.approx(np.square(readings - states).mean(), rel=1e-6)
    assert found.bidirectional == pytest.approx(np.square(states).mean(), rel=1e-6)


def test_networks_approach_filter_and_smoother() -> None:
    state = torch.random.get_rng_state()
    forward, bidirectional = (train_reader(SCALAR, both, hidden=8, steps=40, updates=120) for both in (False, True))
    assert torch.equal(torch.random.get_rng_state(), state)
    found = measure_smoothing(SCALAR, forward, bidirectional, steps=40)
    assert found.kalman_measured <= found.forward < 1.06 * found.kalman_measured
    assert found.rts_measured <= found.bidirectional < 1.10 * found.rts_measured
    assert found.bidirectional < 0.8 * found.forward


def test_wrong_processes_are_refused() -> None:
    wrong: Any
    for wrong in ((1.0, 1, 1, 1), (0.5, 1, -1, 1), (0.5, 1, 1, 0), (0.5, 1, np.nan, 1)):
        with pytest.raises(ArgumentError, match="Give"):
            Process(*wrong)
    with pytest.raises(ArgumentError, match="covariance"):
        Process(np.eye(2) / 2, [[1.0, 0.0]], [[1.0, 0.5], [0.0, 1.0]], 1.0)
    with pytest.raises(ShapeError, match="reading"):
        Process(np.eye(2) / 2, [[1]], np.eye(2), 1)
    with pytest.raises(ArgumentError, match="batch_size"):
        measure_smoothing(SCALAR, lambda x: x, lambda x: x, batch_size=0)
    with pytest.raises(ShapeError, match="one state per step"):
        measure_smoothing(SCALAR, lambda x: x[0], lambda x: x)
