"""The recipe of Zaremba, Sutskever and Vinyals (2014) as a plain torch script.

It follows the text of the paper: a layer has one affine map of its input and its previous state, hence one bias. The
second of torch.nn's two stays 0, unless `both_biases` are wanted, as in the authors' program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

State = tuple[Tensor, Tensor] | None


@dataclass(frozen=True)
class Recipe:
    """The numbers of section 4.1 of the paper."""

    steps: int
    init: float
    dropout: float
    decay: float  # the learning rate is divided by it after each epoch …
    flat_epochs: int  # … but for the first ones
    clip: float
    batch_size: int = 20
    lr: float = 1.0


RECIPES = {
    "zaremba-small": Recipe(steps=20, init=0.1, dropout=0.0, decay=2.0, flat_epochs=4, clip=5.0),
    "zaremba-medium": Recipe(steps=35, init=0.05, dropout=0.5, decay=1.2, flat_epochs=6, clip=5.0),
    "zaremba-large": Recipe(steps=35, init=0.04, dropout=0.65, decay=1.15, flat_epochs=14, clip=10.0),
}


class Model(nn.Module):
    """Embedding, two LSTM layers, softmax; dropout on every connection but the recurrent ones."""

    def __init__(self, words: int, width: int, recipe: Recipe, both_biases: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = [nn.LSTM(width, width), nn.LSTM(width, width)]
        self.stack = nn.ModuleList(self.layers)
        self.head = nn.Linear(width, words)
        self.dropout = recipe.dropout
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -recipe.init, recipe.init)
        for layer in () if both_biases else self.layers:
            nn.init.zeros_(layer.get_parameter("bias_hh_l0")).requires_grad_(False)

    def forward(self, ids: Tensor, states: list[State]) -> tuple[Tensor, list[State]]:
        x, last = self._drop(self.embedding(ids)), list[State]()
        for layer, state in zip(self.layers, states, strict=True):
            output, (h, c) = layer(x, state)
            last.append((h.detach(), c.detach()))
            x = self._drop(output)
        return self.head(x), last

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by gate, under the names that a run has for them; each is a part of the model's own memory."""
        yield from (("embedding.weight", self.embedding.weight), ("head", self.head.weight))
        yield "head_bias", self.head.bias
        for level, layer in enumerate(self.layers):
            for letter, name in (("W", "weight_ih_l0"), ("U", "weight_hh_l0"), ("b", "bias_ih_l0")):
                for gate, part in zip("ifgo", layer.get_parameter(name).chunk(4), strict=True):
                    yield f"backbone.layers.{level}.{letter}_{gate}", part

    @torch.no_grad()
    def take(self, weights: Mapping[str, Tensor]) -> Self:
        """Start from the weights of a run."""
        for name, own in self.named_weights():
            own.copy_(weights[name])
        return self


def train(model: Model, tokens: Tensor, recipe: Recipe) -> Iterator[int]:
    """Train on a text, epoch after epoch; yields the number of updates after each."""
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=recipe.lr)
    updates, epoch = 0, 0
    while True:
        epoch += 1
        optimizer.param_groups[0]["lr"] = recipe.lr / recipe.decay ** max(0, epoch - recipe.flat_epochs)
        states: list[State] = [None, None]
        model.train()
        for ids, targets in windows(tokens, recipe.batch_size, recipe.steps):
            optimizer.zero_grad()
            logits, states = model(ids, states)
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            (loss / recipe.batch_size).backward()
            clip(model, recipe.clip)
            optimizer.step()
            updates += 1
        yield updates


def windows(tokens: Tensor, batch_size: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets (time, batch) of a text in parallel rows; a row's last target starts the next row."""
    length = (len(tokens) - 1) // batch_size
    streams = torch.stack([tokens[row * length : (row + 1) * length + 1] for row in range(batch_size)], 1)
    for first in range(0, length, steps):
        window = streams[first : first + steps + 1]
        yield window[:-1], window[1:]


def clip(model: nn.Module, limit: float) -> None:
    """As torch's clip_grad_norm_, without the 1e-6 that it adds to the norm."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    for gradient in gradients if norm > limit else ():
        gradient.mul_(limit / norm)


@torch.no_grad()
def perplexity(model: Model, tokens: Tensor, steps: int = 512) -> float:
    """Of a text that is read once, with the state carried on."""
    model.eval()
    total, states = 0.0, list[State]([None, None])
    for ids, targets in windows(tokens, 1, steps):
        logits, states = model(ids, states)
        total += float(functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"))
    return math.exp(total / (len(tokens) - 1))
