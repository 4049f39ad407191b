"""Optimizers against their update rules written out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.learning.small_tagger import OPTIONS, Tagger, make, train
from torch import Tensor, nn

from unspool.errors import ArgumentError, UnknownNameError
from unspool.learning.optimizers import make_optimizer


@pytest.fixture(autouse=True)
def check_sparse() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants():
        yield


def rule(case: str, values: list[Tensor], gradients: list[list[Tensor]], decays: list[bool]) -> list[Tensor]:
    """The textbook's update rules, one tensor at a time, in float64."""
    name, options = case.split()[0], {"momentum": 0.0, "weight_decay": 0.0, "betas": (0.9, 0.999), **OPTIONS[case]}
    found = []
    for index, (value, decayed) in enumerate(zip(values, decays, strict=True)):
        w, v, m, s = value.clone(), torch.zeros_like(value), torch.zeros_like(value), torch.zeros_like(value)
        decay = options["weight_decay"] if decayed else 0.0
        first, second = options["betas"]
        for step, slopes in enumerate(gradients, 1):
            g = slopes[index] + (0 if name == "adamw" else decay * w)
            if name == "sgd":
                v = options["momentum"] * v + g
                w = w - options["lr"] * v
                continue
            m, s = first * m + (1 - first) * g, second * s + (1 - second) * g**2
            w = w - (options["lr"] * decay * w if name == "adamw" else 0)
            w = w - options["lr"] * (m / (1 - first**step)) / ((s / (1 - second**step)).sqrt() + 1e-8)
        found.append(w)
    return found


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("case", OPTIONS)
def test_update_rules(case: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.learning.optimizers._can_fuse", lambda parameters: fused)
    model = Tagger(torch.float64)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decays = [p.dim() >= 2 and not name.startswith("embedding") for name, p in named]
    assert sum(decays) == 3  # the GRU's two matrices and the head's
    gradients = [[torch.randn_like(p) for _, p in named] for _ in range(7)]
    expected = rule(case, [p.detach().clone() for _, p in named], gradients, decays)
    optimizer = make(case, model)
    assert all(group["fused"] is fused for group in optimizer.param_groups)
    for slopes in gradients:
        for (_, parameter), slope in zip(named, slopes, strict=True):
            parameter.grad = slope.clone()
        optimizer.step()
    for (_, parameter), value in zip(named, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-11, atol=1e-13)
    assert torch.equal(model.frozen, torch.ones(2, 2))


def test_only_what_a_fused_step_can_walk_is_fused() -> None:
    assert make("adam", Tagger()).param_groups[0]["fused"]
    turned = nn.Parameter(torch.arange(6.0).view(2, 3).T)
    optimizer = make_optimizer("sgd", [("turned", turned)], lr=1.0)
    assert not optimizer.param_groups[0]["fused"]
    turned.grad = torch.arange(6.0).view(3, 2)
    optimizer.step()
    assert turned.tolist() == [[0, 2], [-1, 1], [-2, 0]]


def test_named_parameters_decay_by_their_dimensions() -> None:
    model = Tagger()
    optimizer = make_optimizer("adamw", model.named_parameters(), lr=0.1, weight_decay=0.3)
    groups = [{id(p) for p in group["params"]} for group in optimizer.param_groups]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
    assert groups[0] == {id(p) for p in model.parameters() if p.requires_grad and p.dim() >= 2}
    assert id(model.embedding.weight) in groups[0]


def test_a_read_out_tied_to_the_embedding_does_not_decay() -> None:
    model = Tagger()
    model.readout = nn.Linear(6, 11)
    model.readout.weight = model.embedding.weight
    optimizer = make_optimizer("sgd", model, lr=0.1, weight_decay=0.3)
    assert all(p is not model.embedding.weight for p in optimizer.param_groups[0]["params"])
    assert sum(p is model.embedding.weight for p in optimizer.param_groups[1]["params"]) == 1


def test_a_first_gradient_that_comes_late() -> None:
    early, late = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = make_optimizer("sgd", [("early", early), ("late", late)], lr=0.1, momentum=0.5)
    early.grad = torch.ones(2)
    optimizer.step()
    late.grad = torch.ones(2)
    optimizer.step()
    optimizer.step()
    torch.testing.assert_close(early.detach(), torch.full((2,), 1 - 0.1 * (1 + 1.5 + 1.75)))
    torch.testing.assert_close(late.detach(), torch.full((2,), 1 - 0.1 * (1 + 1.5)))


def test_sparse_gradients() -> None:
    dense, sparse = Tagger(torch.float64), Tagger(torch.float64, sparse=True)
    train(dense, make_optimizer("sgd", dense, lr=0.1), range(4))
    train(sparse, make_optimizer("sgd", sparse, lr=0.1, sparse=True), range(4))
    for mine, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("adam", {"sparse": True}, "`name` .='adam'. cannot take sparse"),
        ("sgd", {"sparse": True, "momentum": 0.9}, "`momentum`.*sparse"),
        ("sgd", {"sparse": True, "weight_decay": 0.1}, "`weight_decay`.*sparse"),
        ("sgd", {}, "Give sparse=True"),
        ("sgd", {"lr": 0.0}, "`lr`"),
        ("sgd", {"lr": math.nan}, "`lr`"),
        ("sgd", {"lr": 1e39, "sparse": True}, r"`lr` \(=1e\+39\) is beyond 3.4e\+38, the largest number"),
        ("sgd", {"momentum": 1.0}, "`momentum`"),
        ("adamw", {"momentum": 0.9}, "has no effect on adamw"),
        ("adam", {"betas": (0.9, 1.0)}, "`betas`"),
        ("adam", {"weight_decay": -1.0}, "`weight_decay`"),
    ],
)
def test_refusals(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make_optimizer(name, Tagger(sparse=True), **{"lr": 0.1, **options})


def test_other_refusals() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'adam'"):
        make_optimizer("adamx", Tagger(), lr=0.1)
    with pytest.raises(ArgumentError, match="no parameter to train"):
        make_optimizer("adam", nn.Tanh(), lr=0.1)
