"""Spectrum: the linearized modes of a map at its points: eigenvalues, directions, time constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

#: Modes whose directions are kept per point, those with the largest eigenvalues.
MODES = 8
#: Of wider states only some of the largest eigenvalues are found, from so many products.
WIDE, LARGEST, KRYLOV = 1024, 16, 96
#: A product that leaves no more than this of a power has annihilated it: rounding grows from power to power.
VANISHED = 1e-9


@dataclass(frozen=True, eq=False)
class Spectra:
    """The modes at n points, the largest eigenvalue first."""

    eigenvalues: Complex  # (n, states)
    modes: Complex  # (n, at most MODES, states): right eigenvectors of length 1


def find_spectra(jacobians: Callable[[Tensor], Tensor], points: Tensor) -> Spectra:
    """Eigenvalues and leading eigenvectors of the Jacobians at points, (n, states); NaN of one that is not finite.

    Of states wider than 1,024 only the largest 16 eigenvalues, by Arnoldi's method: approximately, the largest best.
    """
    count, width = points.shape
    kept, known = min(MODES, width), width if width <= WIDE else LARGEST
    values, modes = np.full((count, known), np.nan, complex), np.full((count, kept, width), np.nan, complex)
    for n, point in enumerate(points):
        matrix = jacobians(point.unsqueeze(0))[0]
        if not bool(matrix.isfinite().all()):  # such as that of √|s| at 0
            continue
        found, directions = torch.linalg.eig(matrix) if width <= WIDE else find_leading(matrix)
        if is_nilpotent(matrix):  # a solver finds the roots of rounding errors instead of 0
            found = torch.zeros_like(found)
        order = torch.argsort(found.abs(), descending=True, stable=True)[:known]
        # Fewer than asked for are all that there are, some of them several times, the last among them.
        values[n] = found[order[torch.arange(known).clamp(max=len(order) - 1)]].numpy()
        modes[n, : len(order)] = directions[:, order[:kept]].T.numpy()
    return Spectra(values, modes)


def find_leading(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Approximate eigenvalues, and eigenvectors as columns, from repeated products with a random vector (Arnoldi)."""
    width, steps = len(matrix), min(KRYLOV, len(matrix))
    generator = torch.Generator().manual_seed(0)
    basis = matrix.new_zeros(width, steps)
    small = matrix.new_zeros(steps, steps)
    v = torch.randn(width, dtype=matrix.dtype, generator=generator)
    for step in range(steps):
        basis[:, step] = v / v.norm()
        v = matrix @ basis[:, step]
        size = v.norm()
        for _ in range(2):  # once leaves rounding errors along the basis
            along = basis[:, : step + 1].T @ v
            v = v - basis[:, : step + 1] @ along
            small[: step + 1, step] += along
        if v.norm() <= 1e-12 * size:  # nothing else is reached by further products
            basis, small = basis[:, : step + 1], small[: step + 1, : step + 1]
            break
        if step + 1 < steps:
            small[step + 1, step] = v.norm()
    values, vectors = torch.linalg.eig(small)
    return values, torch.nn.functional.normalize(basis.to(vectors.dtype) @ vectors, dim=0)


def is_nilpotent(matrix: Tensor) -> bool:
    """Whether some power of a matrix is 0 up to rounding: whether one more product leaves nothing of what was there."""
    width, largest = len(matrix), float(torch.linalg.matrix_norm(matrix))
    if largest == 0:
        return True
    scaled = matrix / largest
    sums = float(scaled.trace().abs()), float((scaled * scaled.T).sum().abs())
    if max(sums) > 8 * width * torch.finfo(matrix.dtype).eps:  # of the eigenvalues and their squares: no product needed
        return False
    power = scaled
    for _ in range(width - 1):
        power = power @ scaled
        size = float(torch.linalg.matrix_norm(power))
        if not size > VANISHED:
            return True
        power = power / size  # so that small powers do not underflow
    return False


def time_constants(eigenvalues: Complex, dt: float) -> Array:
    """−dt / ln|λ|: the time in which a mode decays to 1/e; negative if it grows, inf if |λ| = 1, and 0 if λ = 0."""
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.abs(eigenvalues))
        found: Array = np.where(logarithm == 0, np.inf, -dt / np.where(logarithm == 0, 1.0, logarithm))
    return found


def frequencies(eigenvalues: Complex, dt: float) -> Array:
    """|arg λ| / 2π dt: turns per unit of time; 0 of a mode that does not turn, ½ per step of one that alternates."""
    found: Array = np.abs(np.angle(eigenvalues)) / (2 * np.pi * dt)
    return found
