"""Jacobians of single steps and of their products over lags: how much one step, and many, stretch or shrink a change.

The Jacobian of a step is ∂s_t/∂s_{t−1} of all states of a unit, h and c together. Its singular values are the factors
by which the step changes small differences; those of a product over k steps are the factors over the lag k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]

#: Which quantiles of the singular values are given, in this order.
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Singular value decompositions × width³ for a whole recording; above it steps, rows and lags are sampled.
WORK = 36 * 512**3
#: What the eigenvalues of a matrix cost, in singular value decompositions.
EIGENVALUES = 6


@dataclass(frozen=True, eq=False)
class Jacobians:
    """How steps stretch and shrink changes of the state.

    A singular value that rounding hides beside the largest of its matrix is given as 0. Values are NaN where no row
    lives, where no row goes on that long, where a Jacobian is not finite, and where wide states made it sample.
    """

    labels: tuple[str, ...]
    singular: Array  # (units, steps, quantiles): of the step at t, in the calendar's order; geometric mean over rows
    products: Array  # (units, lags, quantiles): of J_t … J_{t−k+1}; 1 at k = 0; geometric mean over starting points
    radius: Array  # (units,): the spectral radius of a step, mean over steps


def measure_jacobians(recording: Recording, lags: int = 32, rows: int = 2) -> Jacobians:
    """Singular values over all steps of up to `rows` rows, the longest, and of products over 0 … `lags` − 1 steps."""
    for name, value in (("lags", lags), ("rows", rows)):
        if value < 1:
            raise ArgumentError.of(name, value, "is not a count", "Give an integer of at least 1")
    units = recording.units
    singular = np.full((len(units), max(len(unit.x) for unit in units), len(QUANTILES)), np.nan)
    products = np.full((len(units), lags, len(QUANTILES)), np.nan)
    radius = np.full(len(units), np.nan)
    for number, unit in enumerate(units):
        allowed = max(4, WORK // (len(units) * max(unit.after.shape[-1], 1) ** 3))
        radius[number] = _steps(unit, rows, allowed, singular[number])
        _products(recording, unit, rows, allowed // 3, products[number])
    return Jacobians(tuple(unit.label for unit in units), singular, products, radius)


def longest_rows(unit: Unit, rows: int) -> list[int]:
    """So many rows at most, those with the most steps, among them the first ones; none that has no steps."""
    counts = unit.live.sum(0)
    order = torch.argsort(counts, descending=True, stable=True)
    return [int(row) for row in order[:rows] if counts[row] > 0]


def longest_chain(recording: Recording, unit: Unit, row: int) -> Tensor:
    """The steps of a row in the order in which they ran, as far as each began at the state that the last one gave.

    A unit that was called several times may go on from call to call or begin anew; of several chains, the longest.
    """
    steps, offset = [], 0
    for call in recording.calls:
        if call.unit.name == unit.name:
            own = torch.arange(int(call.ends[row]))
            steps.append(offset + (own.flip(0) if unit.reverse else own))
            offset += len(call.unit.x)
    order = torch.cat(steps)
    goes_on = (unit.before[order[1:], row] == unit.after[order[:-1], row]).all(-1)
    breaks = (~goes_on).nonzero().squeeze(1) + 1
    return max(torch.tensor_split(order, breaks), key=len)


def _steps(unit: Unit, rows: int, allowed: int, into: Array) -> float:
    """Fills in the quantiles of steps, and returns the mean spectral radius."""
    some = unit.live.any(1).nonzero().squeeze(1)
    each = min(rows, max(1, allowed // (3 * max(len(some), 1))))
    places = torch.arange(len(some))
    if len(some) * each > allowed // 3:
        places = torch.linspace(0, len(some) - 1, max(2, allowed // 3)).round().long().unique()
    radii: list[float] = []
    eigenvalues = max(1, allowed // (3 * EIGENVALUES))
    every = -(-len(places) // eigenvalues)
    order = torch.argsort(unit.live.sum(0), descending=True, stable=True)
    for number, t in enumerate(some[places].tolist()):
        chosen = order[unit.live[t, order]][:each]
        matrices = unit.jacobians(unit.x[t, chosen], unit.before[t, chosen])
        into[t] = geometric_mean(np.quantile(singular_values(matrices), QUANTILES, axis=-1).T)
        if number % every == every // 2 or len(places) == 1:
            radii += [float(torch.linalg.eigvals(one).abs().max()) for one in matrices if one.isfinite().all()]
    return float(np.mean(radii)) if radii else float("nan")


def _products(recording: Recording, unit: Unit, rows: int, allowed: int, into: Array) -> None:
    longest = len(into) - 1
    into[0] = 1.0 if unit.live.any() else np.nan
    measured = np.unique(np.linspace(1, longest, max(1, min(longest, allowed))).round()).astype(int).tolist()
    chosen = longest_rows(unit, min(rows, max(1, allowed // max(longest, 1))))
    found: dict[int, list[Array]] = {lag: [] for lag in measured if lag > 0}
    for row in chosen:
        chain = longest_chain(recording, unit, row)
        room = max(0, len(chain) - longest)
        two = allowed >= 2 * len(chosen) * longest
        for start in sorted({0, room} if two else {room // 2}):
            part = chain[start : start + longest]
            product = torch.eye(unit.after.shape[-1], dtype=torch.float64)
            for lag, t in enumerate(part.tolist(), 1):
                product = unit.jacobians(unit.x[t, row].unsqueeze(0), unit.before[t, row].unsqueeze(0))[0] @ product
                if lag in found:
                    found[lag].append(np.quantile(singular_values(product.unsqueeze(0))[0], QUANTILES))
    for lag, values in found.items():
        if values:
            into[lag] = geometric_mean(np.array(values))


def singular_values(matrices: Tensor) -> Array:
    """Of each matrix, (n, width): 0 where rounding hides them beside the largest, NaN where a matrix is not finite."""
    found = np.full(matrices.shape[:2], np.nan)
    fine = matrices.isfinite().all(-1).all(-1)
    if fine.any():
        values = torch.linalg.svdvals(matrices[fine])
        smallest = values.amax(-1, keepdim=True) * matrices.shape[-1] * torch.finfo(values.dtype).eps
        found[fine.numpy()] = torch.where(values < smallest, 0.0, values).numpy()
    return found


def geometric_mean(values: Array) -> Array:
    """Over the first axis; 0 where one of them is."""
    with np.errstate(divide="ignore"):
        mean: Array = np.exp(np.log(values).mean(0))
    return mean
