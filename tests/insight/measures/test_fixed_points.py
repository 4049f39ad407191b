"""Fixed points of layers and recordings against systems in which they are known, and every cell's by definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from tests.insight.models import Wired, each_wide_cell, loss_of, small_input, small_stack, stack_of
from tests.variants import LENGTHS, as_state, as_states, each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman, Leaky, Linear
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.insight.measures.fixed_points import (
    FEWEST_EVALUATIONS,
    FEWEST_JACOBIANS,
    FixedPoints,
    find_points,
    measure_fixed_points,
)
from unspool.insight.points.search import FIXED, SLOW
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent, Stack


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def set_all(module: Any, **values: Any) -> None:
    with torch.no_grad():
        for name, parameter in module.cell_parameters().items():
            given = torch.as_tensor(values.get(name, 0.0), dtype=parameter.dtype)
            parameter.copy_(given.expand_as(parameter))


def check_points(found: FixedPoints, number: int, step: Any, tolerance: float = 1e-8) -> None:
    """Each point is what it says: by the step of the model itself, (states,) → (states,)."""
    one = found.sets[number]
    assert (np.diff(one.residual[len(one.continua) :]) >= 0).all()
    for n, point in enumerate(torch.from_numpy(one.points)):
        residual = float((step(point) - point).detach().square().sum() / 2)
        np.testing.assert_allclose(one.residual[n], residual, rtol=1e-6, atol=1e-24)
        assert residual <= SLOW
        matrix = torch.autograd.functional.jacobian(step, point).numpy()
        beside = [torch.autograd.functional.jacobian(step, point + by).numpy() for by in (1e-7, -1e-7)]
        if not np.allclose(beside[0], beside[1], atol=1e-4):
            continue  # at the kink of a relu, where there are two Jacobians
        for value in one.eigenvalues[n]:  # each makes J − λ singular
            assert np.linalg.svd(matrix - value * np.eye(len(matrix)), compute_uv=False)[-1] < tolerance
        np.testing.assert_allclose(one.eigenvalues[n].sum(), np.trace(matrix), atol=1e-9)
        for value, mode in zip(one.eigenvalues[n], one.modes[n], strict=False):
            assert np.linalg.norm(matrix @ mode - value * mode) < 1e-6
        assert one.stable[n] == (np.abs(np.linalg.eigvals(matrix)).max() < 1)


@each_cell
def test_every_point_of_a_stack_is_what_it_says(cell: Cell) -> None:
    """At the mean input, the whole stack is run from each point, and differentiated there."""
    model = small_stack(cell, 2)
    x = small_input(cell)
    recording = recorded(model, x, LENGTHS)
    width = sum(layer.after.shape[-1] for layer in recording.layers)
    # Half of the budget is that of the mean input; zero is held if the other half is enough for states so wide.
    budget = max(16_000, 2 * (FEWEST_EVALUATIONS + FEWEST_JACOBIANS * width))
    found = measure_fixed_points(recording, starts=12, budget=budget)
    mean = torch.stack([x[t, row] for row, length in enumerate(LENGTHS) for t in range(length)]).mean(0)
    widths = [list(layer.widths.values()) for layer in recording.layers]
    sizes = [sum(each) for each in widths]

    def step(state: Tensor) -> Tensor:
        parts = state.unsqueeze(0).split(sizes, -1)
        before = [as_state(part.split(each, -1)) for part, each in zip(parts, widths, strict=True)]
        after = model(mean.reshape(1, 1, -1), before)[1]
        return torch.cat([torch.cat(as_states(each), -1) for each in after], -1)[0]

    assert [(one.label, one.held) for one in found.sets] == [
        ("layer 1 to layer 2", "mean input"),
        ("layer 1 to layer 2", "zero input"),
    ]
    check_points(found, 0, step)
    (portrait,) = found.portraits
    assert portrait.alone == ""
    longest = LENGTHS.index(5)
    way = torch.cat([layer.after[:, longest] for layer in recording.layers], -1).numpy()
    np.testing.assert_allclose(portrait.trajectories[0], (way - portrait.center) @ portrait.axes.T, atol=1e-12)
    np.testing.assert_allclose(
        found.sets[0].plane, (found.sets[0].points - portrait.center) @ portrait.axes.T, atol=1e-12
    )
    assert np.isnan(portrait.trajectories[-1, 1:]).all()  # the row of one step


@each_wide_cell
def test_points_of_a_matrix_of_state(cell: Cell) -> None:
    """They are found by products alone, and their leading eigenvalue is approximate."""
    model = stack_of(cell)
    recording = recorded(model, small_input(cell))
    found = measure_fixed_points(recording, budget=24_000)
    (layer,) = recording.layers
    mean = layer.x.mean((0, 1))
    spread = float(layer.after.flatten(0, 1).var(0, correction=0).sum().sqrt())
    for one, x in zip(found.sets, (mean, torch.zeros_like(mean)), strict=True):
        assert len(one.points) >= 1
        for n, point in enumerate(torch.from_numpy(one.points)):

            def step(state: Tensor, x: Tensor = x) -> Tensor:
                before = as_state(state.unsqueeze(0).split(list(layer.widths.values()), -1))
                return torch.cat(as_states(model.layers[0](x.reshape(1, 1, -1), before)[1]), -1)[0]

            residual = float((step(point) - point).detach().square().sum() / 2)
            np.testing.assert_allclose(one.residual[n], residual, rtol=1e-6, atol=1e-24)
            assert residual <= FIXED * (spread + float(point.norm())) ** 2
            radius = np.abs(np.linalg.eigvals(torch.autograd.functional.jacobian(step, point).numpy())).max()
            np.testing.assert_allclose(np.abs(one.eigenvalues[n, 0]), radius, rtol=1e-6)
            assert one.stable[n] == bool((np.abs(one.eigenvalues[n]) < 1).all())


@pytest.mark.parametrize(
    "options", [{"residual": [True, False, True]}, {"skip": True}, {"skip": True, "residual": [True, False, False]}]
)
def test_wires_of_a_stack_are_recognized(options: dict[str, Any]) -> None:
    """Also where the data is zero, on which all wirings look alike."""
    torch.manual_seed(1)
    model = Stack("gru", 4, [4, 3, 2] if "skip" in options else 4, 3, dtype=torch.float64, bias=False, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    recording = recorded(model, torch.zeros(5, 2, 4, dtype=torch.float64))
    held = torch.tensor([0.5, -1.0, 0.3, 0.1], dtype=torch.float64)
    found = measure_fixed_points(recording, inputs={"x": held}, starts=8, budget=8_000)
    parts = [int(layer.after.shape[-1]) for layer in recording.layers]

    def step(state: Tensor) -> Tensor:
        return torch.cat(model(held.reshape(1, 1, -1), list(state.unsqueeze(0).split(parts, -1)))[1], -1)[0]

    assert found.sets[0].label == "layer 1 to layer 3"
    assert len(found.sets[0].points)
    check_points(found, 0, step)


def test_each_direction_is_searched_by_itself() -> None:
    torch.manual_seed(0)
    model = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dtype=torch.float64)
    x = torch.randn(9, 2, 3, dtype=torch.float64)
    recording = record(model, lambda model: model(x)[0].sum())
    found = measure_fixed_points(recording, starts=8)
    assert [(one.label, one.held) for one in found.sets] == [
        *[(f"layer 1 {arrow}", held) for arrow in "→←" for held in ("mean input", "zero input")],
        *[(f"layer 2 {arrow}", "mean input") for arrow in "→←"],
    ]
    assert all("no joint state" in portrait.alone for portrait in found.portraits)
    for number, layer in ((0, 0), (2, 1), (4, 2), (5, 3)):
        one = recording.layers[layer]
        mean = one.x.mean((0, 1)).unsqueeze(0)
        check_points(found, number, lambda s, one=one, mean=mean: one.advance(mean, s.unsqueeze(0))[0])


def test_layers_with_something_between_them_are_apart() -> None:
    model = Wired()
    x = torch.randn(9, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = measure_fixed_points(record(model, lambda model: loss_of(model(x))), starts=4, budget=5_000)
    assert [portrait.label for portrait in found.portraits][-1] == "above layer 1"
    assert "does not read" in found.portraits[-1].alone


def test_bistable_scalar() -> None:
    """tanh(w h) with w above 1: zero, unstable with slope w, and two stable points beside it."""
    module = Recurrent(Elman(), 1, 1, dtype=torch.float64)
    set_all(module, U_h=1.5, W_h=1.0)
    x = torch.tensor([1.0, -1.0, 0.5, -0.5] * 6, dtype=torch.float64).reshape(24, 1, 1)
    found = measure_fixed_points(recorded(module, x), dt=0.5)
    (points,), (portrait,) = found.sets, found.portraits
    assert points.held == "zero input"  # which the mean is
    side = brentq(lambda h: math.tanh(1.5 * h) - h, 0.5, 1.0, xtol=1e-14)
    order = np.argsort(points.points[:, 0])
    np.testing.assert_allclose(points.points[order, 0], [-side, 0, side], atol=1e-9)
    assert [points.kind[n] for n in order] == ["stable", "unstable", "stable"]
    slope = 1.5 * (1 - side**2)
    np.testing.assert_allclose(points.eigenvalues[order, 0], [slope, 1.5, slope], rtol=1e-8)
    tau = [-0.5 / math.log(factor) for factor in (slope, 1.5, slope)]
    np.testing.assert_allclose(points.time_constants[order, 0], tau, rtol=1e-8)
    assert not points.slow.any()
    assert (points.stopped, points.recall.fraction) == ("recall", 1.0)
    np.testing.assert_array_equal(portrait.axes, [[1.0], [0.0]])
    np.testing.assert_allclose(portrait.explained, [1.0, 0.0])


def test_hopfield() -> None:
    """Two orthogonal patterns stored by Hebb's rule with gain 2: ±m·pattern with m = tanh(2m), stable."""
    patterns = np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1]], float)
    module = Recurrent(Elman(), 1, 8, dtype=torch.float64)
    set_all(module, U_h=2 * torch.from_numpy(patterns.T @ patterns) / 8)
    (points,) = find_points(module).sets
    m = brentq(lambda m: math.tanh(2 * m) - m, 0.5, 1.0, xtol=1e-14)
    for pattern in (*patterns, *-patterns):
        near = np.abs(points.points - m * pattern).max(1)
        assert near.min() < 1e-9
        place = near.argmin()
        assert points.kind[place] == "stable"
        expected = np.zeros(8)
        expected[:2] = 2 * (1 - m**2)
        np.testing.assert_allclose(points.eigenvalues[place].real, expected, atol=1e-8)
    (origin,) = np.flatnonzero(np.abs(points.points).max(1) < 1e-9)
    assert points.kind[origin] == "saddle"
    assert len(points.points) == 9  # and a saddle between each two neighbors


