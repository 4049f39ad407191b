"""The layouts that every layer takes: unbatched, batch first, nested states."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import pytest
import torch
from tests.variants import LENGTHS, as_state, as_states, each_cell, random_layer, random_tensors

from unspool.cells import LSTM, Cell
from unspool.errors import ArgumentError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.layer import Layer
from unspool.nn.leaves import map_leaves
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack
from unspool.nn.time_delay import TimeDelay

pytestmark = pytest.mark.usefixtures("engine")

same = partial(torch.testing.assert_close, rtol=0, atol=0)
close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
F64 = torch.float64

LAYERS: dict[str, Callable[[bool], Layer]] = {
    "recurrent": lambda first: Recurrent("lstm", 3, 4, batch_first=first, dtype=F64),
    "bidirectional": lambda first: Bidirectional("gru", 3, 4, batch_first=first, dtype=F64),
    "stack": lambda first: Stack(
        ["gru", "lstm"], 3, [4, 2], bidirectional=[True, False], skip=True, batch_first=first, dtype=F64
    ),
    "time-delay": lambda first: TimeDelay(Stack("lstm", 3, 4, 2, batch_first=first, dtype=F64), 2),
    "stack-of-one": lambda first: Stack("skip", 3, 4, batch_first=first, dtype=F64),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


@each_cell
def test_unbatched_is_a_batch_of_one(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell), random_tensors(cell, rows=1)
    output, final, trace = layer(x, state, trace=True)
    alone, end, values = layer(x[:, 0], as_state(tuple(part[0] for part in as_states(state))), trace=True)
    same(alone, output[:, 0])
    same(end, as_state(tuple(part[0] for part in as_states(final))))
    same(values, {name: value[:, 0] for name, value in trace.items()})


@each_layer
def test_unbatched_every_layer(make: Callable[[bool], Layer]) -> None:
    torch.manual_seed(0)
    layer, x = make(False), torch.randn(5, 1, 3, dtype=F64)
    _, state = layer(x)
    expected = layer(x, state, lengths=[3], trace=True)
    found = layer(x[:, 0], map_leaves(lambda part: part[0], state), lengths=[3], trace=True)
    same(found[0], expected[0][:, 0])
    same(found[1], map_leaves(lambda part: part[0], expected[1]))
    same(found[2], map_leaves(lambda part: part[:, 0], expected[2]))


@each_layer
def test_batch_first_is_the_transpose(make: Callable[[bool], Layer]) -> None:
    torch.manual_seed(0)
    layer, first, x = make(False), make(True), torch.randn(5, 5, 3, dtype=F64)
    x = x[:4]
    lengths = [min(4, length) for length in LENGTHS]
    first.load_state_dict(layer.state_dict())
    _, state = layer(x)
    output, final, trace = layer(x, state, lengths=lengths, trace=True)
    turned, end, values = first(x.transpose(0, 1), state, lengths=lengths, trace=True)
    same(turned, output.transpose(0, 1))
    same(end, final)
    same(values, map_leaves(lambda part: part.transpose(0, 1), trace))
    same(first(x[:, 0])[0], layer(x[:, 0])[0])


@each_layer
def test_a_state_can_be_given_back_as_it_came(make: Callable[[bool], Layer]) -> None:
    torch.manual_seed(0)
    layer, x = make(False), torch.randn(5, 2, 3, dtype=F64)
    zeros = map_leaves(torch.zeros_like, layer(x)[1])
    same(layer(x, zeros), layer(x))
    as_lists = map_leaves(lambda part: part, zeros) if isinstance(zeros, torch.Tensor) else list(zeros)
    same(layer(x, as_lists), layer(x))


@each_layer
def test_the_initial_state_is_known_without_a_run(make: Callable[[bool], Layer]) -> None:
    torch.manual_seed(0)
    layer, x = make(False), torch.randn(5, 2, 3, dtype=F64)
    with patch.object(type(layer), "run", side_effect=AssertionError("the layer ran")):
        state = layer.initial_state(2, x)
    final = layer(x)[1]
    same(map_leaves(torch.zeros_like, final), state)
    same(layer(x, state), layer(x))


@each_layer
def test_lengths_that_are_all_full_change_nothing(make: Callable[[bool], Layer]) -> None:
    torch.manual_seed(0)
    layer, x = make(False), torch.randn(5, 2, 3, dtype=F64)
    same(layer(x, lengths=[5, 5]), layer(x))


@each_layer
def test_no_steps_and_no_rows(make: Callable[[bool], Layer]) -> None:
    layer, x = make(False), torch.randn(5, 2, 3, dtype=F64)
    _, state = layer(x)
    output, final = layer(x[:0], state)
    assert output.shape == (0, 2, layer.output_size)
    same(final, state)
    assert layer(x[:, :0], lengths=[])[0].shape == (5, 0, layer.output_size)


@each_layer
def test_a_batch_that_is_not_contiguous(make: Callable[[bool], Layer]) -> None:
    layer, x = make(False), torch.randn(5, 4, 6, dtype=F64)
    same(layer(x[:, ::2, ::2])[0], layer(x[:, ::2, ::2].contiguous())[0])


def test_a_row_does_not_see_the_others() -> None:
    layer, x = Recurrent(LSTM(), 3, 4, dtype=F64), torch.randn(5, 2, 3, dtype=F64)
    changed = x.clone()
    changed[:, 1] = 7
    same(layer(x)[0][:, 0], layer(changed)[0][:, 0])
    assert not torch.equal(layer(x)[0][:, 1], layer(changed)[0][:, 1])


def test_a_sparse_state_of_one_sequence() -> None:
    layer, state = Recurrent("gru", 3, 4, dtype=F64), torch.ones(4, dtype=F64).to_sparse()
    with torch.inference_mode(), pytest.raises(ArgumentError, match="`state` is of layout torch.sparse_coo"):
        layer(torch.zeros(5, 3, dtype=F64), state)
