"""Surprise: how unexpected each token is to a model, in nats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import ArgumentError, ShapeError

Array = NDArray[np.float64]

#: Number of the most surprising places that are kept.
WORST = 10


@dataclass(frozen=True, eq=False)
class Surprise:
    """The surprise −ln p of the tokens, sequence after sequence."""

    tokens: tuple[str, ...]
    nats: Array  # (n,): inf for a token of probability 0
    mean: float  # its exp is the perplexity; NaN without tokens
    worst: tuple[int, ...]  # places in `tokens`, the most surprising first, at most 10
    by_position: Array  # (time,): mean over sequences; NaN at steps that none has


def measure_surprise(
    tokens: Sequence[Sequence[str]], nats: ArrayLike, live: NDArray[np.bool_] | None = None
) -> Surprise:
    """The surprise of each token, their mean, and the mean by position.

    Args:
        tokens: [time][sequence].
        nats: (time, batch), −ln p of each token.
        live: (time, batch), which steps are within their sequence; by default all.

    Returns:
        The surprise of the tokens within their sequences.
    """
    values = np.array(nats, dtype=np.float64)
    if values.ndim != 2:
        raise ShapeError.of("nats", values.shape, "is not (time, batch)", "Give one number per step and sequence")
    _check_tokens(tokens, values)
    alive = np.ones(values.shape, dtype=np.bool_) if live is None else np.array(live, dtype=np.bool_)
    _check_live(alive, values)
    flat = values.T[alive.T]
    worst = np.argsort(-flat, kind="stable")[:WORST]
    counts, sums = alive.sum(1), np.where(alive, values, 0).sum(1)
    return Surprise(
        tokens=tuple(tokens[step][row] for row, step in np.argwhere(alive.T)),
        nats=flat,
        mean=float(flat.mean()) if len(flat) else np.nan,
        worst=tuple(map(int, worst)),
        by_position=np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0),
    )


def _check_tokens(tokens: Sequence[Sequence[str]], values: NDArray[np.float64]) -> None:
    steps, rows = values.shape
    if len(tokens) != steps or any(len(step) != rows for step in tokens):
        problem = f"does not have a token for each of `nats`, {values.shape}"
        raise ShapeError.of("tokens", len(tokens), problem, "Give tokens[time][sequence]")


def _check_live(alive: NDArray[np.bool_], values: NDArray[np.float64]) -> None:
    if alive.shape != values.shape:
        problem = f"does not have the shape of `nats`, {values.shape}"
        raise ShapeError.of("live", alive.shape, problem, "Give (time, batch)")
    wrong = np.argwhere(alive & np.isnan(values))
    if len(wrong):
        step, row = map(int, wrong[0])
        raise ArgumentError.of(f"nats[{step}, {row}]", np.nan, "is not a number", "Look for NaN in the model's weights")
