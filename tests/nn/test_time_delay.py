"""TimeDelay: the answer for t is the layer's at t + M, each row going on over zeros after its own last step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.nn.gradients import gradcheck, leaves
from tests.variants import LENGTHS, row_of
from torch import Tensor
from torch.nn.functional import pad

from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.layer import Layer
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack
from unspool.nn.time_delay import TimeDelay

pytestmark = pytest.mark.usefixtures("engine")

close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)
F64 = torch.float64
LAYERS: dict[str, Callable[[], Layer]] = {
    "elman": lambda: Recurrent("elman", 3, 4, dtype=F64),
    "lstm": lambda: Recurrent("lstm", 3, 4, dtype=F64),
    "reverse": lambda: Recurrent("gru", 3, 4, reverse=True, dtype=F64),
    "bidirectional": lambda: Bidirectional("gru", 3, 4, dtype=F64),
    "stack": lambda: Stack(["gru", "lstm"], 3, [4, 4], residual=[False, True], dtype=F64),
    "twice": lambda: TimeDelay(Recurrent("gru", 3, 4, dtype=F64), 1),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
each_delay = pytest.mark.parametrize("delay", [0, 1, 3, 7])


def begin(make: Callable[[], Layer], rows: int) -> tuple[Layer, Tensor, Any]:
    """A layer, an input of so many rows, and a state to start from."""
    torch.manual_seed(0)
    layer, x = make(), torch.randn(5, rows, 3, dtype=F64)
    return layer, x, layer(x)[1]


@each_delay
@each_layer
def test_answers_later(make: Callable[[], Layer], delay: int) -> None:
    layer, x, start = begin(make, 2)
    late, final, trace = layer(torch.cat([x, x.new_zeros(delay, 2, 3)]), start, trace=True)
    output, state, values = TimeDelay(layer, delay)(x, start, trace=True)
    same(output, late[delay:])
    same(state, final)
    same(values, trace)


@each_delay
@each_layer
def test_a_ragged_batch_is_its_rows_run_alone(make: Callable[[], Layer], delay: int) -> None:
    layer, x, start = begin(make, 5)
    output, state = TimeDelay(layer, delay)(x, start, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        longer = length + delay if length else 0  # a row without steps has no answers to wait for
        alone, end = layer(pad(x[:length, row], (0, 0, 0, longer - length)), row_of(start, row))
        close(output[:length, row], alone[longer - length :])
        assert (output[length:, row] == 0).all()
        close(row_of(state, row), end)


@each_layer
def test_padding_never_changes_a_result(make: Callable[[], Layer]) -> None:
    torch.manual_seed(0)
    layer, x = TimeDelay(make(), 2), torch.randn(5, 5, 3, dtype=F64)
    padding = (torch.arange(5).unsqueeze(1) >= torch.tensor(LENGTHS)).unsqueeze(-1)
    results = []
    for filling in (0.0, float("nan"), float("inf")):
        filled = x.masked_fill(padding, filling).requires_grad_()
        output, state = layer(filled, lengths=LENGTHS)
        loss = output.square().sum() + sum(part.sum() for part in leaves(state))
        slopes = torch.autograd.grad(loss, [filled, *layer.parameters()])
        assert (slopes[0].masked_select(padding) == 0).all()
        results.append((output, *leaves(state), *slopes))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_sees_exactly_the_delay_into_the_future() -> None:
    layer, x = TimeDelay(Recurrent("gru", 3, 4, dtype=F64), 2), torch.randn(6, 3, dtype=F64)
    reach = torch.autograd.functional.jacobian(lambda x: layer(x)[0], x).abs().sum((1, 3)) > 0
    assert torch.equal(reach, torch.ones(6, 6).tril(2) > 0)


@each_layer
def test_gradcheck(make: Callable[[], Layer]) -> None:
    torch.manual_seed(0)
    layer = TimeDelay(make(), 2)
    assert gradcheck(layer, torch.randn(3, 3, 3, dtype=F64), lengths=(2, 0, 3))


@each_delay
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_every_layer_of_a_stack_is_delayed(lengths: tuple[int, ...] | None, delay: int) -> None:
    """A head on a lower layer reads it as late as the top's head reads the top."""
    torch.manual_seed(0)
    stack, x = LAYERS["stack"](), torch.randn(5, 5, 3, dtype=F64)
    delayed = TimeDelay(stack, delay)
    sequences, state = delayed(x, lengths=lengths, every_layer=True)
    output, final = delayed(x, lengths=lengths)
    assert len(sequences) == 2
    same(sequences[-1], output)
    same(state, final)
    for row, length in enumerate(lengths or (5,) * 5):
        longer = pad(x[:length, row], (0, 0, 0, delay if length else 0))
        alone, _ = stack(longer, every_layer=True)
        for mine, other in zip(sequences, alone, strict=True):
            close(mine[:length, row], other[len(longer) - length :])
            assert (mine[length:, row] == 0).all()


def test_every_layer_through_two_delays() -> None:
    torch.manual_seed(0)
    stack, x = LAYERS["stack"](), torch.randn(5, 2, 3, dtype=F64)
    twice, once = TimeDelay(TimeDelay(stack, 1), 2), TimeDelay(stack, 3)
    close(twice(x, every_layer=True)[0], once(x, every_layer=True)[0])
    with pytest.raises(ArgumentError, match=r"`every_layer` \(=True\) asks for the layers of a Recurrent"):
        TimeDelay(TimeDelay(Recurrent("gru", 3, 4), 1), 1)(x.float(), every_layer=True)
    with pytest.raises(ArgumentError, match="asks for the layers of a Bidirectional. Leave it out, or delay a Stack"):
        TimeDelay(Bidirectional("gru", 3, 4), 1)(x.float(), every_layer=True)


@each_layer
def test_it_is_called_as_the_layer_is(make: Callable[[], Layer]) -> None:
    """The same sizes, initial states and weights; a state that the layer gave can be given."""
    layer, x = make(), torch.randn(5, 2, 3, dtype=F64)
    delayed = TimeDelay(layer, 2)
    assert (delayed.input_size, delayed.output_size) == (layer.input_size, layer.output_size)
    same(delayed.initial_state(2, x), layer.initial_state(2, x))
    assert delayed.state_shapes(2) == layer.state_shapes(2)
    same(delayed(x, layer.initial_state(2, x)), delayed(x))
    assert list(delayed.state_dict()) == [f"layer.{name}" for name in layer.state_dict()]


@each_layer
def test_on_the_meta_device(make: Callable[[], Layer]) -> None:
    layer = TimeDelay(make(), 2)
    expected = layer(torch.randn(5, 2, 3, dtype=F64))
    found = layer.to("meta")(torch.empty(5, 2, 3, dtype=F64, device="meta"))
    assert {part.device.type for part in leaves(found)} == {"meta"}
    assert [part.shape for part in leaves(found)] == [part.shape for part in leaves(expected)]


def test_bad_arguments() -> None:
    layer = Recurrent("gru", 3, 4)
    with pytest.raises(ArgumentError, match=r"`delay` \(=-1\) is negative"):
        TimeDelay(layer, -1)
    for wrong in (1.5, 0.0, "2", None, True, False):
        with pytest.raises(ArgumentTypeError, match=rf"`delay` \(={wrong!r}\)"):
            TimeDelay(layer, wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`layer` .*is not a layer of unspool.nn. Give a Recurrent or a Stack"):
        TimeDelay(torch.nn.GRU(3, 4), 1)  # type: ignore[arg-type]
