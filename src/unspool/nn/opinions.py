"""Opinion pools: several predictions of the same thing as one, such as those of two directions of reading."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unspool.errors import ArgumentError, ShapeError


def linear_pool(logits: Sequence[Tensor], weights: Sequence[float] | None = None) -> Tensor:
    """The weighted mean of probabilities, Σ w_i p_i: a class is likely if any opinion holds it to be.

    Args:
        logits: of each opinion, (…, classes), all of one shape; log-probabilities are logits too.
        weights: of the opinions, not negative; they are scaled to a sum of 1. By default all are equal.

    Returns:
        Log-probabilities, (…, classes).

    Example:
        >>> one, other = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.5, 0.5]).log()
        >>> linear_pool([one, other]).exp()
        tensor([0.7000, 0.3000])
    """
    opinions, scale = _checked(logits, weights)
    return torch.logsumexp(opinions + scale.log(), 0)


def log_pool(logits: Sequence[Tensor], weights: Sequence[float] | None = None) -> Tensor:
    """The normalized weighted product of probabilities, Π p_i^{w_i}: a class is likely if no opinion rules it out.

    With weights that sum to 1 this is the geometric mean. The product itself, which is right for independent opinions
    about equally frequent classes, has weights of 1: `log_pool(logits, [1, 1])`.

    Args:
        logits: of each opinion, (…, classes), all of one shape; log-probabilities are logits too.
        weights: of the opinions, not negative; they are used as they are. By default 1/n each.

    Returns:
        Log-probabilities, (…, classes).

    Example:
        >>> one, other = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.5, 0.5]).log()
        >>> log_pool([one, other]).exp()
        tensor([0.7500, 0.2500])
    """
    opinions, scale = _checked(logits, weights, normalized=False)
    return (scale * opinions).sum(0).log_softmax(-1)


def _checked(
    logits: Sequence[Tensor], weights: Sequence[float] | None, normalized: bool = True
) -> tuple[Tensor, Tensor]:
    """Log-probabilities, stacked, and weights that fit them."""
    opinions = list(logits)
    if not opinions:
        raise ArgumentError.of("logits", opinions, "has no opinion to pool", "Give the logits of one model at least")
    shapes = [tuple(one.shape) for one in opinions]
    if len(set(shapes)) > 1 or not shapes[0]:
        raise ShapeError.of("logits", shapes, "are not of one shape (…, classes)", "Let every model judge the same")
    given = [1 / len(opinions)] * len(opinions) if weights is None else [float(weight) for weight in weights]
    total = sum(given)
    if len(given) != len(opinions) or not all(weight >= 0 for weight in given) or not 0 < total < float("inf"):
        problem = f"are not {len(opinions)} weights from 0 on, of which one is positive"
        raise ArgumentError.of("weights", given, problem, "Give one per opinion")
    stacked = torch.stack([one.log_softmax(-1) for one in opinions])
    scale = stacked.new_tensor(given) / (total if normalized else 1.0)
    return stacked, scale.reshape(-1, *[1] * (stacked.dim() - 1))
