"""Cross-entropy of a linear head, block by block: the logits of a whole batch are never in memory at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.errors import ShapeError

#: Numbers in a block of logits, about what the last-level cache holds.
BLOCK = 4 << 20


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, ignore: int = -100
) -> Tensor:
    """Mean of −log softmax(W h + b)[target], equal to torch's cross_entropy of the logits.

    Gradients are computed in the forward pass, block by block, while the logits of the block are in the cache.

    Args:
        hidden: What the head reads, (…, width).
        weight: W, (classes, width).
        bias: b, (classes,), or None.
        targets: The right classes, (…).
        ignore: Targets of this value do not count.

    Returns:
        The mean over the targets that count; 0 if there are none.

    Example:
        output, state = lstm(embedding(ids))
        loss = linear_cross_entropy(output, head.weight, head.bias, targets)
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
        if ctx.gradients is None:  # a second time; those of the forward pass were returned, and may have been changed
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
    d_h, d_W, d_b = _gradients_of(h, W, b, wanted)
    weight = 1 / max(len(h), 1)
    precise = torch.float32 if h.device.type == "mps" else torch.float64  # which MPS has not
    total = h.new_zeros((), dtype=precise)
    buffer = h.new_empty(min(rows_per_block(len(W)), len(h)), len(W))
    for first in range(0, len(h), max(1, len(buffer))):
        block = slice(first, first + len(buffer))
        rows, classes = h[block], targets[block].unsqueeze(1)
        logits = buffer[: len(rows)]
        torch.mm(rows, W.T, out=logits) if b is None else torch.addmm(b, rows, W.T, out=logits)
        log_p = torch.log_softmax(logits, -1, out=logits)
        total -= log_p.gather(1, classes).sum(dtype=precise)
        if not any(wanted):
            continue
        slope = log_p.exp_()  # d loss / d logits is softmax − 1 at the target, divided by the rows
        slope.scatter_add_(1, classes, slope.new_full((1, 1), -1.0).expand(len(slope), 1))
        if d_h is not None:
            torch.addmm(d_h[block], slope, W, beta=0, alpha=weight, out=d_h[block])
        if d_W is not None:
            d_W.addmm_(slope.T, rows, alpha=weight)
        if d_b is not None:
            d_b.add_(slope.sum(0), alpha=weight)
    return (total * weight).to(h.dtype), (d_h, d_W, d_b)


def _gradients_of(h: Tensor, W: Tensor, b: Tensor | None, wanted: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """Memory for the gradients that are wanted; only those of W and b are sums over blocks, from 0."""
    d_h = torch.empty_like(h) if wanted[0] else None
    d_W = torch.zeros_like(W) if wanted[1] else None
    d_b = torch.zeros_like(b) if wanted[2] and b is not None else None
    return d_h, d_W, d_b


def rows_per_block(classes: int) -> int:
    """How many rows of logits are computed at once."""
    return max(1, BLOCK // classes)
