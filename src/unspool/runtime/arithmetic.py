"""Arithmetic that networks share, on NumPy arrays: every function keeps the type of its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.decoding.sampling import log_softmax as log_softmax
from unspool.errors import ArgumentTypeError
from unspool.runtime.network import Array, Linear


def apply_linear(layer: Linear, x: Array) -> Array:
    """X Wᵀ + b over the last axis of x."""
    product: Array = x @ layer.weight.T
    if layer.bias is not None:
        product += layer.bias
    return product


def as_numbers(name: str, given: Any, dtype: np.dtype[Any]) -> Array:
    """What a user gives as an array of numbers of this type."""
    try:
        return np.asarray(given, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError.of(name, given, f"is not an array of numbers: {error}", "Give numbers") from error


def log_sum_exp(values: Array, axis: int = -1) -> Array:
    """Log Σ exp over an axis; −∞ where every value is."""
    highest = values.max(axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0).astype(values.dtype)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(values - highest).sum(axis))
    return np.asarray(total + highest.squeeze(axis))


def softmax(values: Array, axis: int = -1) -> Array:
    """The softmax over an axis."""
    # the functions behind max() and sum(): a step of a session spends most of its time in such calls
    powers = np.exp(values - np.maximum.reduce(values, axis, keepdims=True))
    return np.asarray(powers / np.add.reduce(powers, axis, keepdims=True))


def masked_softmax(values: Array, kept: NDArray[np.bool_], axis: int = -1) -> Array:
    """The softmax over what is kept of an axis; zeros elsewhere, and where nothing is kept."""
    kept = np.broadcast_to(kept, values.shape)
    if not values.shape[axis]:
        return values
    highest = np.where(kept, values, -np.inf).max(axis, keepdims=True)
    powers = np.exp(np.where(kept, values - np.where(np.isfinite(highest), highest, 0), -np.inf))
    total = powers.sum(axis, keepdims=True)
    return np.asarray(powers / np.where(total, total, 1)).astype(values.dtype)


def sigmoid(values: Array) -> Array:
    """1 / (1 + e^−v)."""
    return np.asarray(np.exp(-softplus(-values)))


def softplus(values: Array) -> Array:
    """Log(1 + e^v)."""
    return np.asarray(np.logaddexp(values, 0, dtype=values.dtype))


def valid_steps(lengths: Array, steps: int) -> NDArray[np.bool_]:
    """(time, batch, 1): whether a step lies within its sequence's length."""
    inside: NDArray[np.bool_] = (np.arange(steps)[:, None] < lengths)[..., None]
    return inside


def within(x: Array, lengths: Array | None) -> Array:
    """X (time, batch, width) with zeros beyond the length of each sequence."""
    return x if lengths is None else np.where(valid_steps(lengths, len(x)), x, x.dtype.type(0))


def cross_entropy(scores: Array, targets: NDArray[Any], ignored: int) -> float:
    """−Σ log softmax(scores)[target] over the targets that are not `ignored`, in float64."""
    flat, wanted = scores.reshape(-1, scores.shape[-1]), np.asarray(targets).ravel()
    kept = wanted != ignored
    chosen = log_softmax(flat[kept].astype(np.float64))
    return float(-np.take_along_axis(chosen, wanted[kept][:, None], -1).sum())
