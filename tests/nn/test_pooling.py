"""Poolings against NumPy by hand, row by row, and against the states that layers return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.ragged import check_derivatives, check_padding
from torch import Tensor

from unspool.errors import ArgumentError, DTypeError, ShapeError, UnknownNameError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.pooling import AttentionPooling, LastState, MeanPooling, Pooling, make_pooling
from unspool.nn.recurrent import Recurrent

STEPS, WIDTH, LENGTHS = 5, 4, (3, 5, 0, 1, 3)
F64 = torch.float64
KINDS = ["attention", "mean", "max", "last", "last of two"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, **options: Any) -> Pooling:
    torch.manual_seed(3)
    name, two = kind.removesuffix(" of two"), kind.endswith("of two")
    return make_pooling(name, WIDTH, bidirectional=two, dtype=F64, **options)


def batch() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(STEPS, len(LENGTHS), WIDTH, dtype=F64, generator=generator, requires_grad=True)


def alpha_by_hand(model: Pooling, x: np.ndarray) -> np.ndarray:
    W, b, v = (value.detach().numpy() for value in model.parameters())
    scores = [math.exp(v[0] @ np.tanh(W @ h + b)) for h in x]
    return np.array(scores) / sum(scores)


def by_hand(kind: str, model: Pooling, x: np.ndarray) -> np.ndarray:
    """The vector for one row (time, width) without padding."""
    if not len(x):
        return np.zeros(WIDTH)
    match kind:
        case "mean":
            return np.asarray(x.mean(0))
        case "max":
            return np.asarray(x.max(0))
        case "last":
            return np.asarray(x[-1])
        case "last of two":
            return np.array([x[-1][0], x[-1][1], x[0][2], x[0][3]])
    return np.asarray(alpha_by_hand(model, x) @ x)


@each_kind
@pytest.mark.parametrize("batch_first", [False, True])
def test_equals_numpy_by_hand_row_by_row(kind: str, batch_first: bool) -> None:
    model, x = make(kind, batch_first=batch_first), batch()
    output = model(x.transpose(0, 1) if batch_first else x, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        expected = by_hand(kind, model, x[:length, row].detach().numpy())
        np.testing.assert_allclose(output[row].detach(), expected, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(model(x[:length, row]).detach(), expected, rtol=1e-13, atol=1e-14)


@each_kind
@pytest.mark.parametrize("junk", [1e30, -1e30, math.nan, math.inf])
def test_padding_changes_nothing(kind: str, junk: float) -> None:
    check_padding(make(kind), batch(), LENGTHS, junk)


@each_kind
def test_gradcheck(kind: str) -> None:
    check_derivatives(make(kind), batch(), LENGTHS)


@each_kind
def test_nothing_to_read(kind: str) -> None:
    for steps, rows in ((0, 2), (STEPS, 0)):
        output = make(kind)(torch.ones(steps, rows, WIDTH, dtype=F64))
        assert torch.equal(output, torch.zeros(rows, WIDTH, dtype=F64))


def test_the_weights_are_those_by_hand() -> None:
    x = batch()
    for batch_first in (False, True):
        model = make("attention", batch_first=batch_first)
        assert isinstance(model, AttentionPooling)
        alpha = model.weights(x.transpose(0, 1) if batch_first else x, lengths=LENGTHS).detach()
        alpha = alpha.t() if batch_first else alpha
        for row, length in enumerate(LENGTHS):
            expected = np.zeros(STEPS)
            expected[:length] = alpha_by_hand(model, x[:length, row].detach().numpy())
            np.testing.assert_allclose(alpha[:, row], expected, rtol=1e-13)
            alone = model.weights(x[:length, row]).detach()
            np.testing.assert_allclose(alone, expected[:length], rtol=1e-13)


def test_attention_that_looks_at_nothing_is_the_mean() -> None:
    model, x = make("attention"), batch()
    assert isinstance(model, AttentionPooling)
    torch.nn.init.zeros_(model.attention.outer.weight)
    torch.testing.assert_close(
        model(x, lengths=LENGTHS), MeanPooling(WIDTH)(x, lengths=LENGTHS), rtol=1e-14, atol=1e-15
    )


def test_the_last_state_is_the_one_that_layers_return() -> None:
    x = batch()
    layer = Recurrent("gru", WIDTH, 3, dtype=F64)
    output, state = layer(x, lengths=LENGTHS)
    assert torch.equal(LastState(3)(output, lengths=LENGTHS), state)
    both = Bidirectional("gru", WIDTH, 3, dtype=F64)
    output, states = both(x, lengths=LENGTHS)
    assert torch.equal(LastState(6, bidirectional=True)(output, lengths=LENGTHS), torch.cat(states, -1))


def test_autocast() -> None:
    torch.manual_seed(0)
    model, x = make_pooling("attention", WIDTH), batch().float()
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(x.bfloat16(), lengths=LENGTHS)
    torch.testing.assert_close(rough.float(), model(x, lengths=LENGTHS), rtol=0.05, atol=0.02)


@each_kind
def test_bad_input(kind: str) -> None:
    model = make(kind)
    with pytest.raises(ShapeError, match="input_size is 4"):
        model(torch.ones(2, 1, 3, dtype=F64))
    with pytest.raises(DTypeError, match="int64"):
        model(torch.ones(2, 1, WIDTH, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="lengths"):
        model(torch.ones(2, 1, WIDTH, dtype=F64), lengths=[3])


def test_bad_arguments() -> None:
    with pytest.raises(UnknownNameError, match="`name` .='atention'. is not known. Did you mean 'attention'?"):
        make_pooling("atention", 3)
    with pytest.raises(UnknownNameError, match="Known: attention, last, max, mean"):
        make_pooling(["mean"], 3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="`width` .=5. is odd"):
        make_pooling("last", 5, bidirectional=True)
    for name in ("attention", "mean", "max", "last"):
        for wrong in (0, -1, 2.5, True):
            with pytest.raises(ArgumentError, match="`width`"):
                make_pooling(name, wrong)  # type: ignore[arg-type]
