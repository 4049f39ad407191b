"""Wavefronts: layers at once have the bits of layers one after the other, and step aside where that does not go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_kernels
from torch import Tensor, nn

from unspool import nn as ours
from unspool.nn import wavefront
from unspool.nn.entry import ENTRY
from unspool.nn.leaves import map_leaves
from unspool.nn.wave_call import WaveCall

F64 = torch.float64
pytestmark = needs_kernels

#: Layers whose kernels other tests use too; sizes and cells that differ from layer to layer; odd and even numbers.
STACKS: dict[str, Callable[[], nn.Module]] = {
    "drop-in": lambda: ours.LSTM(3, 4, num_layers=2, dtype=F64),
    "four layers": lambda: ours.GRU(3, 5, num_layers=4, dtype=F64),
    "projection": lambda: ours.LSTM(3, 4, num_layers=2, proj_size=2, dtype=F64),
    "batch first": lambda: ours.LSTM(3, 4, num_layers=2, batch_first=True, dtype=F64),
    "stack": lambda: ours.Stack(["gru", "lstm"], 3, [5, 4], dtype=F64),
    "learned start": lambda: ours.Stack("lstm", 3, 4, 2, learn_initial=True, dtype=F64),
}


@pytest.fixture
def entry_call() -> Any:
    """The entry, looked up before `waves` takes it away."""
    return ENTRY.call


@pytest.fixture(autouse=True)
def waves(entry_call: Any) -> Iterator[list[int]]:
    """Two threads, however little there is to do, through Python; how many layers ran at once, call by call."""
    before, seen = torch.get_num_threads(), []
    forward = WaveCall.forward

    def watched(self: WaveCall, *given: Any) -> Any:
        seen.append(len(self.calls))
        return forward(self, *given)

    torch.set_num_threads(2)
    little = patch.multiple(wavefront, LEAST_WORK=0, LEAST_STEP=0, MOST_ROWS={True: 4, False: 4})
    with little, patch.object(WaveCall, "forward", watched), patch.object(ENTRY, "call", None):
        yield seen
    torch.set_num_threads(before)


@pytest.fixture
def entered(entry_call: Any, waves: list[int]) -> Iterator[list[bool]]:
    """Through the entry in C++; whether layers might run at once, call by call."""
    assert not waves
    seen: list[bool] = []

    def call(number: int, tensors: tuple[Tensor, ...], at_once: bool) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = entry_call(number, tensors, at_once)
        seen.extend([at_once] * bool(found))
        return found

    with patch.object(ENTRY, "call", call):
        yield seen


def with_gradients(module: Any, x: Tensor, *given: Any, **options: Any) -> list[Tensor]:
    """Output, final states, and the gradients of x, of what was given and of the parameters."""
    output, state = module(x, *given, **options)
    found: list[Tensor] = [output]
    map_leaves(found.append, state)
    generator = torch.Generator().manual_seed(7)
    weighted = [part * torch.randn(part.shape, generator=generator, dtype=F64) for part in found]
    loss = torch.cat([part.flatten() for part in weighted]).sum()
    wanted = [x, *module.parameters()]
    map_leaves(wanted.append, given)
    return [part.detach() for part in (*found, *torch.autograd.grad(loss, wanted))]


def on_one_thread(module: Any, x: Tensor, *given: Any, **options: Any) -> list[Tensor]:
    torch.set_num_threads(1)
    try:
        return with_gradients(module, x, *given, **options)
    finally:
        torch.set_num_threads(2)


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), number


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("rows", [1, 4])
def test_same_bits_as_one_layer_after_the_other(make: Callable[[], nn.Module], rows: int, waves: list[int]) -> None:
    torch.manual_seed(0)
    module: Any = make()
    x = torch.randn((rows, 31, 3) if getattr(module, "batch_first", False) else (31, rows, 3), dtype=F64)
    x.requires_grad_()
    expected = on_one_thread(module, x)
    assert not waves
    assert_same(with_gradients(module, x), expected)
    assert set(waves) == {2}
    with torch.no_grad():
        assert torch.equal(module(x)[0], expected[0])


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("rows", [1, 4])
def test_same_bits_through_the_entry(make: Callable[[], nn.Module], rows: int, entered: list[bool]) -> None:
    torch.manual_seed(0)
    module: Any = make()
    first = getattr(module, "batch_first", False)
    x = torch.randn((rows, 31, 3) if first else (31, rows, 3), dtype=F64).requires_grad_()
    expected = on_one_thread(module, x)
    with_gradients(module, x)
    entered.clear()
    assert_same(with_gradients(module, x), expected)
    as_it_lies = rows == 1 or not (first or make is STACKS["learned start"])
    assert entered == [True] * as_it_lies  # else rows of x, or of the learned state, do not lie side by side
    with torch.no_grad():
        assert torch.equal(module(x)[0], expected[0])


def test_lengths_and_initial_states(waves: list[int]) -> None:
    torch.manual_seed(0)
    module = ours.LSTM(3, 4, num_layers=2, dtype=F64)
    x = torch.randn(20, 4, 3, dtype=F64, requires_grad=True)
    start = tuple(torch.randn(2, 4, 4, dtype=F64, requires_grad=True) for _ in range(2))
    lengths = [7, 0, 20, 1]
    assert_same(with_gradients(module, x, start, lengths=lengths), on_one_thread(module, x, start, lengths=lengths))
    assert waves == [2]


def test_no_row_has_a_step(waves: list[int]) -> None:
    module = ours.LSTM(3, 4, num_layers=2, dtype=F64)
    x = torch.randn(5, 2, 3, dtype=F64, requires_grad=True)
    output, *gradients = with_gradients(module, x, lengths=[0, 0])
    assert waves == [2]
    assert all(not part.any() for part in (output, *gradients[2:]))


def test_numbers_are_those_of_torch() -> None:
    torch.manual_seed(0)
    module, other = ours.LSTM(3, 4, num_layers=2, dtype=F64), nn.LSTM(3, 4, num_layers=2, dtype=F64)
    other.load_state_dict(module.state_dict())
    x = torch.randn(25, 2, 3, dtype=F64, requires_grad=True)
    for found, expected in zip(with_gradients(module, x), with_gradients(other, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_differentiates_twice(waves: list[int]) -> None:
    torch.manual_seed(0)
    module = ours.LSTM(2, 2, num_layers=2, dtype=F64)
    x = torch.randn(3, 1, 2, dtype=F64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda value: module(value)[0], (x,))
    assert waves


def test_an_odd_layer_has_all_threads(waves: list[int]) -> None:
    torch.manual_seed(0)
    module = ours.LSTM(3, 4, num_layers=3, dtype=F64)
    x = torch.randn(12, 1, 3, dtype=F64, requires_grad=True)
    assert_same(with_gradients(module, x), on_one_thread(module, x))
    assert waves == [2]


#: Stacks in which something comes between a layer and the one below.
APART: dict[str, Callable[[], Any]] = {
    "both directions": lambda: ours.LSTM(3, 4, num_layers=2, bidirectional=True, dtype=F64),
    "dropout": lambda: ours.LSTM(3, 4, num_layers=2, dropout=0.5, dtype=F64),
    "one layer": lambda: ours.LSTM(3, 4, num_layers=1, dtype=F64),
    "residual": lambda: ours.Stack("gru", 4, 4, 2, residual=True, dtype=F64),
    "dropout in a stack": lambda: ours.Stack("gru", 3, 4, 2, dropout=0.5, dtype=F64),
    "zoneout": lambda: ours.Stack("gru", 3, 4, 2, zoneout=0.5, dtype=F64),
    "recompute": lambda: ours.Stack("gru", 3, 4, 2, recompute=2, dtype=F64),
}


@pytest.mark.parametrize("make", APART.values(), ids=APART)
def test_steps_aside_where_something_stands_between_layers(make: Callable[[], Any], waves: list[int]) -> None:
    module = make()
    module(torch.randn(9, 2, module.input_size, dtype=F64))
    assert not waves


def test_steps_aside_where_layers_are_faster_alone(waves: list[int]) -> None:
    module = ours.LSTM(3, 4, num_layers=2, dtype=F64)
    x = torch.randn(9, 5, 3, dtype=F64)
    module(x)  # threads split the rows
    module.weight_ih_l0.requires_grad_(False)
    module(x[:, :1])  # some weights are frozen
    module.requires_grad_(True)
    for limit in ("LEAST_WORK", "LEAST_STEP"):
        with patch.object(wavefront, limit, 1 << 30):
            module(x[:, :1])
    assert not waves
    with torch.no_grad():
        module(x[:, :1])
    assert waves == [2]


def test_dropout_does_not_stand_between_layers_in_evaluation(waves: list[int]) -> None:
    ours.LSTM(3, 4, num_layers=2, dropout=0.5, dtype=F64).eval()(torch.randn(9, 2, 3, dtype=F64))
    ours.Stack("gru", 3, 4, 2, dropout=0.5, dtype=F64).eval()(torch.randn(9, 2, 3, dtype=F64))
    assert waves == [2, 2]


def test_groups_of_layers_are_of_like_size() -> None:
    sizes = [[group.stop - group.start for group in wavefront._groups(*given)] for given in ((5, 2), (4, 3), (3, 3))]
    assert sizes == [[2, 2, 1], [2, 2], [3]]
