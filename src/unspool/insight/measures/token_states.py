"""Token states: the state of a layer after each type of token, and how it depends on the context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ShapeError
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: The most frequent types are measured, at most this many.
TYPES = 60
#: Tokens of a context that are kept, and places of one type among which the two farthest apart are searched.
CONTEXT = 6
PLACES = 256


@dataclass(frozen=True, eq=False)
class TokenStates:
    """The states of one layer by type of token, the most frequent type first."""

    types: tuple[str, ...]
    counts: Counts  # (n,)
    centers2d: Array  # (n, 2): mean states in their first two principal components
    linkage: Array  # (n − 1, 4): clusters joined, their distance and size, by Ward; laid out as in scipy
    order: Counts  # (n,): types as the leaves of that tree
    same: float  # mean cosine distance between states of one type; NaN if none occurs twice
    other: float  # and between states of different types; NaN if there is only one
    example: tuple[str, ...]  # a type, and the two contexts in which its states differ most; empty if none occurs twice


def measure_token_states(
    recording: Recording, tokens: Sequence[Sequence[str]], layer: RecordedLayer | None = None
) -> TokenStates:
    """States by type of token, their clusters, and how far they are apart.

    Args:
        recording: the model.
        tokens: [time][sequence], as the layer read them.
        layer: one of the recording's; by default the highest one that reads forward.

    Returns:
        The most frequent types with their mean states.
    """
    if layer is None:
        layer = max(recording.layers, key=lambda one: (not one.reverse, one.level))
    live = layer.live.numpy()
    _check_tokens(tokens, *live.shape)
    places = np.argwhere(live.T)[:, ::-1]  # sequence after sequence, so that types are in reading order
    words = [tokens[step][row] for step, row in places]
    frequent = Counter(words).most_common(TYPES)
    types = tuple(word for word, _ in frequent)
    number = {word: n for n, word in enumerate(types)}
    kinds = np.array([number.get(word, -1) for word in words], dtype=np.int64)
    places, states = places[kinds >= 0], layer.output.numpy()[live.T.nonzero()[::-1]][kinds >= 0]
    kinds = kinds[kinds >= 0]
    centers = np.array([states[kinds == kind].mean(0) for kind in range(len(types))]).reshape(-1, states.shape[1])
    linkage = link(centers)
    directions = _directions(states)
    same, other = _mean_distances(directions, kinds, len(types))
    return TokenStates(
        types=types,
        counts=np.array([count for _, count in frequent], dtype=np.int64),
        centers2d=plane(centers),
        linkage=linkage,
        order=_leaves(linkage, len(types)),
        same=same,
        other=other,
        example=_example(tokens, places, types, kinds, directions, layer),
    )


def _check_tokens(tokens: Sequence[Sequence[str]], steps: int, sequences: int) -> None:
    if len(tokens) != steps or any(len(step) != sequences for step in tokens):
        problem = f"does not have a token for each of {steps} steps and {sequences} sequences"
        raise ShapeError.of("tokens", len(tokens), problem, "Give tokens[time][sequence]")


def link(points: Array) -> Array:
    """Ward's hierarchical clustering: first join the two clusters whose union adds least to the spread within.

    Row k joins two clusters to cluster n + k: their numbers, their distance, and how many points they have.
    """
    count = len(points)
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    np.fill_diagonal(squares, np.inf)
    numbers, sizes = np.arange(count), np.ones(count)
    joined = np.zeros((max(0, count - 1), 4))
    for step in range(count - 1):
        a, b = divmod(int(squares.argmin()), count)
        nearest, size = squares[a, b], sizes[a] + sizes[b]
        joined[step] = *sorted((numbers[a], numbers[b])), np.sqrt(nearest), size
        parts = (sizes + sizes[a]) * squares[a] + (sizes + sizes[b]) * squares[b] - sizes * nearest
        squares[a] = squares[:, a] = parts / (sizes + size)
        squares[b] = squares[:, b] = np.inf
        squares[a, a] = np.inf
        numbers[a], sizes[a] = count + step, size
    return joined


def _leaves(linkage: Array, count: int) -> Counts:
    """The points from left to right, so that no branches cross."""
    below = [[point] for point in range(count)]
    for left, right in linkage[:, :2].astype(np.int64):
        below.append(below[left] + below[right])
    return np.array(below[-1] if below else [], dtype=np.int64)


def plane(centers: Array) -> Array:
    """The points in their first two principal components, each with its largest part positive."""
    plane = np.zeros((len(centers), 2))
    if len(centers):
        left, values, _ = np.linalg.svd(centers - centers.mean(0), full_matrices=False)
        found = (left * values)[:, :2]
        found *= np.sign(found[np.abs(found).argmax(0), np.arange(found.shape[1])] + 0.0)
        plane[:, : found.shape[1]] = found
    return plane


def _directions(states: Array) -> Array:
    """States scaled to length 1; a zero state stays zero, at distance 1 from all."""
    lengths = np.sqrt((states**2).sum(-1, keepdims=True))
    directions = np.zeros_like(states)
    np.divide(states, lengths, out=directions, where=lengths > 0)
    return directions


def _mean_distances(directions: Array, kinds: Counts, types: int) -> tuple[float, float]:
    """Over all pairs of places of one type, and of two types; by sums, as there may be many pairs."""
    counts = np.bincount(kinds, minlength=types).astype(np.float64)
    sums = np.array([directions[kinds == kind].sum(0) for kind in range(types)]).reshape(-1, directions.shape[1])
    whole, own, alone = (sums.sum(0) ** 2).sum(), (sums**2).sum(), (directions**2).sum()
    same_pairs, all_pairs = (counts * (counts - 1)).sum(), counts.sum() * (counts.sum() - 1)
    other_pairs = all_pairs - same_pairs
    same = 1 - (own - alone) / same_pairs if same_pairs else np.nan
    return float(same), float(1 - (whole - own) / other_pairs) if other_pairs else np.nan


def _example(
    tokens: Sequence[Sequence[str]],
    places: NDArray[np.int64],
    types: tuple[str, ...],
    kinds: Counts,
    directions: Array,
    layer: RecordedLayer,
) -> tuple[str, ...]:
    """The type with the two places that are farthest apart, with the context up to each place."""
    farthest, found = -np.inf, None
    for kind in range(len(types)):
        here = np.flatnonzero(kinds == kind)
        here = here[np.linspace(0, len(here) - 1, min(PLACES, len(here))).astype(np.int64)]
        distances = 1 - directions[here] @ directions[here].T
        np.fill_diagonal(distances, -np.inf)
        if distances.max() > farthest:
            first, second = divmod(int(distances.argmax()), len(here))
            farthest, found = float(distances.max()), (kind, here[first], here[second])
    if found is None:
        return ()
    kind, first, second = found
    return types[kind], *(_context(tokens, int(places[at, 0]), int(places[at, 1]), layer) for at in (first, second))


def _context(tokens: Sequence[Sequence[str]], step: int, row: int, layer: RecordedLayer) -> str:
    span = range(step, step + CONTEXT) if layer.reverse else range(step - CONTEXT + 1, step + 1)
    return " ".join(tokens[at][row] for at in span if 0 <= at < len(tokens) and layer.live[at, row])
