"""A tiny run to look into, and its model by hand: torch.nn and the tensors of its file, with nothing of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.nn import functional

from unspool.learning.events import Evaluated, Event, Finished
from unspool.runs.train import train
from unspool.tasks import lm as language_model

LINES = "the quick brown fox jumps over the lazy dog; then it sleeps.\n床前明月光，疑是地上霜。\n"
TEXT = LINES * 90
OPTIONS: dict[str, Any] = {
    **{"hidden": 12, "engine": "torch", "batch_size": 4, "bptt": 16, "steps": 40, "eval_every": 20},
    **{"lr": 0.02, "seed": 7, "test": 0.1},
}


class TinyRun(NamedTuple):
    """A run's folder, its text, and what it told."""

    path: Path
    text: Path
    finished: Finished
    events: list[Event]


def train_tiny(folder: Path) -> TinyRun:
    """The run; tokens and samples are kept small and out of the user's cache."""
    text = folder / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    events: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(folder / "cache"))
        patch.setattr(language_model, "SAMPLE", 20)
        trained = train(text, out=folder / "run", tell=events.append, **OPTIONS)
    assert sum(isinstance(event, Evaluated) for event in events) == 2
    return TinyRun(folder / "run", text, trained.finished, events)


class ByHand:
    """An LSTM of torch.nn with the run's weights, in float64, and the tokens of vocabulary.json."""

    def __init__(self, run: Path) -> None:
        tensors = {name: tensor.double() for name, tensor in self._read(run).items()}
        self.tokens: list[str] = json.loads((run / "vocabulary.json").read_text(encoding="utf-8"))["tokens"]
        self._embedding, self._head = tensors.pop("embedding.weight"), tensors.pop("head")
        self._bias = tensors.pop("head_bias")
        self._lstm = torch.nn.LSTM(self._embedding.shape[1], self._head.shape[1]).double()
        self._lstm.load_state_dict({name.removeprefix("backbone.layers."): tensor for name, tensor in tensors.items()})

    @staticmethod
    def _read(run: Path) -> Mapping[str, Tensor]:
        found: Mapping[str, Tensor] = safetensors.torch.load_file(run / "model.safetensors")
        return found

    def ids(self, text: str) -> Tensor:
        """The ids of characters, 0 for those that are not in the list."""
        return torch.tensor([self.tokens.index(one) if one in self.tokens[1:] else 0 for one in text])

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """What follows each of the ids, read from the first to the last in one go."""
        output, _ = self._lstm(self._embedding[ids])
        return functional.linear(output, self._head, self._bias)

    def loss(self, text: str) -> float:
        """The mean cross-entropy of a text that is read unbroken."""
        ids = self.ids(text)
        return float(functional.cross_entropy(self.logits(ids)[:-1], ids[1:]))

    def greedy(self, prompt: str, count: int) -> tuple[str, float]:
        """The likeliest token, and again, never the unknown one; and the log-probability of them all."""
        said, total = "", 0.0
        for _ in range(count):
            log_p = self.logits(self.ids(prompt + said))[-1].log_softmax(-1)
            best = int(log_p[1:].argmax()) + 1
            said, total = said + self.tokens[best], total + float(log_p[best])
        return said, total


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, to see that nothing has changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
