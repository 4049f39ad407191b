"""accelerate and restore: the same objects, parameters, outputs and losses."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

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


class Own(nn.LSTM):
    """A user's subclass."""


class OurOwn(unspool.nn.GRU):
    """A user's subclass of ours."""


def parametrized(layer: nn.Module) -> nn.Module:
    parametrizations.weight_norm(layer, "weight_hh_l0")
    return layer


def replaced(layer: nn.Module) -> nn.Module:
    layer.forward = lambda x: (x, None)
    return layer


def test_what_is_skipped_is_listed_with_the_reason() -> None:
    model = nn.ModuleDict(
        {
            "own": Own(3, 4),
            "plain": nn.RNN(3, 4),
            "parametrized": parametrized(nn.GRU(3, 4)),
            "replaced": replaced(nn.LSTM(3, 4)),
            "cell": nn.GRUCell(3, 4),
            "head": nn.Linear(3, 4),
        }
    )
    kinds = {name: type(layer) for name, layer in model.items()}
    found = unspool.accelerate(model)
    assert found == ["plain"]
    assert found.skipped == {
        "own": "Own is a subclass of torch.nn.LSTM",
        "parametrized": "it is parametrized; accelerate first, then parametrize",
        "replaced": "its forward was replaced",
        "cell": "GRUCell runs one step per call",
    }
    assert str(found).startswith("['plain'], skipped: {'own': 'Own is a subclass of torch.nn.LSTM', ")
    assert {name: type(layer) for name, layer in model.items()} == {**kinds, "plain": unspool.nn.RNN}
    assert str(unspool.accelerate(nn.LSTM(3, 4))) == "['']"


def test_layers_that_were_ours_from_the_start_are_restored_too() -> None:
    model = nn.ModuleDict(
        {
            "lstm": unspool.nn.LSTM(3, 4, num_layers=2, recompute="sqrt"),
            "before": unspool.nn.GRU(3, 4, reset="before"),
            "parametrized": parametrized(unspool.nn.GRU(3, 4)),
            "own": OurOwn(3, 4),
            "replaced": replaced(unspool.nn.LSTM(3, 4)),
            "gru": unspool.nn.GRU(3, 4, recompute=2),
            "stack": unspool.nn.Stack("lstm", 3, 4),
        }
    )
    x = torch.randn(5, 2, 3)
    expected = model["lstm"](x)[0]
    found = unspool.restore(model)
    assert found == ["lstm", "gru"]
    for name in found:
        assert vars(model[name]).keys() == vars(type(model[name])(3, 4)).keys()
    assert found.skipped == {
        "replaced": "its forward was replaced",
        "before": "torch.nn has no GRU with reset='before'",
        "parametrized": "it is parametrized; remove its parametrizations first",
        "own": "OurOwn is a subclass of unspool.nn.GRU",
    }
    assert type(model["lstm"]) is nn.LSTM
    torch.testing.assert_close(model["lstm"](x)[0], expected, rtol=0, atol=1e-6)


def test_parametrized_after_it_was_accelerated() -> None:
    x, found = torch.randn(5, 2, 3), []
    for ours in (False, True):
        torch.manual_seed(0)
        layer = nn.LSTM(3, 4)
        if ours:
            unspool.accelerate(layer)
        found.append(parametrized(layer)(x)[0])
        assert isinstance(layer, nn.LSTM)
        assert isinstance(layer, unspool.nn.LSTM) is ours
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def test_not_a_module() -> None:
    with pytest.raises(ArgumentTypeError, match="module.*not a torch"):
        unspool.accelerate([nn.LSTM(3, 4)])  # type: ignore[arg-type]
