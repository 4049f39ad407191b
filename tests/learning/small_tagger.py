"""A small model with every kind of parameter, and optimizers to train it with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.learning.optimizers import make_optimizer

OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.1},
    "sgd with momentum": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    "adam": {"lr": 0.01, "weight_decay": 0.1},
    "adamw": {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95)},
}


class Tagger(nn.Module):
    """Embedding, recurrence, norm and head: every kind of parameter that decays or does not."""

    def __init__(self, dtype: torch.dtype = torch.float32, sparse: bool = False, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(11, 6, sparse=sparse)
        self.recurrence = nn.GRU(6, 9)
        self.norm = nn.LayerNorm(9)
        self.head = nn.Linear(9, 11)
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.to(dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.recurrence(self.embedding(tokens))[0]))
        return logits


def train(model: Tagger, optimizer: torch.optim.Optimizer, batches: range, lr: float = 0.05) -> None:
    for batch in batches:
        tokens = torch.randint(11, (5, 3), generator=torch.Generator().manual_seed(batch))
        optimizer.param_groups[0]["lr"] = lr / (1 + batch)
        optimizer.zero_grad()
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten().roll(1)).backward()
        optimizer.step()


def make(case: str, model: nn.Module) -> torch.optim.Optimizer:
    return make_optimizer(case.split()[0], model, **OPTIONS[case])
