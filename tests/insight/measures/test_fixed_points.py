"""Fixed points against systems in which they are known, and every cell's against their definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import LENGTHS, as_state, as_states, each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman, Leaky, Linear
from unspool.errors import ArgumentError
from unspool.insight.measures.fixed_points import FIXED, SLOW, find_points, measure_fixed_points
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent, Stack


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def set_all(module: Any, **values: Any) -> None:
    with torch.no_grad():
        for name, parameter in module.cell_parameters().items():
            given = torch.as_tensor(values.get(name, 0.0), dtype=parameter.dtype)
            parameter.copy_(given.expand_as(parameter))


@each_cell
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_every_point_is_what_it_says(cell: Cell, layers: int, both: bool) -> None:
    """At the mean input, the layer itself is run from each point, and differentiated there."""
    model = small_stack(cell, layers, both)
    recording = recorded(model, small_input(cell), LENGTHS)
    found = measure_fixed_points(recording, starts=12)
    for layer, points in zip(recording.layers, found.sets, strict=True):
        assert points.label == layer.label
        module, widths = model.get_submodule(layer.name), list(layer.widths.values())
        inputs = [layer.x[t, row] for row, length in enumerate(LENGTHS) for t in range(length)]
        x = torch.stack(inputs).mean(0).reshape(1, 1, -1)

        def step(state: Tensor, x: Tensor = x, module: Any = module, widths: list[int] = widths) -> Tensor:
            return torch.cat(as_states(module(x, as_state(state.unsqueeze(0).split(widths, -1)))[1]), -1)[0]

        for n, point in enumerate(torch.from_numpy(points.points)):
            speed = float((step(point) - point).detach().square().sum() / 2)
            np.testing.assert_allclose(points.speed[n], speed, rtol=1e-6, atol=1e-24)
            assert speed <= SLOW
            assert points.slow[n] == (speed > FIXED * (1 + float(point.norm())) ** 2)
            matrix = torch.autograd.functional.jacobian(step, point).numpy()
            beside = [torch.autograd.functional.jacobian(step, point + by).numpy() for by in (1e-7, -1e-7)]
            if not np.allclose(beside[0], beside[1], atol=1e-4):
                continue  # at the kink of a relu, where there are two Jacobians
            for value in points.eigenvalues[n]:  # each makes J − λ singular
                smallest = np.linalg.svd(matrix - value * np.eye(len(matrix)), compute_uv=False)[-1]
                assert smallest < 1e-8
            np.testing.assert_allclose(points.eigenvalues[n].sum(), np.trace(matrix), atol=1e-9)
            assert points.stable[n] == (np.abs(np.linalg.eigvals(matrix)).max() < 1)
            others = np.delete(points.points, n, 0)
            assert not len(others) or np.linalg.norm(others - points.points[n], axis=1).min() > 1e-3
        np.testing.assert_allclose(points.plane, (points.points - points.centre) @ points.axes.T, atol=1e-12)
        longest = LENGTHS.index(5)
        way = layer.after[:, longest].numpy()[:: -1 if layer.reverse else 1]
        np.testing.assert_allclose(points.trajectories[0], (way - points.centre) @ points.axes.T, atol=1e-12)
        assert np.isnan(points.trajectories[-1, 1:]).all()  # the row of one step


def test_bistable_scalar() -> None:
    """tanh(w h) with w above 1: zero, unstable with slope w, and two stable points beside it."""
    module = Recurrent(Elman(), 1, 1, dtype=torch.float64)
    set_all(module, U_h=1.5, W_h=1.0)
    x = torch.tensor([1.0, -1.0, 0.5, -0.5] * 6, dtype=torch.float64).reshape(24, 1, 1)
    (points,) = measure_fixed_points(recorded(module, x)).sets
    side = brentq(lambda h: math.tanh(1.5 * h) - h, 0.5, 1.0, xtol=1e-14)
    order = np.argsort(points.points[:, 0])
    np.testing.assert_allclose(points.points[order, 0], [-side, 0, side], atol=1e-9)
    assert points.stable[order].tolist() == [True, False, True]
    slope = 1.5 * (1 - side**2)
    np.testing.assert_allclose(points.eigenvalues[order, 0], [slope, 1.5, slope], rtol=1e-8)
    assert not points.slow.any()
    np.testing.assert_array_equal(points.axes, [[1.0], [0.0]])
    np.testing.assert_allclose(points.explained, [1.0, 0.0])


def test_hopfield() -> None:
    """Two orthogonal patterns stored by Hebb's rule with gain 2: ±m·pattern with m = tanh(2m), stable."""
    patterns = np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1]], float)
    module = Recurrent(Elman(), 1, 8, dtype=torch.float64)
    set_all(module, U_h=2 * torch.from_numpy(patterns.T @ patterns) / 8)
    starts = torch.from_numpy(np.concatenate([patterns, -patterns])) * 0.3
    starts = starts + 0.05 * torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    recording = record(module, lambda model: loss_of(model(torch.zeros(12, 4, 1, dtype=torch.float64), starts)[0]))
    (points,) = measure_fixed_points(recording).sets
    m = brentq(lambda m: math.tanh(2 * m) - m, 0.5, 1.0, xtol=1e-14)
    for pattern in (*patterns, *-patterns):
        near = np.abs(points.points - m * pattern).max(1)
        assert near.min() < 1e-9
        place = near.argmin()
        assert points.stable[place]
        expected = np.zeros(8)
        expected[:2] = 2 * (1 - m**2)
        np.testing.assert_allclose(points.eigenvalues[place].real, expected, atol=1e-8)
    (origin,) = np.flatnonzero(np.abs(points.points).max(1) < 1e-9)
    assert not points.stable[origin]


