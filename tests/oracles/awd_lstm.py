"""The updates of AWD-LSTM (Merity, Keskar and Socher, 2017) as a plain torch script, as far as the project has them.

Unlike the paper: windows of one length, one dropout rate outside the layers, activation regularization before dropout,
weight decay of matrices alone. The one bias per gate is as in `zaremba`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tests.oracles import zaremba
from tests.oracles.zaremba import State
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

BATCH_SIZE, STEPS, LR, CLIP, WEIGHT_DECAY = 20, 70, 30.0, 0.25, 1.2e-6
DROPOUT, WEIGHT_DROPOUT, EMBEDDING_DROPOUT = 0.4, 0.5, 0.1
ALPHA, BETA = 2.0, 1.0


class Model(zaremba.Model):
    """Embedding, two LSTM layers, softmax with the embedding's matrix."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__(words, width, zaremba.RECIPES["zaremba-small"])
        self.head.weight = self.embedding.weight

    def loss(self, ids: Tensor, targets: Tensor, states: list[State]) -> tuple[Tensor, list[State]]:
        """Cross-entropy, AR and TAR; masks are drawn in the order in which a run draws them."""
        table = functional.dropout(ids.new_ones(len(self.head.bias), 1, dtype=self.head.bias.dtype), EMBEDDING_DROPOUT)
        raw = x = self._lock(functional.embedding(ids, table * self.embedding.weight))
        last = list[State]()
        for layer, state in zip(self.layers, states, strict=True):
            gates = layer.get_parameter("weight_hh_l0").chunk(4)
            dropped = [gate * functional.dropout(torch.ones_like(gate), WEIGHT_DROPOUT) for gate in gates]
            raw, (h, c) = functional_call(layer, {"weight_hh_l0": torch.cat(dropped)}, (x, state))
            last.append((h.detach(), c.detach()))
            x = self._lock(raw)
        loss = functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())
        change = raw[1:] - raw[:-1]
        return loss + ALPHA * raw.pow(2).mean() + BETA * change.pow(2).mean(), last

    def _lock(self, x: Tensor) -> Tensor:
        """Dropout with one mask for all steps."""
        return x * functional.dropout(torch.ones_like(x[0]), DROPOUT)


def train(model: Model, tokens: Tensor) -> Iterator[int]:
    """Train on a text, epoch after epoch; yields the number of updates after each."""
    recurrent = [one for one in model.stack.parameters() if one.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [one for one in recurrent if one.dim() == 2], "weight_decay": WEIGHT_DECAY},
        {"params": [one for one in recurrent if one.dim() == 1]},
        {"params": [model.embedding.weight, model.head.bias]},
    ]
    optimizer = torch.optim.SGD(groups, lr=LR)
    updates = 0
    while True:
        states: list[State] = [None, None]
        for ids, targets in zaremba.windows(tokens, BATCH_SIZE, STEPS):
            optimizer.zero_grad()
            loss, states = model.loss(ids, targets, states)
            loss.backward()
            zaremba.clip(model, CLIP)
            optimizer.step()
            updates += 1
        yield updates
