"""Surprise: how unexpected every token was to a model, in nats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import ArgumentError, ShapeError

Array = NDArray[np.float64]

#: Places that are told as the worst.
WORST = 10


@dataclass(frozen=True, eq=False)
class Surprise:
    """The surprise −ln p of the tokens that live, row after row."""

    tokens: tuple[str, ...]
    nats: Array  # (n,): inf where a token was held to be impossible
    mean: float  # its exp is the perplexity; NaN without tokens
    worst: tuple[int, ...]  # places in `tokens`, the most surprising first, at most 10
    by_position: Array  # (time,): mean over rows, NaN where none lives


def measure_surprise(
    tokens: Sequence[Sequence[str]], nats: ArrayLike, live: NDArray[np.bool_] | None = None
) -> Surprise:
    """Of `tokens` by time and row, with `nats` and `live` (time, rows); all live if that is not said."""
    values = np.array(nats, dtype=np.float64)
    if values.ndim != 2:
        raise ShapeError.of("nats", values.shape, "is not (time, rows)", "Give a number for each step of each row")
    steps, rows = values.shape
    if len(tokens) != steps or any(len(step) != rows for step in tokens):
        raise ShapeError.of(
            "tokens", len(tokens), f"does not have a token for each of `nats`, {values.shape}", "Give tokens[time][row]"
        )
    alive = np.ones(values.shape, dtype=np.bool_) if live is None else np.array(live, dtype=np.bool_)
    if alive.shape != values.shape:
        raise ShapeError.of("live", alive.shape, f"is not of `nats`' shape {values.shape}", "Give (time, rows)")
    wrong = np.argwhere(alive & np.isnan(values))
    if len(wrong):
        step, row = map(int, wrong[0])
        raise ArgumentError.of(f"nats[{step}, {row}]", np.nan, "is no number", "Look for NaN in the model's weights")
    flat = values.T[alive.T]
    worst = np.argsort(-flat, kind="stable")[:WORST]
    counts, sums = alive.sum(1), np.where(alive, values, 0).sum(1)
    return Surprise(
        tokens=tuple(tokens[step][row] for row, step in np.argwhere(alive.T)),
        nats=flat,
        mean=float(flat.mean()) if len(flat) else np.nan,
        worst=tuple(map(int, worst)),
        by_position=np.divide(sums, counts, out=np.full(steps, np.nan), where=counts > 0),
    )
