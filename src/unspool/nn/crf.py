"""LinearChainCRF: the probability of a whole sequence of tags, where each tag also depends on the previous one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.checks import check_lengths, check_like, check_shape, check_viewable, has_whole_numbers
from unspool.nn.layer import from_time_major, to_time_major, valid_steps
from unspool.nn.recording import refuse_if_recorded


class LinearChainCRF(nn.Module):
    """P(y | e) = exp(score(y)) / Σ_y′ exp(score(y′)) over all tag sequences y′ of the same length n, where

        score(y) = start[y_1] + Σ_t e_t[y_t] + Σ_t transitions[y_t, y_{t+1}] + end[y_n].

    The emissions e are (time, batch, tags), with `batch_first` (batch, time, tags). Tags have the same layout without
    the last axis. Steps beyond a sequence's length change nothing, whatever they hold. A sequence without steps has one
    tagging, the empty one: its score, its log-partition and its log-likelihood are 0.

    All scores start at 0. Then the tags are independent, and each step has the softmax of its emissions.

    Args:
        tags: the number of tags.
        allowed: a boolean matrix (tags + 2, tags + 2) of which tag (row) may be followed by which (column). Two indices
            beyond the tags are the borders: `allowed[tags, j]` says whether tag j may come first, and
            `allowed[i, tags + 1]` whether tag i may come last; other entries of the borders are not read. What is not
            allowed is never decoded and has probability 0. The matrix is not part of `state_dict`.
        batch_first: whether emissions and tags have the batch axis first.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> crf = unspool.nn.LinearChainCRF(5)
        >>> loss = -crf.log_likelihood(emissions, tags, lengths).mean()
        >>> best, scores = crf.decode(emissions, lengths)
    """

    allowed: Tensor | None

    def __init__(
        self,
        tags: int,
        *,
        allowed: ArrayLike | Tensor | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.tags = check_size("tags", tags)
        self.batch_first = batch_first
        matrix = None if allowed is None else _check_allowed(allowed, self.tags).to(device)
        self.register_buffer("allowed", matrix, persistent=False)
        self.start = nn.Parameter(torch.zeros(self.tags, device=device, dtype=dtype))
        self.transitions = nn.Parameter(torch.zeros(self.tags, self.tags, device=device, dtype=dtype))
        self.end = nn.Parameter(torch.zeros(self.tags, device=device, dtype=dtype))

    def log_likelihood(self, emissions: Tensor, tags: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """log P(tags | emissions): (batch,). Tags beyond a sequence's length are ignored."""
        e, ends = self._check(emissions, lengths)
        y = self._check_tags(tags, e, ends)
        return self._score(e, y, ends) - self._log_partition(e, ends)

    def log_partition(self, emissions: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """log Σ_y exp(score(y)) over all sequences that are allowed: (batch,)."""
        return self._log_partition(*self._check(emissions, lengths))

    def marginals(self, emissions: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """P(y_t = k | e) at every step, with the emissions' layout; zero beyond a sequence's length; no gradient."""
        with torch.inference_mode(False), torch.enable_grad():
            e, ends = self._check(emissions, lengths)
            e = e.detach().clone().requires_grad_()
            # The derivative of the log-partition with respect to a score is the probability that the score is used.
            (probabilities,) = torch.autograd.grad(self._log_partition(e, ends).sum(), e)
        return from_time_major(probabilities, True, self.batch_first)

    @torch.no_grad()
    def decode(
        self, emissions: Tensor, lengths: Sequence[int] | Tensor | None = None
    ) -> tuple[list[list[int]], Tensor]:
        """The most probable tag sequences, by the Viterbi algorithm, and their scores (batch,)."""
        e, ends = self._check(emissions, lengths)
        steps, rows, _ = e.shape
        if not steps:
            return [[] for _ in range(rows)], e.sum((0, 2))
        start, transitions, end = self._scores()
        back = transitions.t().contiguous()  # to a tag, from a tag: the maximum is along memory
        valid = valid_steps(ends, steps)
        stay = torch.arange(self.tags, device=e.device)
        best, origins = start + e[0], []
        for t in range(1, steps):
            value, origin = (best.unsqueeze(1) + back).max(-1)
            best = torch.where(valid[t], value + e[t], best)
            origins.append(torch.where(valid[t], origin, stay))
        scores, tag = (best + end).max(-1)
        scores = scores.masked_fill(ends == 0, 0.0)
        lost = (~scores.isfinite()).nonzero()
        if len(lost):
            row = int(lost[0])
            problem = f"gives no best sequence: the score of sequence {row} is {scores[row].item()}"
            raise ArgumentError.of("emissions", tuple(emissions.shape), problem, "Give finite numbers of moderate size")
        path = [tag]
        for origin in reversed(origins):
            path.append(origin.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        sequences = torch.stack(path[::-1], 1).tolist()
        return [row[:length] for row, length in zip(sequences, ends.tolist(), strict=True)], scores

    def extra_repr(self) -> str:
        return f"{self.tags}, allowed={'all' if self.allowed is None else 'some'}"

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """start, transitions and end, −inf where not allowed."""
        if self.allowed is None:
            return self.start, self.transitions, self.end
        first, inner, last = _parts(~self.allowed)
        return (
            self.start.masked_fill(first, -math.inf),
            self.transitions.masked_fill(inner, -math.inf),
            self.end.masked_fill(last, -math.inf),
        )

    def _score(self, e: Tensor, y: Tensor, ends: Tensor) -> Tensor:
        if not len(e):
            return e.sum((0, 2))
        valid = valid_steps(ends, len(e)).squeeze(-1)
        last = y.gather(0, (ends - 1).clamp_min(0).unsqueeze(0)).squeeze(0)
        emitted = e.gather(-1, y.unsqueeze(-1)).squeeze(-1).sum(0)
        moved = self.transitions[y[:-1], y[1:]].masked_fill(~valid[1:], 0.0).sum(0)
        return emitted + moved + (self.start[y[0]] + self.end[last]).masked_fill(ends == 0, 0.0)

    def _log_partition(self, e: Tensor, ends: Tensor) -> Tensor:
        if not len(e):
            return e.sum((0, 2))
        with torch.autocast(e.device.type, enabled=False):  # half precision has too few digits for sums of scores
            start, transitions, end = self._scores()
            product = _LogProduct(transitions)
            valid = valid_steps(ends, len(e))
            alpha = start + e[0]
            for t in range(1, len(e)):
                alpha = torch.where(valid[t], product(alpha) + e[t], alpha)
            return _log_sum(alpha + end).masked_fill(ends == 0, 0.0)

    def _check(self, emissions: Any, lengths: Sequence[int] | Tensor | None) -> tuple[Tensor, Tensor]:
        """Emissions, time-major and zero beyond each sequence's length, in the dtype of the scores; and the lengths."""
        refuse_if_recorded(
            "LinearChainCRF", "Record the model that gives the emissions, and call the CRF on its output"
        )
        if not isinstance(emissions, Tensor):
            raise ArgumentTypeError.of("emissions", emissions, "is not a torch tensor", "Convert it by torch.as_tensor")
        if emissions.dim() != 3 or emissions.shape[-1] != self.tags:
            layout = "(batch, time" if self.batch_first else "(time, batch"
            raise ShapeError.of(
                "emissions", tuple(emissions.shape), "does not fit", f"Give a tensor {layout}, {self.tags})"
            )
        for name, shape in (("transitions", (self.tags, self.tags)), ("start", (self.tags,)), ("end", (self.tags,))):
            check_shape(name, getattr(self, name, None), shape)
            check_like(name, getattr(self, name), self.transitions)
        check_like("emissions", emissions, self.transitions)
        e = to_time_major(emissions, self.batch_first).to(self.transitions.dtype)
        steps, rows, _ = e.shape
        ends = torch.full((rows,), steps, device=e.device)
        if lengths is not None:
            ends = check_lengths(lengths, steps, rows, e.device)
        self._check_possible(ends)
        return e.masked_fill(~valid_steps(ends, steps), 0.0), ends

    def _check_possible(self, ends: Tensor) -> None:
        """Some tagging of each sequence's length is allowed; else there is nothing to sum over."""
        if self.allowed is None or not len(ends):
            return
        first, inner, last = _parts(self.allowed)
        reached = first
        for length in range(1, int(ends.max()) + 1):
            if not (reached & last).any() and (ends == length).any():
                row = int((ends == length).nonzero()[0])
                problem = f"allows no sequence of {length} tag(s), the length of sequence {row}"
                raise ArgumentError.of("allowed", tuple(self.allowed.shape), problem, "Allow one, or leave it out")
            reached = (reached.unsqueeze(1) & inner).any(0)

    def _check_tags(self, tags: Any, e: Tensor, ends: Tensor) -> Tensor:
        """The tags, time-major and zero beyond each sequence's length."""
        if not isinstance(tags, Tensor):
            raise ArgumentTypeError.of("tags", tags, "is not a torch tensor", "Convert it by torch.as_tensor")
        if not has_whole_numbers(tags):
            raise DTypeError(f"`tags` has dtype {tags.dtype}. Give whole numbers: tags.long().")
        steps, rows, _ = e.shape
        shape = (rows, steps) if self.batch_first else (steps, rows)
        if tags.shape != shape:
            raise ShapeError.of("tags", tuple(tags.shape), f"is not of shape {shape}, as the emissions", "Reshape it")
        if tags.device != e.device:
            raise DeviceError(
                f"`tags` is on {tags.device} where the emissions are on {e.device}. Move it by "
                f"tags.to({str(e.device)!r})."
            )
        check_viewable("tags", tags)
        y = (tags.t() if self.batch_first else tags).long()
        y = y.masked_fill(~valid_steps(ends, steps).squeeze(-1), 0)
        self._check_range(y)
        if self.allowed is not None:
            self._check_transitions(y, ends, self.allowed)
        return y

    def _check_range(self, y: Tensor) -> None:
        wrong = ((y < 0) | (y >= self.tags)).nonzero()
        if len(wrong):
            step, row = wrong[0].tolist()
            problem = f"at step {step} of sequence {row} is no tag"
            raise ArgumentError.of("tags", y[step, row].item(), problem, f"Give numbers from 0 to {self.tags - 1}")

    def _check_transitions(self, y: Tensor, ends: Tensor, allowed: Tensor) -> None:
        """Every transition from the start to the end is allowed."""
        border = y.new_full((1, y.shape[1]), self.tags)
        before = torch.cat((border, y))
        after = torch.cat((y, border)).scatter(0, ends.unsqueeze(0), self.tags + 1)
        inside = valid_steps(ends + 1, len(before)).squeeze(-1) & (ends > 0)
        wrong = (inside & ~allowed[before, after]).nonzero()
        if not len(wrong):
            return
        step, row = wrong[0].tolist()
        one, other = int(before[step, row]), int(after[step, row])
        if one == self.tags:
            problem = f"has tag {other} at step 0 of sequence {row}, which may not come first"
        elif other > self.tags:
            problem = f"has tag {one} at step {step - 1} of sequence {row}, its last, which may not come last"
        else:
            problem = f"has tag {other} after tag {one} at step {step} of sequence {row}, which is not allowed"
        raise ArgumentError.of("tags", y[: int(ends[row]), row].tolist(), problem, "Correct the tags, or `allowed`")


class _LogProduct:
    """(batch, i) → (batch, j): log Σ_i exp(a_i + T_ij), for T given once.

    It is a matrix product of exponentials, with the maximum of each row of a and of each column of T subtracted first.
    Where a sum is so small that underflow may have removed a part of it, it is computed again, term by term. That
    happens where no likely tag may go, or where scores lie far apart (55 in float32, 630 in float64). Elsewhere the
    product is exact, and many times faster.
    """

    def __init__(self, transitions: Tensor) -> None:
        limits = torch.finfo(transitions.dtype)
        self.least = limits.min
        self.floor = limits.tiny / limits.eps**2  # a term that underflows is below eps² of such a sum
        self.transitions = transitions
        self.peak = transitions.detach().amax(0).clamp_min(self.least)
        self.exponentials = (transitions - self.peak).exp()

    def __call__(self, a: Tensor) -> Tensor:
        top = a.detach().amax(-1, keepdim=True).clamp_min(self.least)
        sums = (a - top).exp() @ self.exponentials
        small = sums < self.floor
        result = sums.masked_fill(small, 1.0).log() + (top + self.peak)
        row, column = small.nonzero(as_tuple=True)
        if not len(row):
            return result
        return result.index_put((row, column), _log_sum(a[row] + self.transitions.t()[column]))


def _log_sum(terms: Tensor) -> Tensor:
    """log Σ exp over the last axis; −inf, with a gradient of zero, where every term is −inf."""
    none = (terms == -math.inf).all(-1)
    return terms.masked_fill(none.unsqueeze(-1), 0.0).logsumexp(-1).masked_fill(none, -math.inf)


def _parts(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The parts of a matrix (tags + 2, tags + 2): which tags come first, which follow which, which come last."""
    return matrix[-2, :-2], matrix[:-2, :-2], matrix[:-2, -1]


def _check_allowed(allowed: ArrayLike | Tensor, tags: int) -> Tensor:
    shape = (tags + 2, tags + 2)
    remedy = f"Give a boolean matrix of shape {shape}: the tags, then the start, then the end"
    if isinstance(allowed, Tensor):
        matrix = allowed.detach().clone()
    else:
        try:
            matrix = torch.from_numpy(np.array(allowed))
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError.of("allowed", allowed, f"is not a matrix: {error}", remedy) from error
    if matrix.dtype != torch.bool:
        raise DTypeError.of("allowed", tuple(matrix.shape), f"is of dtype {matrix.dtype}", remedy)
    if matrix.shape != shape:
        raise ShapeError.of("allowed", tuple(matrix.shape), f"does not fit {tags} tags", remedy)
    return matrix
