"""Spectral radii: how fast a map expands around a point, from its linearization there."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unspool.nn.fixed_point import at_least_single

POWER_STEPS, KRYLOV_STEPS = 32, 16


class Linearized:
    """F at a point: its value there and the products of its Jacobian's transpose."""

    def __init__(self, F: Callable[[Tensor], Tensor], z: Tensor) -> None:
        with torch.enable_grad():
            self.z = z.detach().requires_grad_()
            self.value = F(self.z)

    def pull(self, y: Tensor) -> Tensor:
        """Jᵀy for every example; for y of shape (count, batch, width), `count` products at once."""
        if not self.value.requires_grad:
            return torch.zeros_like(y)
        (product,) = torch.autograd.grad(
            self.value, self.z, y, retain_graph=True, allow_unused=True, is_grads_batched=y.dim() == 3
        )
        return torch.zeros_like(y) if product is None else product

    def jacobian(self) -> Tensor:
        """J of every example: (batch, width, width)."""
        rows, width = self.z.shape
        basis = torch.eye(width, dtype=self.z.dtype, device=self.z.device)
        return self.pull(basis.unsqueeze(1).expand(width, rows, width)).transpose(0, 1)


def estimate_radii(at: Linearized) -> Tensor:
    """An estimate of the spectral radius of J for every example: (batch,).

    It is the larger of two: the growth of a vector by power iteration, and the largest Ritz value after it. Growth is
    right for many eigenvalues of one modulus, as an orthogonal matrix has; Ritz values for a complex pair.
    """
    rows, width = at.z.shape
    tiny = torch.finfo(at.z.dtype).tiny
    generator = torch.Generator().manual_seed(0)  # the same for every call, and torch's global generator stays as it is
    v = torch.randn(width, generator=generator, dtype=torch.float64).to(at.z).expand(rows, width)
    v = v / v.norm(dim=-1, keepdim=True)
    growth = v.new_zeros(rows)
    for step in range(POWER_STEPS):
        v = at.pull(v)
        size = v.norm(dim=-1)
        v = v / size.clamp_min(tiny).unsqueeze(-1)
        if step >= POWER_STEPS // 2:
            growth = growth + size.log()
    growth = (growth / (POWER_STEPS - POWER_STEPS // 2)).exp()

    steps = min(KRYLOV_STEPS, width)
    Q = v.unsqueeze(-1)
    H = v.new_zeros(rows, steps, steps)
    for j in range(steps):
        w = at.pull(Q[..., j]).unsqueeze(-1)
        rounding = 100 * torch.finfo(w.dtype).eps * w.norm(dim=(-2, -1))
        for _ in range(2):  # once leaves rounding errors along Q
            h = Q.mT @ w
            w = w - Q @ h
            H[:, : j + 1, j] += h.squeeze(-1)
        if j + 1 < steps:
            size = w.norm(dim=(-2, -1))
            size = size.masked_fill(size <= rounding, 0.0)  # Q spans an invariant subspace: the rest is zero
            H[:, j + 1, j] = size
            Q = torch.cat((Q, torch.where(size > 0, 1 / size, 0.0).view(-1, 1, 1) * w), -1)
    return torch.maximum(growth, spectral_radius(H))


def spectral_radius(matrices: Tensor) -> Tensor:
    """The largest modulus of the eigenvalues of each matrix; NaN for a matrix that is not finite."""
    finite = torch.isfinite(matrices).all(-1).all(-1)
    known = matrices.masked_fill(~finite.view(-1, 1, 1), 0.0)
    radii: Tensor = torch.linalg.eigvals(at_least_single(known)).abs().amax(-1)
    return radii.to(matrices.dtype).masked_fill(~finite, math.nan)
