"""Backward: the gradients that cotangents of some tensors become, through torch's graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pull_back(outputs: Sequence[Tensor], cotangents: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor | None]:
    """Σ cotangent · ∂output/∂input for each input; the graph stays.

    Args:
        outputs: tensors that require a gradient.
        cotangents: one for each, of its shape and type.
        inputs: whose gradients are wanted.

    Returns:
        The gradients; None where no output depends on the input.
    """
    # The gradient of a number is asked for: for cotangents, torch imports a computer algebra system (half a second).
    with torch.enable_grad():
        total = sum((one * given).sum() for one, given in zip(outputs, cotangents, strict=True))
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, list(inputs), retain_graph=True, allow_unused=True))
