"""The norm of all gradients together, and its limit: it keeps one steep batch from throwing training off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.learning.device import where_float64

#: Numbers whose squares are summed in their own precision: a float32 sum over millions is wrong in the fourth digit.
PIECE = 1 << 16


def gradient_norm(parameters: Iterable[Tensor]) -> float:
    """The norm of all gradients together, √(Σ g²).

    Args:
        parameters: Those whose `.grad` counts, dense or sparse.

    Returns:
        The norm, 0 if there are no gradients. Partial sums are added up in float64.

    Example:
        >>> gradient_norm(model.parameters())
        0.8312
    """
    return _norm(_gradients(parameters))


def clip_gradients(parameters: Iterable[Tensor], limit: float | None) -> float:
    """Scale all gradients in place so that their norm is at most `limit`.

    Args:
        parameters: Each once: one that is given twice is counted and scaled twice.
        limit: The largest norm; None and ∞ never clip.

    Returns:
        The norm before clipping. If it is not finite, nothing is changed: scaling cannot repair that.

    Example:
        loss.backward()
        norm = clip_gradients(model.parameters(), 1.0)
        optimizer.step()
    """
    if limit is not None and not limit > 0:
        raise ArgumentError.of("limit", limit, "is not a number above 0", "Give 1.0, or None to clip nothing")
    gradients = _gradients(parameters)
    norm = _norm(gradients)
    if limit is not None and limit < norm < math.inf:
        torch._foreach_mul_([g._values() if g.is_sparse else g for g in gradients], limit / norm)
    return norm


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


@torch.no_grad()
def _norm(gradients: list[Tensor]) -> float:
    # An entry of a sparse gradient may be there in parts, and the norm is that of the sum: hence coalesce.
    whole = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    pieces = [piece for g in whole for piece in _pieces(g)]
    if not pieces:
        return 0.0
    norm = _total(torch._foreach_norm(pieces))
    if math.isinf(norm):  # squares beyond float32, perhaps; in float64, which takes twenty times as long, they may fit
        norm = _total(torch._foreach_norm([where_float64(piece) for piece in pieces], 2, torch.float64))
    return norm


def _pieces(gradient: Tensor) -> Sequence[Tensor]:
    return gradient.reshape(-1).split(PIECE) if gradient.numel() > PIECE else (gradient,)


def _total(norms: Iterable[Tensor]) -> float:
    return float(torch.linalg.vector_norm(where_float64(torch.stack(list(norms))), dtype=torch.float64))
