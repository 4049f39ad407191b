"""Sampling: a token from the logits of a model, by temperature and among the most probable ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, DivergenceError, ShapeError

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

#: Tolerance of a sum of probabilities: eight tokens of 0.1 reach 0.8, which their sum in floating point does not.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Sampling:
    """How a token is sampled from logits.

    Args:
        temperature: Divides the logits; at 0 the most probable token is certain.
        top_k: How many of the most probable tokens are kept; None: all.
        top_p: Of those, the fewest most probable ones with at least this probability together are kept.
        banned: Ids that are never sampled, and do not count among the most probable.

    Of equally probable tokens the one with the lower id comes first.

    Example:
        Sampling(temperature=0.8, top_k=40).probabilities(logits)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (is_finite(self.temperature) and self.temperature >= 0):
            remedy = "Give 1 for the model's own probabilities, 0 for the most probable token"
            raise ArgumentError.of("temperature", self.temperature, "is not a number from 0 on", remedy)
        if self.top_k is not None:
            check_size("top_k", self.top_k)
        if self.top_p is not None and not (is_finite(self.top_p) and 0 < self.top_p <= 1):
            remedy = "Give a number above 0 and up to 1, such as top_p=0.9"
            raise ArgumentError.of("top_p", self.top_p, "is not a probability above 0", remedy)
        check_ids("banned", self.banned)

    def probabilities(self, logits: NDArray[Any]) -> Floats:
        """The probability of each token (batch, vocabulary), in float64."""
        precise = without(check_logits(logits), self.banned)
        highest = precise.max(-1, keepdims=True)
        if (highest == -math.inf).any():
            raise ArgumentError.of("banned", self.banned, "leaves no possible token", "Ban fewer")
        if self.temperature == 0:
            certain = np.zeros_like(precise)
            np.put_along_axis(certain, precise.argmax(-1)[:, None], 1.0, -1)
            return certain
        with np.errstate(over="ignore"):  # −∞ is what a temperature near 0 makes of all but the highest
            p = _softmax((precise - highest) / self.temperature)  # of which the highest is 0 at any temperature
        return p if self.top_k is None and self.top_p in (None, 1) else self._keep_likeliest(p)

    def _keep_likeliest(self, p: Floats) -> Floats:
        """The probabilities without those that `top_k` and `top_p` leave out, summing to 1."""
        order = np.argsort(-p, axis=-1, kind="stable")
        ranked = np.take_along_axis(p, order, -1)
        if self.top_k is not None:
            ranked[:, self.top_k :] = 0.0
            ranked /= ranked.sum(-1, keepdims=True)
        if self.top_p is not None and self.top_p != 1:
            _keep_nucleus(ranked, self.top_p)
        kept = np.zeros_like(p)
        np.put_along_axis(kept, order, ranked, -1)
        return kept

    def draw(self, logits: NDArray[Any], uniform: Floats) -> Ids:
        """One token per sequence, by its random number from 0 to below 1."""
        return draw_places(self.probabilities(logits), uniform)


def draw_places(weights: Floats, uniform: Floats) -> Ids:
    """One place per row of positive weights (batch, places), by its random number from 0 to below 1.

    Example:
        >>> draw_places(np.array([[1.0, 3.0]]), np.array([0.5]))
        array([1])
    """
    reached = weights.cumsum(-1)
    wanted = uniform[:, None] * reached[:, -1:]
    found: Ids = (reached <= wanted).sum(-1)  # of ascending numbers, how many are not above: the place to search for
    return found


@np.errstate(invalid="ignore")  # a row of −∞ has no probabilities: it becomes NaN, which no beam follows
def log_softmax(values: NDArray[Any], axis: int = -1) -> NDArray[Any]:
    """The logarithm of the softmax over an axis, in the type of the values."""
    centered = values - values.max(axis, keepdims=True)
    return np.asarray(centered - np.log(np.exp(centered).sum(axis, keepdims=True)))


def _softmax(logits: Floats) -> Floats:
    """Of logits whose highest is 0."""
    weights: Floats = np.exp(logits)
    weights /= weights.sum(-1, keepdims=True)
    return weights


def _keep_nucleus(ranked: Floats, top_p: float) -> None:
    """Keep the most probable tokens that reach `top_p` together, and let them sum to 1."""
    before = np.roll(ranked.cumsum(-1), 1, -1)
    before[:, 0] = 0.0
    ranked[before >= top_p * (1 - ROUNDING)] = 0.0
    ranked /= ranked.sum(-1, keepdims=True)


def find_highest(values: Floats, count: int) -> Ids:
    """The places of the highest values that are not −∞, the highest first; of equal ones the first comes first.

    Example:
        >>> find_highest(np.array([1.0, 3.0, -np.inf, 3.0]), 3)
        array([1, 3, 0])
    """
    count = min(count, len(values))
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero((values >= least) & (values > -math.inf))
    return places[np.argsort(-values[places], kind="stable")[:count]]


def check_logits(logits: NDArray[Any]) -> Floats:
    """The logits in float64, in which tokens are chosen."""
    if logits.ndim != 2:
        problem = f"has {logits.ndim} dimension(s)"
        raise ShapeError.of("logits", tuple(logits.shape), problem, "Give (batch, vocabulary)")
    precise = np.asarray(logits, np.float64)
    if (np.isnan(precise) | (precise == math.inf)).any():
        raise DivergenceError("the model gives NaN or ∞ for logits: training may have diverged")
    return precise


def without(values: Floats, banned: Sequence[int]) -> Floats:
    """The values (batch, vocabulary) with −∞ for the banned ids."""
    size = values.shape[1]
    if outside := [token for token in banned if token >= size]:
        raise ArgumentError.of("banned", outside[0], f"is not in the vocabulary of {size}", f"Ban ids below {size}")
    found = values.copy()
    found[:, list(banned)] = -math.inf
    return found


def check_ids(name: str, ids: Sequence[int]) -> list[int]:
    """Ids as a list; refused where one is not a number from 0 on."""
    return [check_size(f"{name}[{place}]", number, 0) for place, number in enumerate(ids)]


def is_finite(value: object) -> bool:
    """Whether a value is a number, and a finite one."""
    return is_number(value) and math.isfinite(value)


def check_seed(seed: Any) -> int | None:
    """A seed of random numbers; None stands for another one each time."""
    if seed is None:
        return None
    try:
        number = -1 if isinstance(seed, bool) else index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise ArgumentError.of("seed", seed, "is not a number that a generator takes", "Give one from 0 to 2⁶³ − 1")
    return number
