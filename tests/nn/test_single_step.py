"""Single steps in training: torch.nn's values, no more Python than torch.nn's, and every check of a longer call.

Through the entry they are also tested in test_entry.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.torch_twins import assert_alike, flat, states, twins
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.nn import GRU, RNN
from unspool.nn.entry import ENTRY

pytestmark = needs_compiler
each_kind = pytest.mark.parametrize("kind", ["RNN", "GRU"])

LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "several layers, both ways": {"num_layers": 2, "bidirectional": True},
    "dropout": {"num_layers": 3, "dropout": 0.5},
}


@pytest.fixture(autouse=True)
def kernels_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)


def one_step(layer: Any, rows: int, strided: bool = False) -> Tensor:
    shape = (rows, 1, 3) if layer.batch_first else (1, rows, 3)
    return torch.randn(*shape, 2)[..., 0].requires_grad_() if strided else torch.randn(shape, requires_grad=True)


def count_calls(act: Callable[[], object]) -> int:
    """How many Python functions are called."""
    count = 0

    def see(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@each_kind
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("entered", [False, True], ids=["Python", "entry"])
def test_values_and_gradients_of_torch(
    kind: str, layout: str, strided: bool, entered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not entered:
        monkeypatch.setattr(ENTRY, "call", None)
    theirs, ours = twins(kind, 3, 4, **LAYOUTS[layout])
    for rows in (2, 2, 5):  # the first call is checked in full, the others are like it
        x, start = one_step(ours, rows, strided), states(ours, rows)
        for given in ((x,), (x, start)):
            found = []
            for layer in (theirs, ours):
                torch.manual_seed(1)
                results = flat(layer(*given))
                wanted = [x, *flat(given[1:]), *layer.parameters()]
                slopes = torch.autograd.grad(torch.stack([r.square().sum() for r in results]).sum(), wanted)
                found.append([*results, *slopes])
            assert_alike(found[1], found[0], atol=1e-5)


@each_kind
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.usefixtures("without_entry")
def test_no_more_calls_than_torch_makes(kind: str, started: bool) -> None:
    theirs, ours = twins(kind, 3, 4, num_layers=2)
    x = one_step(ours, 2)
    given = (x, states(ours, 2)) if started else (x,)
    ours(*given)
    assert count_calls(lambda: ours(*given)) < count_calls(lambda: theirs(*given))


@pytest.mark.parametrize(("layout", "expected"), [("plain", 0), ("batch first", 1), ("several layers, both ways", 1)])
@pytest.mark.usefixtures("without_entry")
def test_who_takes_a_single_step(layout: str, expected: int) -> None:
    operation, layer = Mock(side_effect=torch.gru), GRU(3, 4, **LAYOUTS[layout])
    with patch.object(GRU, "single_steps", {"GRU": operation}):
        layer(one_step(layer, 2))
    assert operation.call_count == expected


def free(tensor: Tensor) -> None:
    tensor.data.untyped_storage().resize_(0)


def halve(tensor: Tensor) -> None:
    storage = tensor.data.untyped_storage()
    storage.resize_(storage.nbytes() // 2)


def reshape(tensor: Tensor) -> None:
    tensor.data = tensor.data[..., :1].clone()


def convert(tensor: Tensor) -> None:
    tensor.data = tensor.data.double()


@each_kind
@pytest.mark.parametrize("spoil", [free, halve, reshape, convert])
@pytest.mark.parametrize("place", range(6))
def test_what_changed_since_an_earlier_call(kind: str, spoil: Callable[[Tensor], None], place: int) -> None:
    layer = {"RNN": RNN, "GRU": GRU}[kind](3, 4)
    x, h = torch.randn(1, 2, 3), torch.randn(1, 2, 4)
    for _ in range(3):
        layer(x, h)
        layer(x)
    tensors = [x, h, *layer.parameters()]
    spoil(tensors[place])
    with pytest.raises(ArgumentError):
        layer(x, h)
    if place != 1:
        with pytest.raises(ArgumentError):
            layer(x)


@each_kind
@pytest.mark.parametrize("spoil", [free, halve, reshape, convert])
@pytest.mark.parametrize("place", range(5))
def test_what_changed_since_the_forward_pass(kind: str, spoil: Callable[[Tensor], None], place: int) -> None:
    """The gradient of a sum, one number for all, is not the reason to check again: earlier passes had it, too."""
    layer, x = {"RNN": RNN, "GRU": GRU}[kind](3, 4), torch.randn(1, 2, 3)
    for _ in range(3):
        layer(x)[0].sum().backward()
    output = layer(x)[0]
    spoil([x, *layer.parameters()][place])
    with pytest.raises(ArgumentError):
        output.sum().backward()


@each_kind
def test_states_of_another_batch_size(kind: str) -> None:
    layer = {"RNN": RNN, "GRU": GRU}[kind](3, 4)
    for rows in (2, 3):
        layer(torch.randn(1, rows, 3), torch.randn(1, rows, 4))
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        layer(torch.randn(1, 2, 3), torch.randn(1, 3, 4))
    with pytest.raises(TypeError, match="hx"):
        layer(torch.randn(1, 2, 3), "h")


def test_a_weight_that_was_replaced() -> None:
    layer, x = GRU(3, 4), torch.randn(1, 2, 3)
    for _ in range(2):
        layer(x)
    layer.weight_ih_l0 = nn.Parameter(torch.zeros(12, 3))
    twin = nn.GRU(3, 4)
    twin.load_state_dict(layer.state_dict())
    assert_alike(layer(x), twin(x))


def test_the_equations_of_a_gru_that_torch_lacks() -> None:
    """A GRU of the same sizes has taken the step by torch's operation before."""
    x = torch.randn(1, 2, 3)
    GRU(3, 4)(x)
    layer = GRU(3, 4, reset="before")
    with torch.no_grad():
        expected = layer(x)
    assert_alike(layer(x), expected)
