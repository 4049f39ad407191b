"""A regularized Stack: one mask for all steps, the plain stack where nothing acts, its states, copies and arguments."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from tests.variants import Minimal
from torch import Tensor

from unspool.cells import Elman
from unspool.errors import ArgumentError
from unspool.nn.leaves import map_leaves
from unspool.nn.stack import Stack

same = partial(torch.testing.assert_close, rtol=0, atol=0)
F64 = torch.float64
each_engine = pytest.mark.usefixtures("engine")
OPTIONS: dict[str, Any] = {"recurrent_dropout": 0.3, "weight_dropout": 0.2, "zoneout": 0.4}


@each_engine
@pytest.mark.parametrize("p", [0.25, [0.25, 0.0, 0.5]])
def test_variational_dropout_has_one_mask_for_all_steps(p: float | list[float]) -> None:
    torch.manual_seed(0)
    stack = Stack(Elman("identity"), 50, 50, 3, bias=False, dropout=p, variational=True, dtype=F64)
    with torch.no_grad():
        for name, value in stack.named_parameters():
            value.copy_(torch.zeros(50, 50) if "U_" in name else torch.eye(50))
    x = torch.ones(7, 60, 50, dtype=F64)
    sequences, _ = stack(x, every_layer=True)
    for sequence in sequences:
        same(sequence, sequence[:1].expand_as(sequence))
    same(sequences[0], x)
    mask = sequences[1][0]
    assert set(mask.unique().tolist()) == {0.0, 1 / 0.75}
    assert mask.mean().item() == pytest.approx(1, abs=4 * (0.25 / 0.75 / mask.numel()) ** 0.5)
    assert len({tuple(row) for row in mask.tolist()}) == 60
    top, _ = stack(x)
    assert (top[0] == 0).double().mean().item() == pytest.approx(1 - 0.75**2 if p == 0.25 else 0.625, abs=0.04)
    same(stack.eval()(x)[0], x)


def both() -> tuple[Stack, Stack]:
    """A plain stack, and a regularized one with its weights."""
    torch.manual_seed(0)
    plain = Stack(["lstm", "gru"], 3, 4, bidirectional=[True, False], dtype=F64)
    made = Stack(
        ["lstm", "gru"], 3, 4, bidirectional=[True, False], dropout=0.5, variational=True, **OPTIONS, dtype=F64
    )
    assert list(made.state_dict()) == list(plain.state_dict())
    made.load_state_dict(plain.state_dict())
    plain.load_state_dict(made.state_dict())
    return plain, made


@each_engine
def test_evaluation_without_zoneout_is_the_plain_stack() -> None:
    plain, _ = both()
    made = Stack(
        ["lstm", "gru"], 3, 4, bidirectional=[True, False], dropout=0.5, variational=True, recurrent_dropout=0.5,
        weight_dropout=[0.5, 0.1], dtype=F64,
    )  # fmt: skip
    made.load_state_dict(plain.state_dict())
    x = torch.randn(5, 3, 3, dtype=F64)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    same(made.eval()(x, lengths=(5, 0, 2), trace=True), plain(x, lengths=(5, 0, 2), trace=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(made.train()(x)[0], plain(x)[0])


@each_engine
def test_states_and_traces_are_those_of_the_plain_stack() -> None:
    plain, made = both()
    x = torch.randn(60, 2, 3, dtype=F64)
    assert made.state_shapes(2) == plain.state_shapes(2)
    for stack in (made, copy.deepcopy(made).eval()):
        for steps in (60, 0):
            _, state, trace = stack(x[:steps], trace=True)
            _, plain_state, plain_trace = plain(x[:steps], trace=True)
            shapes, expected = (
                map_leaves(lambda value: value.shape, tree) for tree in ((state, trace), (plain_state, plain_trace))
            )
            assert shapes == expected
        _, state, trace = stack(x, trace=True)
        same((trace[0][0]["h"][-1], trace[0][0]["c"][-1]), state[0][0])
        same((trace[0][1]["h"][0], trace[0][1]["c"][0]), state[0][1])
        same(trace[1]["h"][-1], state[1])


@each_engine
def test_torchs_generator_repeats_a_call() -> None:
    _, made = both()
    x = torch.randn(5, 3, 3, dtype=F64)
    torch.manual_seed(3)
    first, kept = made(x), torch.get_rng_state()
    second = made(x)
    assert not torch.equal(first[0], second[0])
    torch.manual_seed(3)
    same(made(x), first)
    torch.set_rng_state(kept)
    same(made(x), second)
    for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        torch.manual_seed(3)
        same(copied(x), first)
        assert repr(copied) == repr(made)
    same(map_leaves(Tensor.clone, copied.eval()(x)), made.eval()(x))


def test_a_plain_stack_says_nothing_of_it() -> None:
    plain, made = both()
    assert plain.extra_repr() == "residual=[False, False], skip=False, dropout=[0.0, 0.0]"
    assert made.extra_repr() == (
        "residual=[False, False], skip=False, dropout=[0.5, 0.0], variational=[True, True], "
        "recurrent_dropout=[0.3, 0.3], weight_dropout=[0.2, 0.2], zoneout=[0.4, 0.4]"
    )


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "above 1": ({"recurrent_dropout": 1.5}, r"`recurrent_dropout` \(=1.5\) is not a probability"),
    "below 0": ({"weight_dropout": [0.1, -0.1]}, r"`weight_dropout` \(=-0.1\) is not a probability"),
    "nan": ({"zoneout": float("nan")}, r"`zoneout` \(=nan\)"),
    "a bool": ({"zoneout": True}, r"`zoneout` \(=True\)"),
    "text": ({"zoneout": "0.5"}, "`zoneout`"),
    "variational": ({"variational": 0.5}, r"`variational` \(=0.5\) is neither True nor False.*`dropout`"),
    "a list": ({"zoneout": [0.1]}, r"\(zoneout: 1, num_layers: 2\)"),
    "lists": (
        {"variational": [True], "num_layers": None, "recurrent_dropout": [0.1, 0.2]},
        "variational: 1, recurrent",
    ),
    "no matrix": (
        {"cell": ["lstm", Minimal()], "recurrent_dropout": 0.1},
        r"`recurrent_dropout` \(=0.1\) has no effect: no matrix of Minimal reads a state. Give 0 for",
    ),
    "no weights": ({"cell": Minimal(), "weight_dropout": 0.1}, r"`weight_dropout` \(=0.1\) has no effect"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Stack(**{"cell": "lstm", "input_size": 3, "hidden_size": 4, "num_layers": 2, **options})
