"""Whole language models in torch, one update each: embedding, LSTM stack, head, loss, clipped gradient, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import nn as ours
from unspool.lab.bench.cases import Array
from unspool.learning import linear_cross_entropy
from unspool.learning.optimizers import make_optimizer

#: One update; returns the loss before it.
Update = Callable[[], float]


@dataclass(frozen=True)
class Model:
    """A language model and how it is trained; all contestants start from the same weights and read the same tokens."""

    name: str
    tokens: int
    width: int
    layers: int
    rows: int
    steps: int
    optimizer: str
    lr: float
    clip: float

    def __str__(self) -> str:
        return f"{self.name} model, {self.tokens:,} tokens, {self.layers} × {self.width}, {self.rows} × {self.steps}"

    @cached_property
    def batch(self) -> tuple[Array, Array]:
        """Inputs and targets, (time, batch)."""
        found = np.random.default_rng(0).integers(0, self.tokens, (self.steps + 1, self.rows))
        return found[:-1], found[1:]

    def make_network(self, lstm: type[nn.Module]) -> Network:
        """A network with the weights of this model."""
        torch.manual_seed(0)
        network = Network(self, lstm)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.uniform_(-0.1, 0.1)
        return network


class Network(nn.Module):
    """Tokens (time, batch) → what the head reads."""

    def __init__(self, model: Model, lstm: type[Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(model.tokens, model.width)
        self.lstm = lstm(model.width, model.width, model.layers)
        self.head = nn.Linear(model.width, model.tokens)

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = self.lstm(self.embedding(ids))[0]
        return output


Loss = Callable[[Network, Tensor, Tensor], Tensor]


def _ours(network: Network, ids: Tensor, targets: Tensor) -> Tensor:
    return linear_cross_entropy(network(ids), network.head.weight, network.head.bias, targets)


def _plain(network: Network, ids: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(network.head(network(ids)).flatten(0, 1), targets.flatten())


def _linear(network: Network, ids: Tensor, targets: Tensor) -> Tensor:
    hidden, head = network(ids).flatten(0, 1), network.head
    return functional.linear_cross_entropy(hidden, head.weight, targets.flatten(), linear_bias=head.bias)


def _plain_optimizer(model: Model, network: Network) -> torch.optim.Optimizer:
    """As people write it."""
    kinds: Mapping[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[model.optimizer](network.parameters(), lr=model.lr)


def _update(model: Model, network: Network, rule: torch.optim.Optimizer, loss: Loss) -> Update:
    ids, targets = map(torch.from_numpy, model.batch)
    parameters = [*network.parameters()]

    def update() -> float:
        rule.zero_grad()
        found = loss(network, ids, targets)
        found.backward()
        nn.utils.clip_grad_norm_(parameters, model.clip)
        rule.step()
        return float(found.detach())

    return update


def unspool(model: Model) -> Update:
    """Our layers, our loss, and torch's optimizer as we choose it."""
    network = model.make_network(ours.LSTM)
    return _update(model, network, make_optimizer(model.optimizer, network, lr=model.lr), _ours)


def torch_plain(model: Model, loss: Loss = _plain) -> Update:
    """What people write."""
    network = model.make_network(nn.LSTM)
    return _update(model, network, _plain_optimizer(model, network), loss)


def torch_linear(model: Model) -> Update:
    """With torch's own joint head and loss."""
    return torch_plain(model, _linear)


def torch_compiled(model: Model) -> Update:
    """The plain script with its loss compiled; the loop over time inside torch.nn.LSTM is native either way."""
    return torch_plain(model, torch.compile(_plain))


MAKERS: Mapping[str, Callable[[Model], Update]] = {
    "unspool": unspool,
    "torch": torch_plain,
    "torch, linear_cross_entropy": torch_linear,
    "torch.compile": torch_compiled,
}
