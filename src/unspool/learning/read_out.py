"""Cross-entropy of a linear read-out, a slab of rows at a time: the logits of a whole batch are never there at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
        loss, ctx.gradients = _run(h, W, b, targets, ctx.needs_input_grad[:3])
        ctx.save_for_backward(h, W, b, targets)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:  # a second time; what was formed on the way forward is given away, and may be changed
            h, W, b, targets = ctx.saved_tensors
            _, ctx.gradients = _run(h, W, b, targets, ctx.needs_input_grad[:3])
        gradients, ctx.gradients = ctx.gradients, None
        if slope != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= slope
        return *gradients, None


def _run(
    h: Tensor, W: Tensor, b: Tensor | None, targets: Tensor, wanted: tuple[bool, ...]
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """The loss, and the gradients of h, W and b, those that are wanted."""
    d_h = torch.empty_like(h) if wanted[0] else None
    d_W = torch.zeros_like(W) if wanted[1] else None
    d_b = torch.zeros_like(b) if wanted[2] and b is not None else None
    share = 1 / max(len(h), 1)
    total = h.new_zeros((), dtype=torch.float64)
    room = h.new_empty(min(rows_of_a_slab(len(W)), len(h)), len(W))
    for first in range(0, len(h), max(1, len(room))):
        rows = h[first : first + len(room)]
        classes = targets[first : first + len(room)].unsqueeze(1)
        slab = room[: len(rows)]
        torch.mm(rows, W.T, out=slab) if b is None else torch.addmm(b, rows, W.T, out=slab)
        torch.log_softmax(slab, -1, out=slab)
        total -= slab.gather(1, classes).sum(dtype=torch.float64)
        if not any(wanted):
            continue
        slope = slab.exp_()  # d loss / d logits is softmax − 1 at the target, divided by the rows
        slope.scatter_add_(1, classes, slope.new_full((1, 1), -1.0).expand(len(slope), 1))
        if d_h is not None:
            torch.addmm(
                d_h[first : first + len(room)], slope, W, beta=0, alpha=share, out=d_h[first : first + len(room)]
            )
        if d_W is not None:
            d_W.addmm_(slope.T, rows, alpha=share)
        if d_b is not None:
            d_b.add_(slope.sum(0), alpha=share)
    return (total * share).to(h.dtype), (d_h, d_W, d_b)


def rows_of_a_slab(classes: int) -> int:
    """How many rows' logits are formed at once."""
    return max(1, SLAB // classes)
