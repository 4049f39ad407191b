"""Tensors like those of an earlier call are not checked again, but for what can have changed since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.torch_twins import KINDS, assert_alike, flat, states, twins
from torch import Tensor, nn

import unspool
from unspool.errors import ArgumentError, ShapeError
from unspool.nn import Recurrent
from unspool.nn.boundary import Boundary
from unspool.nn.known import Known

pytestmark = needs_compiler
each_mode = pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])


@pytest.fixture(autouse=True)
def kernels_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)


def free(tensor: Tensor) -> None:
    tensor.data.untyped_storage().resize_(0)


def halve(tensor: Tensor) -> None:
    storage = tensor.data.untyped_storage()
    storage.resize_(storage.nbytes() // 2)


def reshape(tensor: Tensor) -> None:
    tensor.data = tensor.data[..., :1].clone()


def convert(tensor: Tensor) -> None:
    tensor.data = tensor.data.double()


SPOILED = pytest.mark.parametrize("spoil", [free, halve, reshape, convert])


@each_mode
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_refused_is_not_known(kind: str, training: bool) -> None:
    layer, x = KINDS[kind][1](3, 64), torch.randn(5, 2, 3)
    layer.weight_ih_l0 = nn.Parameter(torch.zeros(4, 3))
    with torch.set_grad_enabled(training):
        for _ in range(3):
            with pytest.raises(ShapeError, match="`weight_ih` .* is not of shape"):
                layer(x)


@each_mode
@SPOILED
@pytest.mark.parametrize("place", range(5))
def test_what_changed_since_an_earlier_call(place: int, spoil: Callable[[Tensor], None], training: bool) -> None:
    layer, x, h = Recurrent("elman", 3, 4), torch.randn(5, 2, 3), torch.randn(2, 4)
    with torch.set_grad_enabled(training):
        for _ in range(3):
            layer(x, h)
        spoil([x, h, *layer.parameters()][place])
        with pytest.raises(ArgumentError):
            layer(x, h)


@each_mode
@SPOILED
@pytest.mark.parametrize("place", range(7))
def test_what_changed_since_an_earlier_call_of_a_drop_in(
    place: int, spoil: Callable[[Tensor], None], training: bool
) -> None:
    layer, x, start = unspool.nn.LSTM(3, 4), torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    with torch.set_grad_enabled(training):
        for _ in range(3):
            layer(x, start)
        spoil([x, *start, *layer.parameters()][place])
        with pytest.raises(ArgumentError):
            layer(x, start)


@each_mode
def test_states_of_another_batch_size(training: bool) -> None:
    layer, gru = Recurrent("elman", 3, 4), unspool.nn.GRU(3, 4)
    with torch.set_grad_enabled(training):
        for rows in (2, 2, 3, 3):
            layer(torch.randn(5, rows, 3), torch.randn(rows, 4))
            gru(torch.randn(5, rows, 3), torch.randn(1, rows, 4))
        with pytest.raises(ShapeError, match="`state`"):
            layer(torch.randn(5, 2, 3), torch.randn(3, 4))
        with pytest.raises(ShapeError, match="Expected hidden size"):
            gru(torch.randn(5, 2, 3), torch.randn(1, 3, 4))


@each_mode
@pytest.mark.parametrize(
    "make", [lambda: Recurrent("elman", 3, 4), lambda: unspool.nn.LSTM(3, 4)], ids=["Recurrent", "LSTM"]
)
def test_a_call_like_an_earlier_one_is_quick(make: Callable[[], Any], training: bool) -> None:
    layer, x = make(), torch.randn(5, 2, 3)
    with torch.set_grad_enabled(training):
        for given in ((x,), (x, layer(x)[1])):
            expected = flat(layer(*given))
            with patch.object(Boundary, "admit", side_effect=AssertionError("checked again")):
                again = flat(layer(*given))
            assert all(map(torch.equal, again, expected))


@each_mode
@pytest.mark.parametrize("kind", KINDS)
def test_a_carried_state_in_a_drop_in(kind: str, training: bool) -> None:
    theirs, ours = twins(kind, 3, 4)
    x = torch.randn(5, 2, 3, requires_grad=True)
    with torch.set_grad_enabled(training):
        for start in (states(ours, 2), states(ours, 2), states(ours, 2)):
            found = []
            for layer in (theirs, ours):
                results = flat(layer(x, start))
                wanted = [x, *flat(start), *layer.parameters()]
                total = torch.stack([result.square().sum() for result in results]).sum()
                found.append([*results, *(torch.autograd.grad(total, wanted) if training else ())])
            assert_alike(found[1], found[0], atol=1e-5)


def test_the_latest_kinds_are_known() -> None:
    known, w = Known(), torch.zeros(3, 3)
    x = [torch.zeros(2, width) for width in range(1, 11)]
    for tensor in x:
        known.add([(tensor, (None, tensor.shape[1]))], [w])
    assert [(tensor, w) in known for tensor in x] == [False] * 2 + [True] * 8
    assert (torch.zeros(9, 10), w) in known
    assert (x[-1], w.T.contiguous()) in known
    assert (x[-1], torch.zeros(3, 6)[:, ::2]) not in known
    assert (x[-1],) not in known
    assert (x[-1], "w") not in known  # type: ignore[operator]
    known.add([(x[0], (None, 1))], [torch.zeros(3, 6)[:, ::2]])  # which is not contiguous
    assert (x[0], torch.zeros(3, 6)[:, ::2]) not in known