@pytest.mark.parametrize("gates", [False, True])
def test_flip_flop_of_three_bits(gates: bool) -> None:
    """Three bits that each keep their sign until a pulse: 8 stable points of 27, of independent units or of a GRU's."""
    torch.manual_seed(3)
    module = Recurrent("gru" if gates else Elman(), 3, 3, dtype=torch.float64)
    if gates:
        set_all(module, U_n=2.5 * torch.eye(3), W_n=4 * torch.eye(3), b_r=50.0)
    else:
        set_all(module, U_h=2.5 * torch.eye(3), W_h=4 * torch.eye(3))
    x = torch.zeros(40, 8, 3, dtype=torch.float64)
    x[::10] = torch.randint(-1, 2, (4, 8, 3)).double()
    (zero,) = (one for one in measure_fixed_points(recorded(module, x)).sets if one.held == "zero input")
    side = brentq(lambda h: math.tanh(2.5 * h) - h, 0.5, 1.0, xtol=1e-14)
    stable = zero.points[np.array(zero.kind) == "stable"]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    assert stable.shape == (8, 3)
    assert {tuple(row) for row in np.sign(stable).astype(int).tolist()} == {tuple(row) for row in signs.tolist()}
    np.testing.assert_allclose(np.abs(stable), side, atol=1e-8)
    assert len(zero.points) == 27
    assert [zero.kind.count(kind) for kind in ("stable", "saddle", "unstable")] == [8, 18, 1]


