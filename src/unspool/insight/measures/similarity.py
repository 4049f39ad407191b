"""Similarity: whether two layers, runs or moments of training represent the same data alike, whatever their axes.

Linear CKA compares which differences between steps are large in both representations. RSA compares the order of all
distances between steps. Both stay the same if a representation is rotated, moved or scaled as a whole; so they can
compare layers whose units have nothing to do with each other, even of different widths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ShapeError
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording
from unspool.language import words

Array = NDArray[np.float64]

#: Steps that are compared; of more, evenly spaced ones.
ROWS = 1000
#: Digits of a squared distance, beside the largest, that are above rounding: distances alike to these are ties.
ROUNDED = 12


@dataclass(frozen=True, eq=False)
class Similarity:
    """How alike the representations of one list are to those of another; NaN where they cannot be compared."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    cka: Array  # (first, second): linear CKA, from 0 to 1
    rsa: Array  # (first, second): rank correlation of distances, from −1 to 1
    rows: int  # steps that were compared


def linear_cka(x: ArrayLike, y: ArrayLike) -> float:
    """Linear centered kernel alignment, ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) of centered representations.

    With fewer rows than units it is too high; give several times as many rows as the wider one has units.

    Args:
        x: (n, width), a row per step.
        y: (n, another width), the same steps.

    Returns:
        From 0, nothing in common, to 1, equal up to a rotation, a shift and a scale; NaN if one does not vary.

    Example:
        >>> round(linear_cka([[0.0, 1], [1, 0], [2, 2]], [[1.0, 0], [0, 1], [2, 2]]), 6)
        1.0
    """
    a, b = _pair(x, y)
    return _cka(_scaled(a), _scaled(b))


def rsa(x: ArrayLike, y: ArrayLike) -> float:
    """Representational similarity: Spearman's correlation between the distances of all pairs of rows in x and in y.

    Args:
        x: (n, width), a row per step.
        y: (n, another width), the same steps.

    Returns:
        1 if all distances have the same order in both; NaN if one has equal distances only, or below three rows.

    Example:
        >>> rsa([[0.0], [1.0], [3.0]], [[0.0, 0], [0, 2], [0, 6]])
        1.0
    """
    a, b = _pair(x, y)
    return _correlate(_distance_ranks(a), _distance_ranks(b))


