"""Cross-entropy of a linear read-out, a slab of rows at a time: the logits of a whole batch are never there at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unspool.errors import ShapeError

#: Numbers in a slab of logits, about what the last-level cache holds.
SLAB = 4 << 20


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, ignore: int = -100
) -> Tensor:
    """Mean of −log softmax(W h + b)[target] over all targets but those that are `ignore`; 0 if there are none.

    `hidden` is (…, width), `targets` (…) and `weight` (classes, width). Equal to torch's cross_entropy of the logits.
    Gradients are formed on the way forward, slab by slab, while the slab's logits are at hand.
    """
    if hidden.shape[:-1] != targets.shape or hidden.shape[-1] != weight.shape[1]:
        shapes = tuple(hidden.shape), tuple(weight.shape), tuple(targets.shape)
        raise ShapeError(
            f"hidden {shapes[0]}, weight {shapes[1]} and targets {shapes[2]} do not fit. Give (…, width), "
            "(classes, width) and (…)."
        )
    rows, flat = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    kept = flat != ignore
    if not kept.all():  # left out, not masked: a mask stops values, but lets 0·∞ into gradients
        rows, flat = rows[kept], flat[kept]
    found: Tensor = _LinearCrossEntropy.apply(rows, weight, bias, flat)  # type: ignore[no-untyped-call]
    return found


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, W: Tensor, b: Tensor | None, targets: Tensor) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        d_h = torch.empty_like(h) if wanted[0] else None
        d_W = torch.zeros_like(W) if wanted[1] else None
        d_b = torch.zeros_like(b) if wanted[2] and b is not None else None
        share = 1 / max(len(h), 1)
        total = h.new_zeros((), dtype=torch.float64)
        for first in range(0, len(h), rows_of_a_slab(len(W))):
            slab = slice(first, first + rows_of_a_slab(len(W)))
            classes = targets[slab].unsqueeze(1)
            logs = functional.linear(h[slab], W, b).log_softmax(-1)
            total -= logs.gather(1, classes).sum(dtype=torch.float64)
            if not any(wanted):
                continue
            slope = logs.exp_().mul_(share)  # d loss / d logits is softmax − 1 at the target, divided by the rows
            slope.scatter_add_(1, classes, slope.new_full((1, 1), -share).expand(len(slope), 1))
            if d_h is not None:
                torch.mm(slope, W, out=d_h[slab])
            if d_W is not None:
                d_W.addmm_(slope.T, h[slab])
            if d_b is not None:
                d_b += slope.sum(0)
        ctx.gradients = d_h, d_W, d_b
        return (total * share).to(h.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if g is None else g * slope for g in ctx.gradients), None


def rows_of_a_slab(classes: int) -> int:
    """How many rows' logits are formed at once."""
    return max(1, SLAB // classes)
