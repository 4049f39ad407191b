"""Equilibrium against closed forms, the unrolled iteration, the Neumann series and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import optimize
from tests.variants import Heir
from torch import Tensor
from torch.func import functional_call

from unspool.cells import Cell, Elman, Jordan, Leaky
from unspool.errors import ArgumentError, ArgumentTypeError, ConvergenceError, DTypeError, ShapeError, UnspoolError
from unspool.nn.equilibrium import Equilibrium
from unspool.nn.fixed_point import solve_fixed_point

INPUT, HIDDEN, ROWS = 3, 4, 5


CELLS: list[str | Cell] = [
    "elman",
    Elman("sigmoid"),
    "linear",
    Jordan(output_size=2),
    "gru",
    "gru-reset-after",
    "deep-transition",
    Leaky(dt=0.5),
    Heir(),
]


@pytest.fixture
def few_kernels(cell: str | Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of two cells; the theorem asks of the others only that they have a step."""
    if cell not in ("elman", "gru"):
        monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def make(
    cell: str | Cell | type[Cell], rows: int = ROWS, seed: int = 0, **options: object
) -> tuple[Equilibrium, Tensor]:
    torch.manual_seed(seed)
    layer = Equilibrium(cell, INPUT, HIDDEN, dtype=torch.float64, **options)  # type: ignore[arg-type]
    return layer, torch.randn(rows, INPUT, dtype=torch.float64, requires_grad=True)


def linear(U: Tensor, **options: object) -> Equilibrium:
    """z = U z + u."""
    layer = Equilibrium("linear", len(U), len(U), dtype=U.dtype, **options)  # type: ignore[arg-type]
    layer.load_state_dict({"layer.W_h": torch.eye(len(U)), "layer.U_h": U})
    return layer


def scalar(weight: float, phi: str = "tanh") -> Equilibrium:
    """z = φ(weight · z + u)."""
    layer = Equilibrium(Elman(phi), 1, 1, bias=False, dtype=torch.float64)
    layer.load_state_dict({"layer.W_h": torch.ones(1, 1), "layer.U_h": torch.full((1, 1), weight)})
    return layer.requires_grad_(False)