def compare_states(
    first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike] | None = None, rows: int = ROWS
) -> Similarity:
    """CKA and RSA of each representation in one list with each in another.

    Args:
        first: names with representations, (n, width) each: layers, runs, or moments of training, over the same steps.
        second: others; by default the same ones.
        rows: steps at most; of more, evenly spaced ones are compared.

    Returns:
        Both tables.

    Example:
        >>> found = compare_states({"early": [[0.0], [1], [2]], "late": [[0.0], [2], [4]]})
        >>> found.cka.round(3).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    rows = check_size("rows", rows, 3)
    one = {name: _checked(str(name), value) for name, value in first.items()}
    other = one if second is None else {name: _checked(str(name), value) for name, value in second.items()}
    lengths = {name: len(value) for name, value in [*one.items(), *other.items()]}
    if len(set(lengths.values())) > 1:
        raise ShapeError.of("first", lengths, "do not have one row for the same steps", "Give the same steps to all")
    count = next(iter(lengths.values()), 0)
    chosen = _spaced(count, rows)
    return _compare(
        {name: value[chosen] for name, value in one.items()}, {name: value[chosen] for name, value in other.items()}
    )


def measure_similarity(recording: Recording, other: Recording | None = None, rows: int = ROWS) -> Similarity:
    """CKA and RSA between the layers of a model, or between those of two models that read the same data.

    The first entry is what the lowest layer reads. Layers with other steps than that, such as a decoder's, are left
    out.

    Args:
        recording: a model.
        other: another one, over the same batch; by default the same.
        rows: steps at most.

    Returns:
        Both tables.

    Example:
        >>> recording = record(torch.nn.GRU(3, 4, 2), lambda model: model(torch.randn(9, 2, 3))[0].sum())
        >>> measure_similarity(recording).first
        ('input', 'layer 1', 'layer 2')
    """
    if other is not None and not _same_steps(recording.layers[0], other.layers[0]):
        shapes = tuple(recording.layers[0].live.shape), tuple(other.layers[0].live.shape)
        raise ShapeError.of("other", shapes, "does not have the same steps", "Record both models over the same batch")
    return compare_states(layer_states(recording), None if other is None else layer_states(other), rows)


def layer_states(recording: Recording, rows: int | None = None) -> dict[str, Array]:
    """What the lowest layer reads, and the output of each layer over the same steps: (n, width) each.

    Of more than `rows` steps, evenly spaced ones.
    """
    lowest = recording.layers[0]
    found: dict[str, Array] = {words("input"): lowest.x[lowest.live].numpy()}
    found |= {layer.label: layer.output[layer.live].numpy() for layer in recording.layers if _same_steps(lowest, layer)}
    return found if rows is None else {name: value[_spaced(len(value), rows)] for name, value in found.items()}


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places of `count`, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(most, count)).astype(np.int64))


def _same_steps(one: RecordedLayer, other: RecordedLayer) -> bool:
    return one.live.shape == other.live.shape and bool((one.live == other.live).all())


def _compare(first: Mapping[str, Array], second: Mapping[str, Array]) -> Similarity:
    scaled = [[_scaled(value) for value in some.values()] for some in (first, second)]
    ranks = [[_distance_ranks(value) for value in some.values()] for some in (first, second)]
    shape = len(first), len(second)
    return Similarity(
        first=tuple(first),
        second=tuple(second),
        cka=np.array([_cka(a, b) for a in scaled[0] for b in scaled[1]]).reshape(shape),
        rsa=np.array([_correlate(a, b) for a in ranks[0] for b in ranks[1]]).reshape(shape),
        rows=len(next(iter(first.values()), ())),
    )


def _checked(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, np.float64)
    if array.ndim != 2:
        raise ShapeError.of(name, array.shape, "is not (n, width)", "Give one row per step")
    if not np.isfinite(array).all():
        raise ArgumentError(f"`{name}` contains NaN or inf. Take such rows out of all representations first.")
    return array


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    a, b = _checked("x", x), _checked("y", y)
    if len(a) != len(b):
        raise ShapeError.of("y", b.shape, f"does not have the {len(a)} rows of `x`", "Give the same steps in both")
    return a, b


def _scaled(value: Array) -> Array:
    """Centered, and divided by √‖XᵀX‖; NaN for one that does not vary."""
    centered = value - value.mean(0) if len(value) else value
    largest = np.abs(centered).max(initial=0.0)
    if not largest > 1e-12 * np.abs(value).max(initial=0.0):  # the rest of a constant is rounding
        return np.full_like(centered, np.nan)
    centered = centered / largest
    found: Array = centered / np.sqrt(np.linalg.norm(centered.T @ centered))
    return found


def _cka(a: Array, b: Array) -> float:
    return float(np.minimum(1.0, np.square(a.T @ b).sum()))  # at most 1 after rounding; NaN stays


def _distance_ranks(value: Array) -> Array:
    """Ranks of the distances of all pairs of rows, ties at their mean; NaN if the rows do not vary."""
    scaled = _scaled(value)
    if np.isnan(scaled).any():
        return np.full(len(value) * (len(value) - 1) // 2, np.nan)
    squares = np.square(scaled).sum(1)
    distances = (squares[:, None] + squares - 2 * scaled @ scaled.T)[np.triu_indices(len(scaled), 1)]
    longest = max(float(distances.max(initial=0.0)), np.finfo(np.float64).tiny)
    rounded = np.round(np.maximum(distances / longest, 0.0), ROUNDED)  # squares have the order of the distances
    _, places, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _correlate(a: Array, b: Array) -> float:
    if len(a) < 3 or not a.std() > 0 or not b.std() > 0:  # NaN is none either
        return np.nan
    return float(np.corrcoef(a, b)[0, 1])