def test_two_layer_euler_system() -> None:
    """λ = (−0.7, 0.3) of the continuous system at the origin: unstable, for the second layer is."""
    dt, alpha, a, c2 = 0.05, (1.2, 0.8), (0.5, 1.1), 0.9
    model = Stack([Leaky(dt, alpha[0]), Leaky(dt, alpha[1])], 1, 1, bias=False, dtype=torch.float64)
    for module, own, read in zip(model.layers, a, (0.0, c2), strict=True):
        set_all(module, U_h=own, W_h=read)
    recording = recorded(model, torch.zeros(5, 1, 1, dtype=torch.float64))
    lower, upper = recording.layers

    def joint(states: Tensor) -> Tensor:
        first, second = states[:, :1], states[:, 1:]
        return torch.cat([lower.advance(torch.zeros_like(first), first), upper.advance(first, second)], -1)

    found = find_points(joint, torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    (origin,) = np.flatnonzero(np.abs(found.points).max(1) < 1e-8)
    rates = (found.eigenvalues[origin] - 1) / dt
    np.testing.assert_allclose(sorted(rates.real), [-0.7, 0.3], atol=1e-9)
    assert not found.stable[origin]
    matrix = torch.autograd.functional.jacobian(lambda s: joint(s.unsqueeze(0))[0], torch.zeros(2, dtype=torch.float64))
    np.testing.assert_allclose((matrix.numpy() - np.eye(2)) / dt, [[-0.7, 0.0], [c2, 0.3]], atol=1e-12)
    side = brentq(lambda h: math.tanh(1.1 * h) - 0.8 * h, 0.5, 2.0, xtol=1e-14)
    order = np.argsort(found.points[:, 1])
    np.testing.assert_allclose(found.points[order], [[0, -side], [0, 0], [0, side]], atol=1e-8)
    assert found.stable[order].tolist() == [True, False, True]
    alone = measure_fixed_points(recording).sets
    np.testing.assert_allclose((alone[0].eigenvalues - 1) / dt, [[-0.7]], atol=1e-9)
    assert alone[0].stable.all()
    zero = np.abs(alone[1].points[:, 0]) < 1e-8
    np.testing.assert_allclose((alone[1].eigenvalues[zero] - 1) / dt, [[0.3]], atol=1e-9)


def test_slow_point() -> None:
    """s + s² + ε has no fixed point; where it is slowest, at 0, its speed is ε²/2 and its slope 1."""
    starts = torch.linspace(-0.5, 0.5, 9, dtype=torch.float64).unsqueeze(-1)
    found = find_points(lambda s: s + s * s + 1e-3, starts)
    assert found.slow.all()
    assert len(found.points)
    np.testing.assert_allclose(found.points[0], [0.0], atol=1e-4)
    np.testing.assert_allclose(found.speed[0], 0.5e-6, rtol=1e-3)
    fast = find_points(lambda s: s + s * s + 1e-1, starts)
    assert len(fast.points) == 0


def test_linear_with_input() -> None:
    """(1 − U)⁻¹ W x̄, and the plane is that of the principal components."""
    torch.manual_seed(0)
    module = Recurrent(Linear(), 2, 3, dtype=torch.float64)
    x = torch.randn(30, 2, 2, dtype=torch.float64) + 1
    recording = recorded(module, x)
    (points,) = measure_fixed_points(recording).sets
    parameters = {name: value.detach() for name, value in module.cell_parameters().items()}
    mean = parameters["W_h"] @ x.mean((0, 1))
    expected = torch.linalg.solve(torch.eye(3, dtype=torch.float64) - parameters["U_h"], mean)
    np.testing.assert_allclose(points.points, [expected.numpy()], rtol=1e-9)
    states = recording.layers[0].after.reshape(-1, 3).numpy()
    values, vectors = np.linalg.eigh(np.cov(states.T))
    np.testing.assert_allclose(points.explained, values[[2, 1]] / values.sum(), rtol=1e-9)
    np.testing.assert_allclose(np.abs(points.axes @ vectors[:, [2, 1]]), np.eye(2), atol=1e-9)


def test_nothing_to_search() -> None:
    module = Recurrent("lstm", 2, 3, dtype=torch.float64)
    x = torch.randn(4, 1, 2, dtype=torch.float64)
    (none,) = measure_fixed_points(recorded(module, x, [0])).sets
    assert none.points.shape == (0, 6)
    assert np.isnan(none.centre).all()
    (one,) = measure_fixed_points(recorded(module, x[:1])).sets
    assert len(one.points) == 1
    with torch.no_grad():
        module.cell_parameters()["U_i"][0, 0] = torch.nan
    (broken,) = measure_fixed_points(recorded(module, x)).sets
    assert broken.points.shape == (0, 6)
    with pytest.raises(ArgumentError, match="starts"):
        measure_fixed_points(recorded(module, x), starts=0)
