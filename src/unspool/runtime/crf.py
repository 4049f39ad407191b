"""A linear-chain CRF on NumPy arrays: the best tags, the probability of each, and of a whole sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.runtime.arithmetic import log_sum_exp, valid_steps, within
from unspool.runtime.network import Array, Chain

Tags = NDArray[np.int64]


class ChainPlayer:
    """A chain of tags, some of which may not follow others.

    Args:
        chain: Its scores.
        allowed: (tags + 2, tags + 2): which tag (row) may be followed by which (column); beyond the tags are the start
            and the end. None allows all.

    Example:
        tags = ChainPlayer(chain).decode(emissions, np.array([7, 4]))
    """

    def __init__(self, chain: Chain, allowed: NDArray[np.bool_] | None = None) -> None:
        self.own, self.allowed = chain, allowed
        self.start, self.transitions, self.end = chain.start, chain.transitions, chain.end
        if allowed is not None:
            self._check_allowed(allowed)
            lowest = chain.start.dtype.type(-np.inf)
            self.start = np.where(allowed[-2, :-2], chain.start, lowest)
            self.transitions = np.where(allowed[:-2, :-2], chain.transitions, lowest)
            self.end = np.where(allowed[:-2, -1], chain.end, lowest)

    def _check_allowed(self, allowed: NDArray[np.bool_]) -> None:
        size = len(self.own.start) + 2
        if allowed.dtype != np.bool_ or allowed.shape != (size, size):
            problem = f"is not a boolean matrix of {size} rows and columns"
            raise ArgumentError.of("allowed", allowed.shape, problem, "Give the task that the model was trained for")

    def decode(self, emissions: Array, lengths: Array) -> list[Tags]:
        """The most probable tags of each sequence, by the Viterbi algorithm.

        Args:
            emissions: (time, batch, tags).
            lengths: Steps of each sequence.
        """
        steps, rows, tags = emissions.shape
        if not steps:
            return [np.zeros(0, np.int64) for _ in range(rows)]
        e, inside = within(emissions, lengths), valid_steps(lengths, steps)
        back = self.transitions.T
        best, origins, stay = self.start + e[0], [], np.arange(tags)
        for t in range(1, steps):
            reached = best[:, None] + back
            origins.append(np.where(inside[t], reached.argmax(-1), stay))
            best = np.where(inside[t], reached.max(-1) + e[t], best)
        self._check_found(best + self.end, lengths)
        path = [(best + self.end).argmax(-1)]
        for origin in reversed(origins):
            path.append(origin[np.arange(rows), path[-1]])
        found = np.stack(path[::-1], 1)
        return [row[:length] for row, length in zip(found, lengths, strict=True)]

    def marginals(self, emissions: Array, lengths: Array) -> Array:
        """P(tag at step t), (time, batch, tags), by the forward-backward algorithm in float64; zero beyond the end."""
        e = within(emissions, lengths).astype(np.float64)
        steps, rows, tags = e.shape
        if not steps:
            return e
        inside = valid_steps(lengths, steps)
        ahead = self._forward(e, inside)
        back = np.empty_like(e)
        final = np.broadcast_to(self.end, (rows, tags)).astype(np.float64)
        back[-1] = final
        for t in range(steps - 2, -1, -1):
            onward = log_sum_exp(self.transitions + (e[t + 1] + back[t + 1])[:, None])
            back[t] = np.where(inside[t + 1], onward, final)
        joint = ahead + back
        highest = joint.max(-1, keepdims=True)
        powers = np.exp(joint - np.where(np.isfinite(highest), highest, 0))
        total = powers.sum(-1, keepdims=True)
        return np.asarray(np.where(inside, powers / np.where(total, total, 1.0), 0.0))

    def log_likelihood(self, emissions: Array, tags: Tags, lengths: Array) -> Array:
        """Log P(tags | emissions), (batch,), in float64."""
        e = within(emissions, lengths).astype(np.float64)
        steps, rows, _ = e.shape
        if not steps:
            return np.zeros(rows)
        inside = valid_steps(lengths, steps)
        y, every = np.where(inside[..., 0], tags, 0), np.arange(rows)
        last = y[np.maximum(lengths - 1, 0), every]
        score = np.take_along_axis(e, y[..., None], -1)[..., 0].sum(0)
        score += np.where(inside[1:, :, 0], self.transitions[y[:-1], y[1:]], 0.0).sum(0)
        score += self.start[y[0]] + self.end[last]
        total = log_sum_exp(self._forward(e, inside)[-1] + self.end)
        return np.asarray(np.where(lengths > 0, score - total, 0.0))

    def _forward(self, e: Array, inside: NDArray[np.bool_]) -> Array:
        """Log Σ exp(score) over all tags up to a step, for each tag there; beyond the end as at the end."""
        found = np.empty_like(e)
        found[0] = self.start + e[0]
        for t in range(1, len(e)):
            onward = log_sum_exp(found[t - 1][:, :, None] + self.transitions, 1) + e[t]
            found[t] = np.where(inside[t], onward, found[t - 1])
        return found

    def _check_found(self, scores: Array, lengths: Array) -> None:
        lost = np.flatnonzero(~np.isfinite(scores.max(-1)) & (lengths > 0))
        if len(lost):
            row = int(lost[0])
            problem = f"give no best sequence of {int(lengths[row])} tag(s): the score of sequence {row} is not finite"
            raise ArgumentError.of("emissions", scores.shape, problem, "Give finite numbers, and allow some sequence")
