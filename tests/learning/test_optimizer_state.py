"""The state of an optimizer: a resumed one against one that was never interrupted, and states that do not fit."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.learning.small_tagger import OPTIONS, Tagger, make, train
from torch import nn

from unspool.errors import ArgumentError, DataError
from unspool.learning.optimizer_state import load_optimizer, optimizer_tensors
from unspool.learning.optimizers import make_optimizer


@pytest.fixture(autouse=True)
def check_sparse() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants():
        yield


@pytest.mark.parametrize("case", OPTIONS)
def test_resumed_is_uninterrupted(case: str) -> None:
    whole = Tagger()
    optimizer = make(case, whole)
    train(whole, optimizer, range(4))
    tensors, facts = optimizer_tensors(optimizer)
    assert all(not tensor.requires_grad and tensor.is_contiguous() for tensor in tensors.values())
    text = json.dumps(facts)
    weights = {name: value.clone() for name, value in whole.state_dict().items()}
    train(whole, optimizer, range(4, 8))  # what was kept is a copy, which stays as it was

    resumed = Tagger(seed=1)
    again = make_optimizer(case.split()[0], resumed, lr=7.0)
    train(resumed, again, range(1))  # a used optimizer forgets what it knew
    resumed.load_state_dict(weights)
    load_optimizer(again, tensors, json.loads(text))
    assert optimizer_tensors(again)[1] == facts
    train(resumed, again, range(4, 8))
    for mine, other in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, other)
    ours, theirs = optimizer_tensors(again)[0], optimizer_tensors(optimizer)[0]
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_names_are_by_index() -> None:
    model = Tagger()
    optimizer = make("adam", model)
    train(model, optimizer, range(1))
    tensors, facts = optimizer_tensors(optimizer)
    indices = range(sum(p.requires_grad for p in model.parameters()))
    assert sorted(tensors) == sorted(f"{i}.{key}" for i in indices for key in ("exp_avg", "exp_avg_sq", "step"))
    assert tensors["0.step"] == 1
    theirs = optimizer.state_dict()["state"]
    assert all(torch.equal(tensors[f"{i}.exp_avg"], theirs[i]["exp_avg"]) for i in indices)
    assert facts["sizes"] == [3, 6]


def with_group(facts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Facts with other settings of the first group."""
    first, *others = facts["groups"]
    return {**facts, "groups": [{**first, **changed}, *others]}


def test_states_that_do_not_fit() -> None:
    model = Tagger()
    optimizer = make("adam", model)
    train(model, optimizer, range(2))
    tensors, facts = optimizer_tensors(optimizer)
    wider = [*facts["shapes"][:1], [9, 9, 9], *facts["shapes"][2:]]
    fewer = {name: tensor for name, tensor in tensors.items() if name != "2.exp_avg"}
    unknown = {"99.exp_avg": torch.zeros(1)}
    for some, told, words in [
        (tensors, {**facts, "optimizer": "SGD"}, "that of SGD, the optimizer is Adam"),
        (tensors, {**facts, "shapes": facts["shapes"][:-1]}, "is for 8 parameters where the optimizer has 9"),
        (tensors, {**facts, "shapes": wider}, r"Parameter 1 is .* where the state is for \(9, 9, 9\)"),
        (tensors, {**facts, "sizes": [4, 4]}, r"groups of \[4, 4\]"),
        (tensors, {**facts, "groups": [{}, {}]}, "'groups'"),
        (tensors, {key: value for key, value in facts.items() if key != "groups"}, "'groups' is missing"),
        (fewer, facts, "'2.exp_avg' of the optimizer's state is missing"),
        ({**tensors, **unknown}, facts, "'99.exp_avg' of the optimizer's state is not named"),
        ({**tensors, **unknown}, {**facts, "tensors": [*tensors, *unknown]}, "'99.exp_avg' names no parameter"),
        ({**tensors, "2.exp_avg": torch.zeros(2)}, facts, r"'2.exp_avg' is \(2,\)"),
        ({**tensors, "2.exp_avg": tensors["2.exp_avg"].double()}, facts, "'2.exp_avg' is .*float64 where"),
        ({**tensors, "2.step": torch.zeros(2)}, facts, r"'2.step' is \(2,\)"),
        ({**tensors, "2.step": torch.tensor(True)}, facts, r"'2.step' is \(\) torch.bool"),
        ({**tensors, "2.step": torch.tensor(-1.0)}, facts, "'2.step' is"),
        (tensors, {**facts, "shapes": 3}, "'shapes' of the optimizer's facts is 3"),
        (tensors, {**facts, "sizes": ["4", 5]}, "'sizes.0' of the optimizer's facts is '4'"),
        (tensors, {**facts, "tensors": None}, "'tensors' of the optimizer's facts is None"),
        (tensors, with_group(facts, betas=[0.9]), r"'betas' of the optimizer's facts is \[0.9\], where"),
        (tensors, with_group(facts, eps="small"), "'eps' of the optimizer's facts is 'small', where"),
        (tensors, with_group(facts, eps=math.nan), "'eps' of the optimizer's facts is nan, where"),
        (tensors, with_group(facts, amsgrad=1), "'amsgrad' of the optimizer's facts is 1, where"),
        (
            fewer,
            {**facts, "tensors": sorted(fewer)},
            "parameter 2 has exp_avg_sq, step, and .* needs exp_avg,",
        ),
    ]:
        with pytest.raises(DataError, match=words):
            load_optimizer(optimizer, some, told)
    after = optimizer_tensors(optimizer)
    assert after[1] == facts
    assert all(torch.equal(after[0][name], tensor) for name, tensor in tensors.items())


def test_the_state_of_another_s_optimizer_is_refused() -> None:
    lbfgs = torch.optim.LBFGS([nn.Parameter(torch.ones(2))])
    lbfgs.state[lbfgs.param_groups[0]["params"][0]]["n_iter"] = 3
    with pytest.raises(ArgumentError, match="`0.n_iter`.*LBFGS"):
        optimizer_tensors(lbfgs)
