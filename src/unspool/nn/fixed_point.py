"""Fixed points: z = F(z) by Anderson acceleration, and by plain iteration where that fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The result of `solve_fixed_point`.

    Attributes:
        value: z, (batch, width).
        iterations: how many were made.
        residual: ‖F(z) − z‖ / ‖F(z)‖ of each example of the batch.
        converged: whether all residuals are within the tolerance.
    """

    value: Tensor
    iterations: int
    residual: Tensor
    converged: bool


def solve_fixed_point(
    F: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, max_iterations: int, memory: int = 5
) -> FixedPoint:
    """Solve z = F(z).

    Anderson acceleration mixes the last iterate with up to `memory` earlier ones. Examples for which it fails start
    again with plain iteration.

    Args:
        F: from (batch, width) to (batch, width); each example of the batch is independent of the others.
        start: where the search begins.
        tolerance: of the relative residual.
        max_iterations: of each of the two methods.
        memory: how many earlier iterates are mixed; 0 for plain iteration only.

    Returns:
        The fixed point, converged or not.

    Example:
        >>> solve_fixed_point(torch.cos, torch.zeros(1, 1), 1e-6, 100).value
        tensor([[0.7391]])
    """
    check_solver(tolerance, max_iterations, memory)
    # Autocast, which may be on in a backward pass, would lose the digits that the residual is made of.
    with torch.no_grad(), torch.autocast(start.device.type, enabled=False):
        fast = _iterate(F, start, tolerance, max_iterations, memory)
        if fast.converged or memory == 0:
            return fast
        again = torch.where((fast.residual <= tolerance).unsqueeze(-1), fast.value, start)
        plain = _iterate(F, again, tolerance, max_iterations, memory=0)
        keep = fast.residual < plain.residual
        return FixedPoint(
            torch.where(keep.unsqueeze(-1), fast.value, plain.value),
            fast.iterations + plain.iterations,
            torch.where(keep, fast.residual, plain.residual),
            plain.converged,
        )


def _iterate(
    F: Callable[[Tensor], Tensor], z: Tensor, tolerance: float, max_iterations: int, memory: int
) -> FixedPoint:
    images: list[Tensor] = []  # F(z) and F(z) − z of the last iterates
    residuals: list[Tensor] = []
    floor = residual = z.new_zeros(len(z))
    resting = torch.zeros(len(z), dtype=torch.bool, device=z.device)  # converged, or about to overflow
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        image = F(z)
        difference = image - z
        if iterations == 1:  # without it, an example whose limit is zero never converges
            floor = torch.finfo(z.dtype).eps * image.norm(dim=-1)
        size = difference.norm(dim=-1)
        residual = torch.where(size == 0, size, size / torch.maximum(image.norm(dim=-1), floor))
        new = image
        if memory:
            images, residuals = [*images[-memory:], image], [*residuals[-memory:], difference]
            new = _mix(images, residuals) if iterations > 1 else image
        resting = resting | (residual <= tolerance) | ~torch.isfinite(new).all(-1)
        if bool(resting.all()):
            break
        z = torch.where(resting.unsqueeze(-1), z, new)
    return FixedPoint(z, iterations, residual, bool((residual <= tolerance).all()))


def _mix(images: list[Tensor], residuals: list[Tensor]) -> Tensor:
    """Anderson's step: for each example the affine combination of the images with the smallest residual."""
    G, R = (at_least_single(torch.stack(values, -1)).diff(dim=-1) for values in (images, residuals))
    scale = R.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(R.dtype).tiny)
    G, R = G / scale, R / scale
    gram = R.mT @ R
    gram.diagonal(dim1=-2, dim2=-1).add_(10 * torch.finfo(R.dtype).eps)  # columns may be parallel
    weights, _ = torch.linalg.solve_ex(gram, R.mT @ residuals[-1].to(R.dtype).unsqueeze(-1))
    new: Tensor = images[-1] - (G @ weights).squeeze(-1).to(images[-1].dtype)
    return new


def at_least_single(value: Tensor) -> Tensor:
    """Half precision as float32, since linear algebra has no half precision."""
    return value.to(torch.promote_types(value.dtype, torch.float32))


def check_solver(tolerance: float, max_iterations: int, memory: int) -> None:
    """Refuse settings of the solver that cannot be used."""
    if not is_number(tolerance) or not 0 < tolerance < math.inf:
        raise ArgumentError.of("tolerance", tolerance, "is not a positive number", "Give one such as 1e-6")
    check_size("max_iterations", max_iterations)
    if memory != 0:
        check_size("memory", memory)
