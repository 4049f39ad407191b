"""Running: the pooling of a sequence that is not over, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unspool.runtime.network import Array, Pooling
from unspool.runtime.options import PLAIN
from unspool.runtime.packing import LinearPlayer, play_linear


class Running:
    """What a pooling gives after every step, from what it has gathered.

    last: h_t. mean: Σ h, and the number of steps. max: the highest of each unit so far. attention: with s_t the score
    of a step and m the highest so far, Σ e^{s_t − m} h_t, Σ e^{s_t − m} and m.

    Args:
        pooling: Of one direction of time.
        width: Of h.
    """

    def __init__(self, pooling: Pooling, width: int) -> None:
        self.kind, self.width = pooling.kind, width
        self._inner: LinearPlayer | None = play_linear(pooling.inner, PLAIN)
        self._outer: LinearPlayer | None = play_linear(pooling.outer, PLAIN)

    def start(self, rows: int, dtype: np.dtype[np.generic]) -> list[Array]:
        """What is gathered before the first step."""
        widths = {"last": (), "mean": (self.width, 1), "max": (self.width,), "attention": (self.width, 1, 1)}[self.kind]
        parts = [np.zeros((rows, width), dtype) for width in widths]
        for part in parts[-1:] if self.kind in ("max", "attention") else ():
            part[:] = np.finfo(part.dtype).min
        return parts

    def run(self, h: Array, gathered: list[Array]) -> tuple[Array, list[Array]]:
        """The pooled vectors (time, batch, width) after each step of h, and what is gathered then."""
        if self.kind == "last" or not len(h):
            return h, gathered
        scores = self._score(h)
        pooled = np.empty_like(h)
        for t, step in enumerate(h):
            gathered = self._gather(step, None if scores is None else scores[t], gathered)
            pooled[t] = gathered[0] if self.kind == "max" else gathered[0] / gathered[1]
        return pooled, gathered

    def onto(self, h: Array, gathered: list[Array]) -> tuple[Callable[[], Any], Array]:
        """A call that pools what then stands in h (batch, width) and changes `gathered`, and where it writes.

        The bits are those of `run`.
        """
        if self.kind == "last":
            return lambda: None, h
        if self.kind == "max":
            (highest,) = gathered
            return lambda: np.maximum(highest, h, out=highest), highest
        pooled = np.zeros_like(h)
        if self._inner is None or self._outer is None:
            total, count = gathered
            return lambda: _add_to_mean(h, total, count, pooled), pooled
        (to_inner, inner) = self._inner.onto(h)
        (to_score, score) = self._outer.onto(inner)

        def attend() -> None:
            to_inner()
            np.tanh(inner, out=inner)
            to_score()
            for part, value in zip(gathered, self._gather(h, score, gathered), strict=True):
                part[:] = value
            np.divide(gathered[0], gathered[1], out=pooled)

        return attend, pooled

    def _score(self, h: Array) -> Array | None:
        if self._inner is None or self._outer is None:
            return None
        return self._outer(np.tanh(self._inner(h)))

    def _gather(self, h: Array, score: Array | None, gathered: list[Array]) -> list[Array]:
        if self.kind == "max":
            return [np.maximum(gathered[0], h)]
        if score is None:
            return [gathered[0] + h, gathered[1] + 1]
        total, weights, highest = gathered
        higher = np.maximum(highest, score)
        kept, weight = np.exp(highest - higher), np.exp(score - higher)
        return [total * kept + weight * h, weights * kept + weight, higher]


def _add_to_mean(h: Array, total: Array, count: Array, mean: Array) -> None:
    np.add(total, h, out=total)
    np.add(count, 1, out=count)
    np.divide(total, count, out=mean)
