"""Fixed points against scipy's, and what the solver does where Anderson acceleration fails."""

from __future__ import annotations

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from unspool.nn.fixed_point import solve_fixed_point


def test_anderson_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    M, b = rng.normal(size=(5, 5)) / 2, rng.normal(size=5)
    root = optimize.root(lambda z: np.cos(M @ z) * 0.6 + b - z, np.zeros(5), tol=1e-13).x
    M_t, b_t = torch.from_numpy(M), torch.from_numpy(b)

    def F(z: Tensor) -> Tensor:  # noqa: N802
        return torch.cos(z @ M_t.T) * 0.6 + b_t

    fast, plain = (solve_fixed_point(F, torch.zeros(1, 5, dtype=torch.float64), 1e-13, 500, m) for m in (5, 0))
    for found in (fast, plain):
        assert found.converged
        assert float(found.residual.max()) <= 1e-13
        np.testing.assert_allclose(found.value[0].numpy(), root, rtol=1e-10, atol=1e-10)
    assert fast.iterations < plain.iterations


class Recorder:
    """z − log z, whose fixed point is 1, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Tensor] = []

    def __call__(self, z: Tensor) -> Tensor:
        self.asked.append(z)
        return z - z.log()


def test_plain_iteration_takes_over_where_anderson_fails() -> None:
    """From 50 the secant step of z − log z overshoots into the negative numbers, where it is not defined."""
    start = torch.tensor([[50.0], [1.1]], dtype=torch.float64)
    both, plain = Recorder(), Recorder()
    found = solve_fixed_point(both, start, 1e-13, 100)
    alone = solve_fixed_point(plain, start[:1], 1e-13, 100, memory=0)
    assert found.converged
    torch.testing.assert_close(found.value, torch.ones_like(start), rtol=1e-12, atol=0)
    assert found.iterations == len(both.asked) > alone.iterations
    tail = torch.stack(both.asked[-alone.iterations :])
    assert torch.equal(tail[:, 0], torch.stack(plain.asked)[:, 0])
    assert torch.equal(tail[:, 1], tail[:1, 1].expand(alone.iterations, 1))  # the row that had arrived rests


def test_a_limit_of_zero_is_reached() -> None:
    for memory in (5, 0):
        found = solve_fixed_point(lambda z: 0.5 * torch.sin(z), torch.ones(2, 3), 1e-6, 60, memory)
        assert found.converged
        assert float(found.value.abs().max()) < 1e-6
