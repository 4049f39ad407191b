"""Bidirectional: torch.nn's numbers, two independent directions, and each row's own last step as the other start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.gradients import gradcheck
from tests.nn.torch_weights import CELL, by_direction, copy_weights
from tests.variants import LENGTHS, as_states, each_cell, random_batch, random_tensors, row_of, sizes
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unspool.cells import Cell
from unspool.engine import run
from unspool.nn.bidirectional import Bidirectional

pytestmark = pytest.mark.usefixtures("engine")

close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)
F64 = torch.float64


def make(cell: Cell | str, *sizes: int, **options: Any) -> Bidirectional:
    torch.manual_seed(0)
    return Bidirectional(cell, *sizes, dtype=F64, **options)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_equals_torch_also_packed(kind: Callable[..., nn.RNNBase]) -> None:
    torch.manual_seed(0)
    theirs = kind(3, 4, bidirectional=True, dtype=F64)
    layer = make(CELL[type(theirs).__name__], 3, 4)
    copy_weights(theirs, layer.ahead)
    copy_weights(theirs, layer.back, reverse=True)
    x = torch.randn(5, 4, 3, dtype=F64)
    lengths = torch.tensor([2, 5, 1, 4])
    inside, other = x.clone().requires_grad_(), x.clone().requires_grad_()

    output, state = layer(inside, lengths=lengths)
    packed, their_state = theirs(pack_padded_sequence(other, lengths, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed)
    close(output, expected)
    close(list(state), by_direction(their_state))
    weights = torch.randn(expected.shape, dtype=F64)
    close(*(torch.autograd.grad(value, start, weights)[0] for value, start in ((output, inside), (expected, other))))

    full, _ = layer(x)
    close(full, theirs(x)[0])


@each_cell
def test_is_one_run_ahead_beside_one_run_back(cell: Cell) -> None:
    layer, (x, states) = make(cell, *sizes(cell)), random_batch(cell)
    start = tuple(map(torch.from_numpy, states))
    state = start[0] if len(start) == 1 else start
    with torch.no_grad():
        output, final, trace = layer(torch.from_numpy(x), (state, state), lengths=LENGTHS, trace=True)
    results = []
    for part, reverse in ((layer.ahead, False), (layer.back, True)):
        p = {name: value.detach().numpy() for name, value in part.named_parameters()}
        results.append(run(cell, p, x, states, lengths=LENGTHS, reverse=reverse))
    np.testing.assert_allclose(output, np.concatenate([results[0][0], results[1][0]], -1), rtol=1e-12, atol=1e-12)
    for direction, (_, expected_final, expected_trace) in enumerate(results):
        for mine, other in zip(as_states(final[direction]), expected_final, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
        for name, value in trace[direction].items():
            np.testing.assert_allclose(value, expected_trace[name], rtol=1e-12, atol=1e-12)


def test_each_half_depends_on_its_own_weights_alone() -> None:
    layer, x = make("lstm", 3, 4), torch.randn(5, 2, 3, dtype=F64)
    output, _ = layer(x)
    names = [name for name, _ in layer.named_parameters()]
    for half, own in ((output[..., :4], "ahead."), (output[..., 4:], "back.")):
        slopes = torch.autograd.grad(half.sum(), list(layer.parameters()), retain_graph=True, materialize_grads=True)
        for name, slope in zip(names, slopes, strict=True):
            assert bool(slope.abs().sum() > 0) == name.startswith(own), name
    assert not torch.equal(layer.ahead.get_parameter("W_i"), layer.back.get_parameter("W_i"))


def test_ahead_sees_the_past_and_back_the_future() -> None:
    layer, x = make("gru", 3, 4), torch.randn(5, 3, dtype=F64)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x)[0], x).abs().sum((1, 3))
    ahead = torch.autograd.functional.jacobian(lambda x: layer(x)[0][:, :4], x).abs().sum((1, 3))
    back = torch.autograd.functional.jacobian(lambda x: layer(x)[0][:, 4:], x).abs().sum((1, 3))
    assert torch.equal(ahead > 0, torch.ones(5, 5).tril() > 0)
    assert torch.equal(back > 0, torch.ones(5, 5).triu() > 0)
    assert (jacobian > 0).all()


@each_cell
def test_padding_never_changes_a_result(cell: Cell) -> None:
    layer = make(cell, *sizes(cell))
    x = torch.from_numpy(random_batch(cell)[0])
    padding = (torch.arange(5).unsqueeze(1) >= torch.tensor(LENGTHS)).unsqueeze(-1)
    results = []
    for filling in (0.0, float("nan"), 1e30):
        filled = x.masked_fill(padding, filling).requires_grad_()
        output, state = layer(filled, lengths=LENGTHS)
        slopes = torch.autograd.grad(output.square().sum(), [filled, *layer.parameters()], materialize_grads=True)
        assert (slopes[0].masked_select(padding) == 0).all()
        results.append((output, *(part for half in state for part in as_states(half)), *slopes))
    for row, length in enumerate(LENGTHS):
        alone, end = layer(x[:length, row])
        close(results[0][0][:length, row], alone)
        assert (results[0][0][length:, row] == 0).all()
        close(row_of(state, row), end)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@each_cell
def test_gradcheck(cell: Cell) -> None:
    layer = make(cell, *sizes(cell))
    x, state = random_tensors(cell, 3, 3)
    assert gradcheck(layer, x, (state, state), lengths=(2, 0, 3))


def test_options_reach_both_directions() -> None:
    layer = make("gru", 3, 4, bias=False, learn_initial=True, batch_first=True)
    names = {"W_r", "U_r", "W_z", "U_z", "W_n", "U_n", "initial_h"}
    assert set(layer.state_dict()) == {f"{part}.{name}" for part in ("ahead", "back") for name in names}
    with torch.no_grad():
        layer.ahead.get_parameter("initial_h").fill_(1.0)
        layer.back.get_parameter("initial_h").fill_(-1.0)
    x = torch.randn(2, 5, 3, dtype=F64)
    ones = torch.ones(2, 4, dtype=F64)
    same(layer(x), layer(x, (ones, -ones)))
