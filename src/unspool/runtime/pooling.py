"""Poolings on NumPy arrays: one vector per sequence, from the output of recurrent layers."""

from __future__ import annotations

import numpy as np

from unspool.runtime.arithmetic import apply_linear, masked_softmax, valid_steps, within
from unspool.runtime.network import Array, Pooling


def pool(pooling: Pooling, h: Array, lengths: Array | None = None) -> Array:
    """One vector per sequence.

    Args:
        pooling: How.
        h: (time, batch, width).
        lengths: Steps of each sequence; by default all have every step.

    Returns:
        (batch, width); zeros for a sequence without steps.
    """
    steps, rows, width = h.shape
    if not steps:
        return np.zeros((rows, width), h.dtype)
    ends = np.full(rows, steps) if lengths is None else np.asarray(lengths)
    h = within(h, ends)
    match pooling.kind:
        case "mean":
            return np.asarray(h.sum(0) / np.maximum(ends, 1)[:, None].astype(h.dtype))
        case "max":
            highest = np.where(valid_steps(ends, steps), h, -np.inf).max(0)
            return np.where((ends > 0)[:, None], highest, 0).astype(h.dtype)
        case "attention":
            return _attend(pooling, h, ends)
    return _last(pooling, h, ends)


def _last(pooling: Pooling, h: Array, ends: Array) -> Array:
    end = np.asarray(h[np.maximum(ends - 1, 0), np.arange(len(ends))])
    if not pooling.bidirectional:
        return end
    half = h.shape[-1] // 2
    return np.concatenate((end[:, :half], h[0, :, half:]), -1)


def _attend(pooling: Pooling, h: Array, ends: Array) -> Array:
    assert pooling.inner is not None
    assert pooling.outer is not None
    scores = apply_linear(pooling.outer, np.tanh(apply_linear(pooling.inner, h)))
    weights = masked_softmax(scores, valid_steps(ends, len(h)), 0)
    return np.asarray((weights * h).sum(0))
