"""Weights that are freed between the passes of torch's own operations: the backward pass says so, and reads nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.nn.torch_twins import KINDS, flat, twins
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from unspool.errors import ArgumentError
from unspool.nn import Recurrent

ROUTES = {
    "bfloat16": (torch.bfloat16, False, False),
    "autocast": (torch.float32, True, False),
    "no kernels": (torch.float32, False, True),
}
CALLS: dict[str, Callable[[Any, Tensor], Any]] = {
    "padded": lambda layer, x: layer(x),
    "with lengths": lambda layer, x: layer(x, lengths=[5, 2]),
    "packed": lambda layer, x: layer(pack_padded_sequence(x, torch.tensor([5, 2]))),
    "by the equations": lambda layer, x: layer(x, lengths=[5, 0]),
}


@pytest.fixture(params=ROUTES)
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dtype of a layer whose calls no kernel runs."""
    dtype, autocast, off = ROUTES[request.param]
    if off:
        monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
        yield dtype


def free(tensor: Tensor) -> None:
    tensor.data.untyped_storage().resize_(0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["weight_hh_l0", "weight_ih_l1_reverse"])
def test_a_weight_of_a_drop_in(kind: str, call: str, name: str, dtype: torch.dtype) -> None:
    for result in range(2):  # the gradient may come by the output or by a state alone
        layer = KINDS[kind][1](3, 64, num_layers=2, bidirectional=True).to(dtype)
        found = flat(CALLS[call](layer, torch.randn(5, 2, 3, dtype=dtype)))
        free(getattr(layer, name))
        with pytest.raises(ArgumentError, match="no memory"):
            found[-result].float().sum().backward()


@pytest.mark.parametrize("name", ["U_h", "initial_h"])
def test_a_weight_of_a_recurrent_layer(name: str, dtype: torch.dtype) -> None:
    layer = Recurrent("elman", 3, 64, learn_initial=True, dtype=dtype)
    found = flat(layer(torch.randn(5, 2, 3, dtype=dtype)))
    free(getattr(layer, name))
    for result in found:
        with pytest.raises(ArgumentError, match="no memory"):
            result.float().sum().backward(retain_graph=True)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_came_back(kind: str, dtype: torch.dtype) -> None:
    theirs, ours = (layer.to(dtype) for layer in twins(kind, 3, 8))
    x, slopes = torch.randn(5, 2, 3, dtype=dtype), []
    for layer in (theirs, ours):
        output, _ = layer(x)
        weight = layer.weight_hh_l0.data
        kept, storage = weight.clone(), weight.untyped_storage()
        size = storage.nbytes()
        storage.resize_(0)
        storage.resize_(size)
        weight.copy_(kept)
        output.float().sum().backward()
        slopes.append([parameter.grad for parameter in layer.parameters()])
    for mine, other in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, other)
