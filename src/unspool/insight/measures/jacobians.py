"""Jacobians of single steps and of products of steps: how much one step, and many, stretch or shrink a change.

The Jacobian of a step is ∂s_t/∂s_{t−1} of all states of a layer, h and c together. Its singular values are the factors
by which the step changes small differences; those of a product over k steps are the factors over the lag k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.points.spectrum import WIDE, find_leading
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: The quantiles of the singular values, in this order.
QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
#: Singular value decompositions × width³ for a whole recording; above it steps, sequences and lags are sampled.
WORK = 36 * 512**3
#: Steps of a product that cost as much as one singular value decomposition.
FACTORS = 3
#: The cost of a matrix's eigenvalues, in singular value decompositions.
EIGENVALUES = 6


@dataclass(frozen=True, eq=False)
class Jacobians:
    """How steps stretch and shrink changes of the state.

    A singular value that is rounding beside the largest of its matrix is 0. Values are NaN at steps and lags that no
    sequence has, where a Jacobian is not finite, and where steps were left out because the state is wide.
    """

    labels: tuple[str, ...]
    singular: Array  # (layers, steps, quantiles): of the step at t, in the order of time; geometric mean over sequences
    products: Array  # (layers, lags, quantiles): of J_t … J_{t−k+1}; 1 at k = 0; geometric mean over starting points
    radius: Array  # (layers,): the spectral radius of a step, mean over steps; approximate above 1,024 states


def measure_jacobians(recording: Recording, lags: int = 32, rows: int = 2) -> Jacobians:
    """Singular values of single steps, and of products over 0 … `lags` − 1 steps.

    Args:
        recording: the model.
        lags: number of lags.
        rows: sequences to measure, the longest ones.

    Returns:
        Quantiles of the singular values, and the spectral radius.
    """
    for name, value in (("lags", lags), ("rows", rows)):
        if value < 1:
            raise ArgumentError.of(name, value, "is not a count", "Give an integer of at least 1")
    layers = recording.layers
    singular = np.full((len(layers), max(len(layer.x) for layer in layers), len(QUANTILES)), np.nan)
    products = np.full((len(layers), lags, len(QUANTILES)), np.nan)
    radius = np.full(len(layers), np.nan)
    for number, layer in enumerate(layers):
        allowed = max(4, WORK // (len(layers) * max(layer.after.shape[-1], 1) ** 3))
        radius[number] = _steps(layer, rows, allowed, singular[number])
        _products(recording, layer, rows, allowed // 3, products[number])
    return Jacobians(recording.labels, singular, products, radius)


def longest_rows(layer: RecordedLayer, rows: int) -> list[int]:
    """At most `rows` sequences, the longest, of equally long ones the first; none that is empty."""
    counts = layer.live.sum(0)
    order = torch.argsort(counts, descending=True, stable=True)
    return [int(row) for row in order[:rows] if counts[row] > 0]


def longest_chain(recording: Recording, layer: RecordedLayer, row: int) -> Tensor:
    """The steps of a sequence in the order in which they ran, as long as each continues from the one before.

    A layer that was called several times may continue from call to call or start again; the longest chain counts.
    """
    steps, offset = [], 0
    for call in recording.calls:
        if call.layer.name == layer.name:
            own = torch.arange(int(call.ends[row]))
            steps.append(offset + (own.flip(0) if layer.reverse else own))
            offset += len(call.layer.x)
    order = torch.cat(steps)
    continues = (layer.before[order[1:], row] == layer.after[order[:-1], row]).all(-1)
    breaks = (~continues).nonzero().squeeze(1) + 1
    return max(torch.tensor_split(order, breaks), key=len)


def _steps(layer: RecordedLayer, rows: int, allowed: int, into: Array) -> float:
    """Fill in the quantiles of single steps, and return the mean spectral radius."""
    some = layer.live.any(1).nonzero().squeeze(1)
    each = min(rows, max(1, allowed // (3 * max(len(some), 1))))
    places = torch.arange(len(some))
    if len(some) * each > allowed // 3:
        places = torch.linspace(0, len(some) - 1, max(2, allowed // 3)).round().long().unique()
    radii: list[float] = []
    # Arnoldi's method costs next to nothing beside the singular values of a wide matrix.
    eigenvalues = max(1, allowed // (3 * EIGENVALUES)) if layer.after.shape[-1] <= WIDE else max(1, len(places))
    every = -(-len(places) // eigenvalues)
    order = torch.argsort(layer.live.sum(0), descending=True, stable=True)
    for number, t in enumerate(some[places].tolist()):
        chosen = order[layer.live[t, order]][:each]
        matrices = layer.jacobians(layer.x[t, chosen], layer.before[t, chosen])
        into[t] = geometric_mean(np.quantile(singular_values(matrices), QUANTILES, axis=-1).T)
        if number % every == every // 2 or len(places) == 1:
            radii += [_radius(one) for one in matrices if one.isfinite().all()]
    return float(np.mean(radii)) if radii else float("nan")


def _radius(matrix: Tensor) -> float:
    """The spectral radius; of wide states by Arnoldi's method, since all eigenvalues would take too long."""
    values = torch.linalg.eigvals(matrix) if len(matrix) <= WIDE else find_leading(matrix)[0]
    return float(values.abs().max())


