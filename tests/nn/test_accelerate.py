"""accelerate and restore: the same objects, parameters, outputs and losses."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool.errors import ArgumentTypeError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.lower = nn.GRU(6, 7, bidirectional=True)
        self.parts = nn.ModuleDict({"upper": nn.LSTM(14, 8, num_layers=2), "tail": nn.RNN(8, 5, nonlinearity="relu")})
        self.head = nn.Linear(5, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x, _ = self.lower(self.embed(tokens))
        x, _ = self.parts["upper"](x)
        x, _ = self.parts["tail"](x)
        logits = self.head(x)
        assert isinstance(logits, Tensor)
        return logits


NAMES = ["lower", "parts.upper", "parts.tail"]


def test_same_objects_parameters_outputs_and_keys() -> None:
    model = Model()
    tokens = torch.randint(11, (9, 4))
    expected, parameters, layer = model(tokens), list(model.parameters()), model.lower
    keys = list(model.state_dict())
    assert unspool.accelerate(model) == NAMES
    assert model.lower is layer
    assert isinstance(model.lower, unspool.nn.GRU)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=1e-6)
    assert unspool.accelerate(model) == []
    assert unspool.restore(model) == NAMES
    assert [type(part) for part in (model.lower, *model.parts.values())] == [nn.GRU, nn.LSTM, nn.RNN]
    assert torch.equal(model(tokens), expected)
    assert unspool.restore(model) == []


def test_accelerated_in_the_middle_of_training_goes_on_with_the_same_loss() -> None:
    torch.manual_seed(0)
    plain = Model().double()
    changing = copy.deepcopy(plain)
    optimizers = [torch.optim.Adam(model.parameters(), 0.01) for model in (plain, changing)]
    tokens = torch.randint(11, (12, 8))
    for step in range(40):
        if step == 15:
            unspool.accelerate(changing)
        if step == 30:
            unspool.restore(changing)
        losses = []
        for model, optimizer in zip((plain, changing), optimizers, strict=True):
            loss = nn.functional.cross_entropy(model(tokens[:-1]).flatten(0, 1), tokens[1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert losses[0] < 2.2 < math.log(11)  # it did learn


def test_the_module_itself() -> None:
    layer = nn.LSTM(3, 4)
    kinds: list[type] = []
    assert unspool.accelerate(layer) == [""]
    kinds.append(type(layer))
    assert unspool.restore(layer) == [""]
    kinds.append(type(layer))
    assert kinds == [unspool.nn.LSTM, nn.LSTM]


def test_hooks_and_copies_survive() -> None:
    model = Model()
    seen = []
    model.lower.register_forward_hook(lambda *_: seen.append(1))
    unspool.accelerate(model)
    twin = copy.deepcopy(model)
    tokens = torch.randint(11, (3, 2))
    assert torch.equal(model(tokens), twin(tokens))
    assert len(seen) == 2
    assert unspool.restore(twin) == NAMES


def test_only_what_it_changed_is_restored_and_subclasses_are_left_alone() -> None:
    class Own(nn.LSTM):
        pass

    model = nn.ModuleList([Own(3, 4), unspool.nn.GRU(3, 4, reset="before"), nn.RNN(3, 4)])
    assert unspool.accelerate(model) == ["2"]
    assert type(model[0]) is Own
    assert unspool.restore(model) == ["2"]
    assert type(model[1]) is unspool.nn.GRU


def test_not_a_module() -> None:
    with pytest.raises(ArgumentTypeError, match="module.*not a torch"):
        unspool.accelerate([nn.LSTM(3, 4)])  # type: ignore[arg-type]