def test_two_layer_euler_system() -> None:
    """λ = (−0.7, 0.3) of the continuous system at the origin: unstable, for the second layer is. All three points."""
    dt, alpha, a, c2 = 0.05, (1.2, 0.8), (0.5, 1.1), 0.9
    model = Stack([Leaky(dt, alpha[0]), Leaky(dt, alpha[1])], 1, 1, bias=False, dtype=torch.float64)
    for module, own, read in zip(model.layers, a, (0.0, c2), strict=True):
        set_all(module, U_h=own, W_h=read)
    (found,) = find_points(model, dt=dt).sets
    assert (found.label, found.held) == ("layer 1 to layer 2", "zero input")
    side = brentq(lambda h: math.tanh(1.1 * h) - 0.8 * h, 0.5, 2.0, xtol=1e-14)
    order = np.argsort(found.points[:, 1])
    np.testing.assert_allclose(found.points[order], [[0, -side], [0, 0], [0, side]], atol=1e-8)
    assert [found.kind[n] for n in order] == ["stable", "saddle", "stable"]
    rates = (found.eigenvalues[order[1]] - 1) / dt
    np.testing.assert_allclose(sorted(rates.real), [-0.7, 0.3], atol=1e-9)
    np.testing.assert_allclose(
        found.time_constants[order[1]], [-dt / math.log(1 + 0.3 * dt), -dt / math.log(1 - 0.7 * dt)], rtol=1e-9
    )