def _products(recording: Recording, layer: RecordedLayer, rows: int, allowed: int, into: Array) -> None:
    """Fill in the quantiles of products over lags."""
    longest = min(len(into) - 1, FACTORS * max(1, allowed))
    into[0] = 1.0 if layer.live.any() else np.nan
    measured = np.unique(np.linspace(longest, 1, max(1, min(longest, allowed))).round()).astype(int).tolist()
    chosen = longest_rows(layer, min(rows, max(1, allowed // max(longest, 1))))
    two = allowed >= 2 * len(chosen) * longest
    found: dict[int, list[Array]] = {lag: [] for lag in measured if lag > 0}
    for row in chosen:
        chain = longest_chain(recording, layer, row)
        for start in _starts(max(0, len(chain) - longest), two):
            _multiply(layer, row, chain[start : start + longest], found)
    for lag, values in found.items():
        if values:
            into[lag] = geometric_mean(np.array(values))


def _starts(room: int, two: bool) -> list[int]:
    """Where products begin: at both ends, or in the middle."""
    return sorted({0, room} if two else {room // 2})


def _multiply(layer: RecordedLayer, row: int, chain: Tensor, found: dict[int, list[Array]]) -> None:
    """Multiply the Jacobians along a chain, and note the quantiles at the lags that are asked for."""
    product = torch.eye(layer.after.shape[-1], dtype=torch.float64)
    for lag, t in enumerate(chain.tolist(), 1):
        product = layer.jacobians(layer.x[t, row].unsqueeze(0), layer.before[t, row].unsqueeze(0))[0] @ product
        if lag in found:
            found[lag].append(np.quantile(singular_values(product.unsqueeze(0))[0], QUANTILES))


def singular_values(matrices: Tensor) -> Array:
    """Of n matrices, (n, width): 0 for those that are rounding beside the largest, NaN if a matrix is not finite."""
    found = np.full(matrices.shape[:2], np.nan)
    fine = matrices.isfinite().all(-1).all(-1)
    if fine.any():
        values = torch.linalg.svdvals(matrices[fine])
        smallest = values.amax(-1, keepdim=True) * matrices.shape[-1] * torch.finfo(values.dtype).eps
        found[fine.numpy()] = torch.where(values < smallest, 0.0, values).numpy()
    return found


def geometric_mean(values: Array) -> Array:
    """Over the first axis; 0 if one of the values is."""
    with np.errstate(divide="ignore"):
        mean: Array = np.exp(np.log(values).mean(0))
    return mean
