"""Probe: a small recurrent network, trained for seconds, that tells how far back the data must be read.

It sees what pairs of steps and counts of contexts cannot, such as brackets that match over any distance.
"""

from __future__ import annotations

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
#: The fraction of the steps to train on, the steps of the others that are predicted, and the contexts they are given.
TRAINED, TARGETS = 0.6, 3000
CONTEXTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


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
    optimizer = torch.optim.Adam(network.parameters(), LR)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, STEPS)
    last = int(TRAINED * len(tokens)) - LENGTH - 1
    for _ in range(STEPS):
        windows = chance.integers(0, last, BATCH_SIZE) + np.arange(LENGTH + 1)[:, None]
        ids = torch.from_numpy(tokens[windows])
        wanted = torch.where(ids[1:] == size, -100, ids[1:])
        loss = nn.functional.cross_entropy(network(ids[:-1]).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        schedule.step()
    return network


def _score(network: Network, tokens: NDArray[np.int64], at: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """−ln P of the tokens at these places from so many before them."""
    ids = torch.from_numpy(tokens[at + np.arange(-steps, 0)[:, None]])
    logits = network(ids)[-1]
    wanted = torch.from_numpy(tokens[at])
    return nn.functional.cross_entropy(logits, wanted, reduction="none").double().numpy()
