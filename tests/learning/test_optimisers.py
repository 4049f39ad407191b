"""Optimisers against their update rules written out, and a resumed one against one that was never interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError, DataError, UnknownNameError
from unspool.learning.optimisers import load_optimiser, make_optimiser, optimiser_tensors

OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"rate": 0.1},
    "sgd with momentum": {"rate": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    "adam": {"rate": 0.01, "weight_decay": 0.1},
    "adamw": {"rate": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95)},
}


@pytest.fixture(autouse=True)
def check_sparse() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants():
        yield


class Tagger(nn.Module):
    """Embedding, recurrence, norm and read-out: every kind of parameter that decays or does not."""

    def __init__(self, dtype: torch.dtype = torch.float32, sparse: bool = False, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(11, 6, sparse=sparse)
        self.recurrence = nn.GRU(6, 9)
        self.norm = nn.LayerNorm(9)
        self.readout = nn.Linear(9, 11)
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.to(dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.norm(self.recurrence(self.embedding(tokens))[0]))
        return logits


def train(model: Tagger, optimiser: torch.optim.Optimizer, batches: range, rate: float = 0.05) -> None:
    for batch in batches:
        tokens = torch.randint(11, (5, 3), generator=torch.Generator().manual_seed(batch))
        optimiser.param_groups[0]["lr"] = rate / (1 + batch)
        optimiser.zero_grad()
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten().roll(1)).backward()
        optimiser.step()


def make(case: str, model: nn.Module) -> torch.optim.Optimizer:
    return make_optimiser(case.split()[0], model, **OPTIONS[case])


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
                w = w - options["rate"] * v
                continue
            m, s = first * m + (1 - first) * g, second * s + (1 - second) * g**2
            w = w - (options["rate"] * decay * w if name == "adamw" else 0)
            w = w - options["rate"] * (m / (1 - first**step)) / ((s / (1 - second**step)).sqrt() + 1e-8)
        found.append(w)
    return found


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("case", OPTIONS)
def test_update_rules(case: str, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.learning.optimisers._can_fuse", lambda parameters: fused)
    model = Tagger(torch.float64)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decays = [p.dim() >= 2 and not name.startswith("embedding") for name, p in named]
    assert sum(decays) == 3  # the GRU's two matrices and the read-out's
    gradients = [[torch.randn_like(p) for _, p in named] for _ in range(7)]
    expected = rule(case, [p.detach().clone() for _, p in named], gradients, decays)
    optimiser = make(case, model)
    assert all(group["fused"] is fused for group in optimiser.param_groups)
    for slopes in gradients:
        for (_, parameter), slope in zip(named, slopes, strict=True):
            parameter.grad = slope.clone()
        optimiser.step()
    for (_, parameter), value in zip(named, expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-11, atol=1e-13)
    assert torch.equal(model.frozen, torch.ones(2, 2))


def test_only_what_a_fused_step_can_walk_is_fused() -> None:
    assert make("adam", Tagger()).param_groups[0]["fused"]
    turned = nn.Parameter(torch.arange(6.0).view(2, 3).T)
    optimiser = make_optimiser("sgd", [("turned", turned)], rate=1.0)
    assert not optimiser.param_groups[0]["fused"]
    turned.grad = torch.arange(6.0).view(3, 2)
    optimiser.step()
    assert turned.tolist() == [[0, 2], [-1, 1], [-2, 0]]


def test_named_parameters_decay_by_their_dimensions() -> None:
    model = Tagger()
    optimiser = make_optimiser("adamw", model.named_parameters(), rate=0.1, weight_decay=0.3)
    groups = [{id(p) for p in group["params"]} for group in optimiser.param_groups]
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.3, 0.0]
    assert groups[0] == {id(p) for p in model.parameters() if p.requires_grad and p.dim() >= 2}
    assert id(model.embedding.weight) in groups[0]


def test_a_read_out_tied_to_the_embedding_does_not_decay() -> None:
    model = Tagger()
    model.readout = nn.Linear(6, 11)
    model.readout.weight = model.embedding.weight
    optimiser = make_optimiser("sgd", model, rate=0.1, weight_decay=0.3)
    assert all(p is not model.embedding.weight for p in optimiser.param_groups[0]["params"])
    assert sum(p is model.embedding.weight for p in optimiser.param_groups[1]["params"]) == 1


def test_a_first_gradient_that_comes_late() -> None:
    early, late = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimiser = make_optimiser("sgd", [("early", early), ("late", late)], rate=0.1, momentum=0.5)
    early.grad = torch.ones(2)
    optimiser.step()
    late.grad = torch.ones(2)
    optimiser.step()
    optimiser.step()
    torch.testing.assert_close(early.detach(), torch.full((2,), 1 - 0.1 * (1 + 1.5 + 1.75)))
    torch.testing.assert_close(late.detach(), torch.full((2,), 1 - 0.1 * (1 + 1.5)))


def test_sparse_gradients() -> None:
    dense, sparse = Tagger(torch.float64), Tagger(torch.float64, sparse=True)
    train(dense, make_optimiser("sgd", dense, rate=0.1), range(4))
    train(sparse, make_optimiser("sgd", sparse, rate=0.1, sparse=True), range(4))
    for mine, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("adam", {"sparse": True}, "`name` .='adam'. cannot take sparse"),
        ("sgd", {"sparse": True, "momentum": 0.9}, "`momentum`.*sparse"),
        ("sgd", {"sparse": True, "weight_decay": 0.1}, "`weight_decay`.*sparse"),
        ("sgd", {}, "Give sparse=True"),
        ("sgd", {"rate": 0.0}, "`rate`"),
        ("sgd", {"rate": math.nan}, "`rate`"),
        ("sgd", {"momentum": 1.0}, "`momentum`"),
        ("adamw", {"momentum": 0.9}, "is not read by adamw"),
        ("adam", {"betas": (0.9, 1.0)}, "`betas`"),
        ("adam", {"weight_decay": -1.0}, "`weight_decay`"),
    ],
)
def test_refusals(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make_optimiser(name, Tagger(sparse=True), **{"rate": 0.1, **options})


def test_other_refusals() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'adam'"):
        make_optimiser("adamx", Tagger(), rate=0.1)
    with pytest.raises(ArgumentError, match="no parameter to train"):
        make_optimiser("adam", nn.Tanh(), rate=0.1)
    lbfgs = torch.optim.LBFGS([nn.Parameter(torch.ones(2))])
    lbfgs.state[lbfgs.param_groups[0]["params"][0]]["n_iter"] = 3
    with pytest.raises(ArgumentError, match="`0.n_iter`.*LBFGS"):
        optimiser_tensors(lbfgs)


@pytest.mark.parametrize("case", OPTIONS)
def test_resumed_is_uninterrupted(case: str) -> None:
    whole = Tagger()
    optimiser = make(case, whole)
    train(whole, optimiser, range(4))
    tensors, facts = optimiser_tensors(optimiser)
    assert all(not tensor.requires_grad and tensor.is_contiguous() for tensor in tensors.values())
    text = json.dumps(facts)
    weights = {name: value.clone() for name, value in whole.state_dict().items()}
    train(whole, optimiser, range(4, 8))  # what was kept is a copy, which stays as it was

    resumed = Tagger(seed=1)
    again = make_optimiser(case.split()[0], resumed, rate=7.0)
    train(resumed, again, range(1))  # a used optimiser forgets what it knew
    resumed.load_state_dict(weights)
    load_optimiser(again, tensors, json.loads(text))
    assert optimiser_tensors(again)[1] == facts
    train(resumed, again, range(4, 8))
    for mine, other in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, other)
    ours, theirs = optimiser_tensors(again)[0], optimiser_tensors(optimiser)[0]
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_names_are_by_index() -> None:
    model = Tagger()
    optimiser = make("adam", model)
    train(model, optimiser, range(1))
    tensors, facts = optimiser_tensors(optimiser)
    indices = range(sum(p.requires_grad for p in model.parameters()))
    assert sorted(tensors) == sorted(f"{i}.{key}" for i in indices for key in ("exp_avg", "exp_avg_sq", "step"))
    assert tensors["0.step"] == 1
    theirs = optimiser.state_dict()["state"]
    assert all(torch.equal(tensors[f"{i}.exp_avg"], theirs[i]["exp_avg"]) for i in indices)
    assert facts["sizes"] == [3, 6]


def test_states_that_do_not_fit() -> None:
    model = Tagger()
    optimiser = make("adam", model)
    train(model, optimiser, range(2))
    tensors, facts = optimiser_tensors(optimiser)
    wider = [*facts["shapes"][:1], [9, 9, 9], *facts["shapes"][2:]]
    fewer = {name: tensor for name, tensor in tensors.items() if name != "2.exp_avg"}
    unknown = {"99.exp_avg": torch.zeros(1)}
    for some, told, words in [
        (tensors, {**facts, "optimiser": "SGD"}, "that of SGD, the optimiser is Adam"),
        (tensors, {**facts, "shapes": facts["shapes"][:-1]}, "is for 8 parameters where the optimiser has 9"),
        (tensors, {**facts, "shapes": wider}, r"Parameter 1 is .* where the state is for \(9, 9, 9\)"),
        (tensors, {**facts, "sizes": [4, 4]}, r"groups of \[4, 4\]"),
        (tensors, {**facts, "groups": [{}, {}]}, "'groups'"),
        (tensors, {key: value for key, value in facts.items() if key != "groups"}, "'groups' is missing"),
        (fewer, facts, "'2.exp_avg' of the optimiser's state is missing"),
        ({**tensors, **unknown}, facts, "'99.exp_avg' of the optimiser's state is not named"),
        ({**tensors, **unknown}, {**facts, "tensors": [*tensors, *unknown]}, "'99.exp_avg' names no parameter"),
        ({**tensors, "2.exp_avg": torch.zeros(2)}, facts, r"'2.exp_avg' is \(2,\)"),
        ({**tensors, "2.exp_avg": tensors["2.exp_avg"].double()}, facts, "'2.exp_avg' is .*float64 where"),
        ({**tensors, "2.step": torch.zeros(2)}, facts, r"'2.step' is \(2,\)"),
    ]:
        with pytest.raises(DataError, match=words):
            load_optimiser(optimiser, some, told)
    after = optimiser_tensors(optimiser)
    assert after[1] == facts
    assert all(torch.equal(after[0][name], tensor) for name, tensor in tensors.items())
