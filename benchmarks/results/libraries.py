"""The same model with layers of unspool.nn and of torch.nn: which one a script trains, and how fast both are."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from types import ModuleType

import torch
from torch import Tensor, nn

import unspool.nn

LIBRARIES: Mapping[str, ModuleType] = {"unspool": unspool.nn, "torch": torch.nn}
CLASSES = {"elman": "RNN", "gru": "GRU", "lstm": "LSTM"}


class LastState(nn.Module):
    """A recurrent layer and a linear head on its last output: (time, batch, inputs) → (batch, outputs)."""

    def __init__(self, library: str, cell: str, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.layer = getattr(LIBRARIES[library], CLASSES[cell])(inputs, hidden)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        predicted: Tensor = self.head(self.layer(x)[0][-1])
        return predicted


def update(model: nn.Module, rule: torch.optim.Optimizer, loss: Tensor) -> None:
    """One update with a clipped gradient."""
    rule.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    rule.step()


def compare_speed(make: Callable[[str], nn.Module], loss: Callable[[nn.Module], Tensor], rounds: int = 5) -> str:
    """The median seconds of an update with each library, which take turns, as a line of text."""
    pairs = [(name, model, torch.optim.Adam(model.parameters())) for name in LIBRARIES for model in [make(name)]]
    seconds: dict[str, list[float]] = {name: [] for name in LIBRARIES}
    for place in range(rounds + 1):
        for name, model, rule in pairs:
            begun = time.perf_counter()
            update(model, rule, loss(model))
            if place:  # the first one compiles and warms up
                seconds[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    said = ", ".join(f"{name} {median * 1e3:.1f} ms" for name, median in medians.items())
    return f"{said} per update: unspool is {medians['torch'] / medians['unspool']:.2f} times as fast"