def test_linear_with_input() -> None:
    """(1 − U)⁻¹ W x̄, and the plane is that of the principal components."""
    torch.manual_seed(0)
    module = Recurrent(Linear(), 2, 3, dtype=torch.float64)
    x = torch.randn(30, 2, 2, dtype=torch.float64) + 1
    recording = recorded(module, x)
    found = find_points(recording)
    (points, zero), (portrait,) = found.sets, found.portraits
    parameters = {name: value.detach() for name, value in module.cell_parameters().items()}
    mean = parameters["W_h"] @ x.mean((0, 1))
    expected = torch.linalg.solve(torch.eye(3, dtype=torch.float64) - parameters["U_h"], mean)
    np.testing.assert_allclose(points.points, [expected.numpy()], rtol=1e-9)
    np.testing.assert_allclose(zero.points, np.zeros((1, 3)), atol=1e-12)
    states = recording.layers[0].after.reshape(-1, 3).numpy()
    values, vectors = np.linalg.eigh(np.cov(states.T))
    np.testing.assert_allclose(portrait.explained, values[[2, 1]] / values.sum(), rtol=1e-9)
    np.testing.assert_allclose(np.abs(portrait.axes @ vectors[:, [2, 1]]), np.eye(2), atol=1e-9)
    by_data = find_points(module, x)  # sequences: the same recording
    np.testing.assert_allclose(by_data.sets[0].points, points.points, atol=1e-12)
    two = find_points(module, x[0])
    assert [one.held for one in two.sets] == ["input 1", "input 2"]
    for one, row in zip(two.sets, x[0], strict=True):
        still = torch.linalg.solve(torch.eye(3, dtype=torch.float64) - parameters["U_h"], parameters["W_h"] @ row)
        np.testing.assert_allclose(one.points, [still.numpy()], rtol=1e-9)


def test_the_commonest_tokens_are_held() -> None:
    torch.manual_seed(0)
    module = Recurrent("gru", 2, 3, dtype=torch.float64)
    table = torch.randn(5, 2, dtype=torch.float64)
    ids = torch.tensor([[0, 1], [1, 1], [1, 2], [2, 2], [3, 1], [4, 0], [0, 0]])  # 1 five times, 0 four, 2 three
    tokens = [["abcde"[number] for number in row] for row in ids.tolist()]
    found = measure_fixed_points(recorded(module, table[ids]), tokens=tokens, starts=8)
    held = {one.held: one for one in found.sets}
    assert list(held) == ["mean input", "token 'b'", "token 'a'", "token 'c'", "zero input"]
    (layer,) = recorded(module, table[ids]).layers
    for name, number in (("b", 1), ("a", 0), ("c", 2)):
        one = held[f"token '{name}'"]
        point = torch.from_numpy(one.points)
        after = layer.advance(table[number].expand(len(point), -1), point)
        np.testing.assert_allclose(after, one.points, atol=1e-7)


def test_float32_is_searched_in_float64() -> None:
    torch.manual_seed(0)
    (one,) = find_points(nn.GRU(2, 6)).sets
    assert one.residual[0] < 1e-25
    assert one.points.dtype == np.float64


def test_the_same_seed_finds_the_same() -> None:
    torch.manual_seed(0)
    layer = nn.RNN(2, 8)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").mul_(6)
    first, second, other = (find_points(layer, seed=seed).sets[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.points, second.points)
    assert first.evaluations == second.evaluations != other.evaluations


def test_nothing_to_search() -> None:
    module = Recurrent("lstm", 2, 3, dtype=torch.float64)
    x = torch.randn(4, 1, 2, dtype=torch.float64)
    none = measure_fixed_points(recorded(module, x, [0]))
    assert none.sets == ()
    assert np.isnan(none.portraits[0].center).all()
    (one, _) = measure_fixed_points(recorded(module, x[:1])).sets
    assert len(one.points) == 1
    with torch.no_grad():
        module.cell_parameters()["U_i"][0, 0] = torch.nan
    assert measure_fixed_points(recorded(module, x)).sets == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"starts": 0}, "starts"),
        ({"starts": torch.zeros(3)}, "starts"),
        ({"starts": torch.zeros(2, 5)}, "width 3"),
        ({"dt": 0.0}, "dt"),
        ({"budget": 0}, "budget"),
        ({"inputs": torch.zeros(4)}, "width 2"),
        ({"inputs": {"a": torch.zeros(1, 2)}}, "no vector"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        find_points(Recurrent("gru", 2, 3), **arguments)


def test_bad_subjects_are_refused() -> None:
    with pytest.raises(ArgumentError, match="find_points\\(record"):
        find_points(nn.Sequential(nn.GRU(2, 3)))
    with pytest.raises(ArgumentTypeError, match="subject"):
        find_points(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="starts"):
        find_points(lambda s: s)
    assert FIXED < SLOW
