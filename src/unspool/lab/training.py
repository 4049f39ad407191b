"""The training loop of the lab's experiments: Adam with clipped gradients, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from unspool.learning import clip_gradients


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    steps: int,
    lr: float = 3e-3,
    clip: float | None = 1.0,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    stop: Callable[[int], bool] | None = None,
) -> list[float]:
    """Train a model.

    Args:
        model: what is trained.
        loss: the loss of update number i, on a batch of its own choice.
        steps: the number of updates.
        lr: the learning rate.
        clip: the largest norm of the gradient; None does not clip.
        optimizer: a class of `torch.optim`.
        stop: asked after each update, with the number of updates so far; training ends when it says so.

    Returns:
        The loss before each update.

    Example:
        >>> layer = torch.nn.Linear(1, 1)
        >>> losses = fit(layer, lambda step: layer(torch.ones(4, 1)).square().mean(), steps=200)
        >>> losses[-1] < losses[0]
        True
    """
    rule = optimizer(model.parameters(), lr=lr)
    losses = []
    model.train()
    for step in range(steps):
        rule.zero_grad(set_to_none=True)
        found = loss(step)
        found.backward()
        clip_gradients(model.parameters(), clip)
        rule.step()
        losses.append(float(found.detach()))
        if stop is not None and stop(step + 1):
            break
    model.eval()
    return losses


def accuracy(logits: Tensor, targets: Tensor) -> float:
    """The fraction of rows whose largest logit is that of the target.

    Example:
        >>> accuracy(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1]))
        0.5
    """
    return float((logits.argmax(-1) == targets).double().mean())
