"""Probe: a small recurrent network, trained for seconds, that tells how far back the data must be read.

It sees what pairs of steps and counts of contexts cannot, such as brackets that match over any distance.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspool.insight.measures.counting import Stream
from unspool.nn import GRU

#: The size of the network.
EMBEDDED, HIDDEN = 24, 48
#: Windows in a batch, their length, and training steps.
BATCH_SIZE, LENGTH, STEPS = 32, 64, 300
#: The learning rate at its highest, and the norm at which gradients are clipped.
LR, CLIP = 1e-2, 1.0
#: The fraction of the training in which the learning rate rises.
RISE = 0.3
#: The fraction of the steps to train on, the steps of the others that are predicted, and the contexts they are given.
TRAINED, TARGETS = 0.6, 3000
CONTEXTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class Adam:
    """Adam's rule with clipped gradients. torch's own first imports its compiler, which takes longer than the training.

    Args:
        parameters: What is learned.
        betas: How much of the old means of gradients and of their squares is kept.
    """

    def __init__(self, parameters: list[nn.Parameter], betas: tuple[float, float] = (0.9, 0.99)) -> None:
        self.parameters, self.betas, self.steps = parameters, betas, 0
        self.means = [torch.zeros_like(one) for one in parameters]
        self.squares = [torch.zeros_like(one) for one in parameters]

    def update(self, loss: Tensor, lr: float) -> None:
        """Move the parameters a step down the gradient of a loss."""
        self.steps += 1
        gradients = torch.autograd.grad(loss, self.parameters)
        norm = math.sqrt(sum(float(one.square().sum()) for one in gradients))
        first, second = self.betas
        size = lr * math.sqrt(1 - second**self.steps) / (1 - first**self.steps)
        with torch.no_grad():
            for place, gradient in enumerate(gradients):
                gradient = gradient * min(1.0, CLIP / max(norm, 1e-12))
                self.means[place].lerp_(gradient, 1 - first)
                self.squares[place].lerp_(gradient.square(), 1 - second)
                self.parameters[place].addcdiv_(self.means[place], self.squares[place].sqrt() + 1e-8, value=-size)


def one_cycle(fraction: float) -> float:
    """The learning rate in units of the highest: up over the first third, then down to 0 along a cosine.

    Example:
        >>> [round(one_cycle(fraction), 2) for fraction in (0, 0.3, 1)]
        [0.04, 1.0, 0.0]
    """
    if fraction < RISE:
        return 0.04 + 0.96 * fraction / RISE
    return 0.5 * (1 + math.cos(math.pi * (fraction - RISE) / (1 - RISE)))


class Network(nn.Module):
    """An embedding, a GRU that starts at zero, and a head."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens + 1, EMBEDDED)
        self.recurrent = GRU(EMBEDDED, HIDDEN)
        self.head = nn.Linear(HIDDEN, tokens)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (steps, batch, tokens) of the token after each step."""
        return self.head(self.recurrent(self.embedding(ids))[0])  # type: ignore[no-any-return]


def probe(stream: Stream, seed: int = 0) -> tuple[NDArray[np.int64], dict[int, NDArray[np.float64]]]:
    """Train a network on the first part of the data, and predict steps of the rest from contexts of several lengths.

    Args:
        stream: The tokens.
        seed: For the initial weights and the batches.

    Returns:
        The steps that are predicted, and by the length of the context −ln P of each.

    Example:
        targets, losses = probe(stream)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        chance = np.random.default_rng(seed)
        tokens, places = _mark_starts(stream)
        network = _train(tokens, stream.size, chance)
        held_out = np.flatnonzero(np.arange(len(places)) >= TRAINED * len(places))
        held_out = held_out[places[held_out] >= LENGTH]
        targets = np.sort(chance.choice(held_out, min(TARGETS, len(held_out)), replace=False))
        with torch.no_grad():
            return targets, {steps: _score(network, tokens, places[targets], steps) for steps in CONTEXTS}


def _mark_starts(stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens with a mark before each sequence, and where each step is in them."""
    places = np.arange(len(stream.ids)) + np.cumsum(stream.age == 0)
    tokens = np.full(int(places[-1]) + 1, stream.size)
    tokens[places] = stream.ids
    return tokens, places


def _train(tokens: NDArray[np.int64], size: int, chance: np.random.Generator) -> Network:
    """Windows begin with a state of zero, so a network learns to predict from contexts of all lengths."""
    network = Network(size)
    optimizer = Adam(list(network.parameters()))
    last = int(TRAINED * len(tokens)) - LENGTH - 1
    for step in range(STEPS):
        windows = chance.integers(0, last, BATCH_SIZE) + np.arange(LENGTH + 1)[:, None]
        ids = torch.from_numpy(tokens[windows])
        wanted = torch.where(ids[1:] == size, -100, ids[1:])
        loss = nn.functional.cross_entropy(network(ids[:-1]).flatten(0, 1), wanted.flatten())
        optimizer.update(loss, LR * one_cycle(step / STEPS))
    return network


def _score(network: Network, tokens: NDArray[np.int64], at: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """−ln P of the tokens at these places from so many before them."""
    ids = torch.from_numpy(tokens[at + np.arange(-steps, 0)[:, None]])
    logits = network(ids)[-1]
    wanted = torch.from_numpy(tokens[at])
    return nn.functional.cross_entropy(logits, wanted, reduction="none").double().numpy()