def rotation(modulus: float, angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return modulus * np.array([[c, -s], [s, c]])


def similar(blocks: np.ndarray, seed: int = 0) -> Tensor:
    """A matrix with the eigenvalues of `blocks` in a basis that is not orthogonal."""
    S = np.random.default_rng(seed).normal(size=blocks.shape)
    return torch.from_numpy(S @ blocks @ np.linalg.inv(S))


def gradients(z: Tensor, v: Tensor, layer: Equilibrium, u: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(z, [u, *layer.parameters()], v))


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_gradient_is_that_of_the_unrolled_iteration_and_of_the_neumann_series(cell: str | Cell) -> None:
    layer, u = make(cell)
    z = layer(u)
    v = torch.randn_like(z)
    implicit = gradients(z, v, layer, u)

    _, last = layer.layer(u.expand(400, ROWS, INPUT))
    torch.testing.assert_close(z, last, rtol=1e-10, atol=1e-10)
    for ours, unrolled in zip(implicit, gradients(last, v, layer, u), strict=True):
        torch.testing.assert_close(ours, unrolled, rtol=1e-8, atol=1e-8)

    at = last.detach().requires_grad_()
    _, one_more = layer.layer(u.unsqueeze(0), at)
    J = torch.stack(
        [torch.autograd.grad(one_more[:, i].sum(), at, retain_graph=True)[0] for i in range(z.shape[-1])], 1
    )
    series = power = v
    for _ in range(400):
        power = torch.einsum("bij,bi->bj", J, power)
        series = series + power
    for ours, neumann in zip(implicit, gradients(one_more, series, layer, u), strict=True):
        torch.testing.assert_close(ours, neumann, rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("few_kernels")
@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_gradcheck(cell: str | Cell) -> None:
    layer = Equilibrium(cell, 2, 2, dtype=torch.float64)
    u = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def call(u: Tensor, *values: Tensor) -> Tensor:
        z: Tensor = functional_call(layer, dict(zip(names, values, strict=True)), (u,))
        return z

    assert torch.autograd.gradcheck(call, (u, *layer.parameters()))


def test_float32() -> None:
    U = torch.tensor([[0.6, -0.4], [0.4, 0.6]])
    u = torch.randn(4, 2)
    exact = torch.linalg.solve(torch.eye(2) - U, u.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(linear(U)(u), exact, rtol=5e-5, atol=5e-5)


UNSTABLE = {
    "real": (np.diag([1.2, 0.3, -0.2]), 1.2),
    "negative": (np.diag([-1.2, 0.3]), 1.2),
    "barely": (np.diag([1.0001, 0.3]), 1.0001),
    "pair": (np.block([[rotation(1.1, 1.0), np.zeros((2, 1))], [np.zeros((1, 2)), np.full((1, 1), 0.9)]]), 1.1),
    "quarter turn": (rotation(1.1, math.pi / 2), 1.1),
}


@pytest.mark.parametrize(("blocks", "radius"), UNSTABLE.values(), ids=UNSTABLE)
def test_refuses_an_unstable_fixed_point_and_states_its_radius(blocks: np.ndarray, radius: float) -> None:
    U = similar(blocks)
    found = solve_fixed_point(lambda z: z @ U.T + 1, torch.zeros(1, len(U), dtype=torch.float64), 1e-9, 500)
    assert found.converged  # Anderson finds it; the layer must look at its stability
    with pytest.raises(ConvergenceError, match=r"not stable.*iterations.*spectral radius is 1\..*scale") as refusal:
        linear(U)(torch.ones(3, len(U), dtype=torch.float64))
    assert abs(refusal.value.radius - radius) < 1e-6
    assert refusal.value.iterations > 0
    assert str(refusal.value.iterations) in str(refusal.value)


@pytest.mark.parametrize("modulus", [1.0, 1.05])
def test_refuses_a_large_orthogonal_matrix(modulus: float) -> None:
    Q = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    with pytest.raises(ConvergenceError) as refusal:
        linear(modulus * Q, max_iterations=300)(torch.ones(64, dtype=torch.float64))
    assert abs(refusal.value.radius - modulus) < 1e-6


STABLE = {
    "real": np.diag([0.95, 0.3]),
    "negative": np.diag([-0.95, 0.9]),
    "pair": rotation(0.95, 1.0),
    "orthogonal": 0.95 * np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0],
}


@pytest.mark.parametrize("blocks", STABLE.values(), ids=STABLE)
def test_does_not_refuse_at_0_95(blocks: np.ndarray) -> None:
    U = similar(blocks, seed=3)
    u = torch.randn(2, len(U), dtype=torch.float64, requires_grad=True)
    exact = torch.linalg.solve(torch.eye(len(U)) - U, u.unsqueeze(-1)).squeeze(-1)
    z = linear(U)(u)
    torch.testing.assert_close(z, exact, rtol=1e-9, atol=1e-9)
    v = torch.randn_like(z)
    ours, closed = (torch.autograd.grad(value, u, v)[0] for value in (z, exact))
    torch.testing.assert_close(ours, closed, rtol=1e-8, atol=1e-8)


def test_refuses_a_two_cycle() -> None:
    """tanh(−3z + u) swings between two values for ever, on both sides of an unstable point."""
    u = 0.4
    z = optimize.brentq(lambda z: math.tanh(-3 * z + u) - z, -1, 1, xtol=1e-15)
    with pytest.raises(ConvergenceError, match="not stable") as refusal:
        scalar(-3.0)(torch.tensor([u], dtype=torch.float64))
    assert abs(refusal.value.radius - 3 * (1 - z**2)) < 1e-6


def test_names_the_row_that_is_refused() -> None:
    """tanh saturates: of these inputs only the second leaves the slope at the fixed point above 1."""
    u = torch.tensor([[3.0], [0.1], [-3.0]], dtype=torch.float64)
    with pytest.raises(ConvergenceError, match="example 1"):
        scalar(-2.0)(u)
    assert scalar(-2.0)(u[[0, 2]]).shape == (2, 1)


def test_no_fixed_point_at_all() -> None:
    with pytest.raises(ConvergenceError, match="no fixed point") as refusal:
        scalar(2.0, "relu")(torch.ones(1, dtype=torch.float64))
    assert abs(refusal.value.radius - 2) < 1e-6


def test_leaves_an_unstable_point_for_the_stable_one() -> None:
    """Of tanh(2z + 0.01)'s three fixed points, Anderson falls into the middle one; the cell runs on to the upper."""
    u = 0.01
    anderson = solve_fixed_point(lambda z: torch.tanh(2 * z + u), torch.zeros(1, 1, dtype=torch.float64), 1e-12, 100)
    middle = optimize.brentq(lambda z: math.tanh(2 * z + u) - z, -0.1, 0.1, xtol=1e-15)
    upper = optimize.brentq(lambda z: math.tanh(2 * z + u) - z, 0.5, 1, xtol=1e-15)
    assert abs(float(anderson.value) - middle) < 1e-9
    assert abs(float(scalar(2.0)(torch.tensor([u], dtype=torch.float64))) - upper) < 1e-9


def test_too_few_iterations_is_told_apart_from_instability() -> None:
    with pytest.raises(ConvergenceError, match=r"no fixed point.*[Rr]aise `max_iterations` \(=2\)") as refusal:
        linear(similar(np.diag([0.9, 0.5, -0.7])), max_iterations=2)(torch.ones(3, dtype=torch.float64))
    assert abs(refusal.value.radius - 0.9) < 1e-9
    assert refusal.value.iterations == 4  # two of Anderson's, two plain


def test_a_gradient_that_is_not_found() -> None:
    U = similar(np.diag([0.9, 0.5, -0.7]))
    u = torch.ones(3, dtype=torch.float64, requires_grad=True)
    there = torch.linalg.solve(torch.eye(3) - U, u.detach())
    z = linear(U, max_iterations=1)(u, there)
    with pytest.raises(ConvergenceError, match="gradient.*not found in 2 iterations"):
        z.sum().backward()


def test_the_start_does_not_change_the_answer_and_gets_no_gradient() -> None:
    layer, u = make("gru")
    start = torch.full((ROWS, HIDDEN), 10.0, dtype=torch.float64, requires_grad=True)
    z, other = layer(u), layer(u, start)
    torch.testing.assert_close(z, other, rtol=1e-10, atol=1e-10)
    other.sum().backward()
    assert start.grad is None


@pytest.mark.parametrize("cell", ["elman", "gru"])
def test_rows_do_not_know_of_each_other(cell: str) -> None:
    layer, u = make(cell, rows=6)
    together = layer(u)
    alone = torch.stack([layer(row) for row in u])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)
    gradient = torch.autograd.grad(together[2].sum(), u)[0]
    assert bool((gradient[[0, 1, 3, 4, 5]] == 0).all())
    torch.testing.assert_close(layer(u.view(2, 3, INPUT)).view(6, -1), together, rtol=1e-11, atol=1e-11)


def test_rows_may_be_absent() -> None:
    layer, u = make("elman")
    z = layer(u[:0])
    z.sum().backward()
    assert z.shape == (0, HIDDEN)
    assert all(bool((p.grad == 0).all()) for p in layer.parameters() if p.grad is not None)
    assert layer(u.new_zeros(2, 0, INPUT)).shape == (2, 0, HIDDEN)


def test_without_a_gradient_the_values_are_the_same() -> None:
    layer, u = make("gru")
    z = layer(u)
    with torch.no_grad():
        assert torch.equal(layer(u), z)
    with torch.inference_mode():
        assert torch.equal(layer(u.detach() + 0), z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer(u), z)
    layer.requires_grad_(False)
    assert not layer(u.detach()).requires_grad


@pytest.mark.parametrize("loss", [lambda z: z.sum(), lambda z: (z**2).sum()], ids=["constant", "varying"])
def test_a_second_differentiation_is_an_error(loss: Callable[[Tensor], Tensor]) -> None:
    layer, u = make("elman")
    (gradient,) = torch.autograd.grad(loss(layer(u)) + (u**3).sum(), u, create_graph=True)
    for differentiate in (lambda: torch.autograd.grad(gradient.sum(), u, retain_graph=True), gradient.sum().backward):
        with pytest.raises(UnspoolError, match="cannot be differentiated again"):
            differentiate()


def test_a_loss_that_is_nan_has_a_nan_gradient() -> None:
    layer, u = make("elman")
    v = torch.ones(ROWS, HIDDEN, dtype=torch.float64)
    expected = torch.autograd.grad(layer(u), u, v)[0]
    v[1, 2] = math.nan
    gradient = torch.autograd.grad(layer(u), u, v)[0]
    assert bool(gradient[1].isnan().all())
    torch.testing.assert_close(gradient[[0, 2, 3, 4]], expected[[0, 2, 3, 4]], rtol=1e-12, atol=1e-12)


def test_parametrised_weights_learn() -> None:
    layer, u = make("elman")
    torch.nn.utils.parametrizations.spectral_norm(layer.layer, "U_h")
    layer.eval()  # the power iteration of spectral_norm moves in training
    u = (3 * u).detach().requires_grad_()  # tanh's slope is then well below 1
    z = layer(u)
    _, last = layer.layer(u.expand(400, ROWS, INPUT))
    for ours, unrolled in zip(*(gradients(value, torch.ones_like(z), layer, u) for value in (z, last)), strict=True):
        torch.testing.assert_close(ours, unrolled, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("cell", ["lstm", "lstm-open", "skip"])
def test_refuses_cells_of_several_states(cell: str) -> None:
    with pytest.raises(ArgumentError, match="2 states"):
        Equilibrium(cell, 2, 3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"memory": -1}, "memory"),
        ({"memory": 2.5}, "memory"),
    ],
)
def test_bad_options(options: dict[str, float], match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        Equilibrium("elman", 2, 3, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("u", "start", "error", "match"),
    [
        ([1.0, 2.0], None, ArgumentTypeError, "not a torch tensor"),
        (torch.tensor(1.0), None, ShapeError, "input_size"),
        (torch.ones(4, 3), None, ShapeError, "`u` .*4, 3"),
        (torch.ones(4, 2, dtype=torch.float64), None, DTypeError, "float64"),
        (torch.ones(4, 2, dtype=torch.int64), None, DTypeError, "int64"),
        (torch.tensor([[1.0, math.nan]]), None, ArgumentError, "`u` contains NaN"),
        (torch.tensor([[1.0, math.inf]]), None, ArgumentError, "`u` contains NaN or inf"),
        (torch.ones(4, 2), torch.ones(3), ShapeError, "`start`"),
        (torch.ones(1, 2), torch.tensor([[1.0, 2.0, math.nan]]), ArgumentError, "`start` contains NaN"),
    ],
)
def test_bad_input(u: object, start: Tensor | None, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Equilibrium("elman", 2, 3)(u, start)


def test_a_backward_pass_under_autocast_is_as_exact_as_bfloat16() -> None:
    torch.manual_seed(0)
    layer, u = Equilibrium("gru", 3, 4), torch.randn(6, 3)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found.append(torch.autograd.grad(layer(u).square().sum(), tuple(layer.parameters())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.02 * float(one.abs().max()))
