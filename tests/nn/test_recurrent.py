"""Recurrent: values and gradients of every cell over time."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.gradients import gradcheck
from tests.oracles import elman, gru_after, gru_before, lstm
from tests.oracles.rows import Backward, Forward, run_rows
from tests.variants import (
    LENGTHS,
    PeepholeLSTM,
    as_state,
    as_states,
    cell_of,
    each_cell,
    random_layer,
    random_parameters,
    random_tensors,
    sizes,
)
from torch import Tensor
from torch.func import functional_call, hessian, jvp, stack_module_state, vmap

from unspool.cells import GRU, LSTM, Cell, Elman, Jordan, Linear, OpenLSTM, ResetAfterGRU, Skip
from unspool.errors import ArgumentError, ArgumentTypeError, CellError, UnknownNameError
from unspool.nn.recurrent import Recurrent

pytestmark = pytest.mark.usefixtures("engine")

BY_HAND: list[tuple[Cell, Forward, Backward]] = [
    (Elman("tanh"), elman.forward, elman.backward),
    (Elman("relu"), partial(elman.forward, phi="relu"), elman.backward),
    (Elman("identity"), partial(elman.forward, phi="identity"), elman.backward),
    (LSTM(), lstm.forward, lstm.backward),
    (OpenLSTM(), lstm.forward, lstm.backward),
    (GRU(), gru_before.forward, gru_before.backward),
    (ResetAfterGRU(), gru_after.forward, gru_after.backward),
]
either_way = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)


@either_way
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize(("cell", "forward", "backward"), BY_HAND, ids=[repr(cell) for cell, *_ in BY_HAND])
def test_gradients_are_backpropagation_through_time_by_hand(
    cell: Cell, forward: Forward, backward: Backward, bias: bool, reverse: bool
) -> None:
    layer, (x, state) = random_layer(cell, bias, reverse=reverse), random_tensors(cell)
    generator = np.random.default_rng(3)
    d_output, d_final = (
        generator.normal(size=(5, 5, 4)),
        tuple(generator.normal(size=s.shape) for s in as_states(state)),
    )
    for lengths in (None, LENGTHS):
        layer.zero_grad()
        output, final = layer(x, state, lengths=lengths)
        ends = as_states(final)
        into = [x, *as_states(state)]
        weights = [torch.from_numpy(weight) for weight in (d_output, *d_final)]
        found = torch.autograd.grad([output, *ends], [*into, *layer.parameters()], weights)
        by_hand = run_rows(
            forward,
            backward,
            random_parameters(cell, bias),
            x.detach().numpy(),
            tuple(part.detach().numpy() for part in as_states(state)),
            lengths or (5,) * 5,
            d_output,
            d_final,
            reverse,
        )
        for mine, hand in zip((output, *ends), (by_hand.output, *by_hand.final), strict=True):
            close(mine.detach(), torch.from_numpy(hand))
        names = [name for name, _ in layer.named_parameters()]
        expected = (by_hand.d_x, *by_hand.d_states, *(by_hand.gradients[name] for name in names))
        for gradient, hand in zip(found, expected, strict=True):
            close(gradient, torch.from_numpy(hand))


@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@each_cell
def test_gradcheck(cell: Cell, ragged: bool) -> None:
    layer, (x, state) = random_layer(cell, reverse=ragged), random_tensors(cell, 3, 3)
    assert gradcheck(layer, x, state, lengths=(2, 0, 3) if ragged else None, trace=True)


@pytest.mark.parametrize("cell", [LSTM(), GRU()], ids=repr)
def test_gradcheck_of_every_single_entry_and_twice(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell), random_tensors(cell, 2, 2)

    def call(x: Tensor, *states: Tensor) -> Tensor:
        output: Tensor = layer(x, as_state(states), lengths=(1, 2))[0]
        return output

    assert torch.autograd.gradcheck(call, (x, *as_states(state)))
    assert torch.autograd.gradgradcheck(call, (x, *as_states(state)))


@each_cell
def test_no_steps_and_no_rows(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell), random_tensors(cell)
    output, final, trace = layer(x[:0], state, trace=True)
    assert output.shape == (0, 5, layer.output_size)
    assert list(trace) == list(layer.equations.named)
    assert all(value.shape[:2] == (0, 5) for value in trace.values())
    for mine, given in zip(as_states(final), as_states(state), strict=True):
        same(mine, given)
    output, final = layer(x[:, :0], lengths=[])
    assert output.shape == (5, 0, layer.output_size)
    assert all(part.shape[0] == 0 for part in as_states(final))


@either_way
@each_cell
def test_a_state_carried_across_two_halves(cell: Cell, reverse: bool) -> None:
    layer, (x, state) = random_layer(cell, reverse=reverse), random_tensors(cell)
    whole, final = layer(x, state)
    halves = [x[:2], x[2:]][:: -1 if reverse else 1]
    first, middle = layer(halves[0], state)
    second, last = layer(halves[1], middle)
    same(torch.cat([first, second][:: -1 if reverse else 1]), whole)
    for mine, other in zip(as_states(final), as_states(last), strict=True):
        same(mine, other)


@each_cell
def test_the_state_starts_at_zero(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell), random_tensors(cell)
    same(layer(x)[0], layer(x, as_state(tuple(torch.zeros_like(part) for part in as_states(state))))[0])


@each_cell
def test_learned_initial_state(cell: Cell) -> None:
    layer, plain = random_layer(cell, learn_initial=True), random_layer(cell)
    x, state = random_tensors(cell)
    starts = [getattr(layer, f"initial_{name}") for name in layer.equations.states]
    assert all((start == 0).all() for start in starts)
    with torch.no_grad():
        for start, part in zip(starts, as_states(state), strict=True):
            start.copy_(part[0])
    given = [start.detach().expand(5, -1).clone().requires_grad_() for start in starts]
    mine, other = layer(x, lengths=LENGTHS)[0], plain(x, as_state(tuple(given)), lengths=LENGTHS)[0]
    same(mine, other)
    slopes = torch.autograd.grad(mine.square().sum(), starts, materialize_grads=True)
    others = torch.autograd.grad(other.square().sum(), given, materialize_grads=True)
    for slope, rows in zip(slopes, others, strict=True):
        close(slope, rows.sum(0))
    same(layer(x, state)[0], plain(x, state)[0])


def test_the_trace_is_what_the_equations_say() -> None:
    layer, (x, h) = random_layer(GRU()), random_tensors(GRU())
    output, _, trace = layer(x, h, trace=True)
    p = layer.cell_parameters()
    before = torch.cat([h.unsqueeze(0), output[:-1]])
    r = torch.sigmoid(x @ p["W_r"].T + before @ p["U_r"].T + p["b_r"])
    close(trace["r"], r)
    close(trace["n"], torch.tanh(x @ p["W_n"].T + (r * before) @ p["U_n"].T + p["b_n"]))
    close(trace["h"], (1 - trace["z"]) * before + trace["z"] * trace["n"])
    same(trace["h"], output)


def test_the_trace_can_be_differentiated() -> None:
    """∂(Σ z)/∂x from the trace: of the first step by hand, σ′(a) W."""
    layer, (x, h) = random_layer(GRU()), random_tensors(GRU(), 1)
    z = layer(x, h, trace=True)[2]["z"]
    (slope,) = torch.autograd.grad(z.sum(), x)
    close(slope, ((z * (1 - z)) @ layer.W_z).detach())


def test_a_traced_call_gives_the_same_output() -> None:
    layer, (x, state) = random_layer(LSTM()), random_tensors(LSTM())
    close(layer(x, state, lengths=LENGTHS, trace=True)[:2], layer(x, state, lengths=LENGTHS))


@each_cell
def test_pickle_deepcopy_and_state_dict(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell, learn_initial=True), random_tensors(cell)
    expected = layer(x, state, trace=True)
    fresh = Recurrent(cell, *sizes(cell), learn_initial=True, dtype=torch.float64)
    assert fresh.load_state_dict(layer.state_dict()) == ([], [])
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer), fresh):
        same(other(x, state, trace=True), expected)
        assert all(a is not b for a, b in zip(other.parameters(), layer.parameters(), strict=True))


@each_cell
def test_parameters_carry_the_names_of_the_equations(cell: Cell) -> None:
    for bias in (True, False):
        layer = Recurrent(cell, *sizes(cell), bias=bias)
        names = {name: tuple(value.shape) for name, value in layer.state_dict().items()}
        assert names == cell.equations(bias).shapes(*sizes(cell))
        assert sum(value.numel() for value in layer.parameters()) == cell.count_parameters(*sizes(cell), bias=bias)


def test_fresh_parameters_are_torchs_own_distribution_and_vectors_their_initial() -> None:
    torch.manual_seed(0)
    layer = Recurrent(PeepholeLSTM(), 50, 64)
    for name, initial in ("p_i", 0.1), ("p_f", 0.2), ("p_o", 0.0):
        same(layer.get_parameter(name).detach(), torch.full((64,), initial))
    values = torch.cat([p.detach().flatten() for name, p in layer.named_parameters() if name[0] != "p"])
    assert 0.999 / 8 < values.abs().max() <= 1 / 8
    assert values.mean().abs() < 3 * values.std() / len(values) ** 0.5
    assert values.std().item() == pytest.approx(1 / 8 / 3**0.5, rel=0.02)


@pytest.mark.parametrize("cell", [Elman(), LSTM(), GRU()], ids=repr)
def test_an_ensemble_by_vmap(cell: Cell) -> None:
    models = [Recurrent(cell, 3, 4, dtype=torch.float64) for _ in range(3)]
    x, state = random_tensors(cell)
    parameters, buffers = stack_module_state(models)

    def call(parameters: Any, buffers: Any, x: Tensor) -> Any:
        return functional_call(models[0], (parameters, buffers), (x, state), {"lengths": LENGTHS})[0]

    together = vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    close(together, torch.stack([model(x, state, lengths=LENGTHS)[0] for model in models]))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, on its way to jvp
def test_jvp_and_hessian() -> None:
    layer, (x, h) = random_layer(Elman()), random_tensors(Elman(), 3, 1)
    x, h = x.detach()[:, 0], h.detach()[0]
    direction = torch.rand(x.shape, dtype=x.dtype)
    forward_mode = jvp(lambda x: layer(x, h)[0], (x,), (direction,))[1]
    close(forward_mode, torch.autograd.functional.jvp(lambda x: layer(x, h)[0], x, direction)[1])

    def loss(h: Tensor) -> Tensor:
        result: Tensor = layer(x, h)[0].square().sum()
        return result

    curvature = hessian(loss)(h)
    step = 1e-5
    for unit, column in zip(torch.eye(4, dtype=x.dtype), curvature, strict=True):
        ahead, behind = (torch.func.grad(loss)(h + sign * step * unit) for sign in (1, -1))
        torch.testing.assert_close(column, (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@each_cell
def test_other_dtypes(cell: Cell, dtype: torch.dtype) -> None:
    """Within a few roundings of float64's results from the same numbers: those that the dtype can hold."""
    layer, (x, state) = random_layer(cell).to(dtype), random_tensors(cell)
    x, states = x.detach().to(dtype), tuple(part.detach().to(dtype) for part in as_states(state))
    output, final, trace = layer(x, as_state(states), lengths=LENGTHS, trace=True)
    wide = as_state(tuple(part.double() for part in states))
    expected = copy.deepcopy(layer).double()(x.double(), wide, lengths=LENGTHS, trace=True)
    roundings = 8 * torch.finfo(dtype).eps
    found = [output, *as_states(final), *trace.values()]
    for mine, exact in zip(found, [expected[0], *as_states(expected[1]), *expected[2].values()], strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.double(), exact, rtol=roundings, atol=roundings)


@each_cell
def test_autocast(cell: Cell) -> None:
    """Products are in bfloat16 and all else is in float32: a few of bfloat16's roundings."""
    layer, (x, state) = random_layer(cell), random_tensors(cell)
    expected = layer(x, state, lengths=LENGTHS)[0]
    layer.float()
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(x.float(), as_state(tuple(s.float() for s in as_states(state))), lengths=LENGTHS)
    roundings = 4 * torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(output.double(), expected, rtol=roundings, atol=roundings)


def test_the_documents_own_case() -> None:
    """B = 1, T = 4, E = 128, H = 3, no bias: torch.nn.RNN's numbers, and the loop's by hand."""
    torch.manual_seed(0)
    theirs = torch.nn.RNN(128, 3, bias=False)
    layer = Recurrent("elman", 128, 3, bias=False)
    layer.load_state_dict({"W_h": theirs.weight_ih_l0, "U_h": theirs.weight_hh_l0})
    x = torch.randn(4, 1, 128)
    output, final = layer(x)
    expected, expected_final = theirs(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(final, expected_final[0], rtol=0, atol=1e-6)
    W, U = (value.detach().numpy() for value in layer.parameters())
    h = np.zeros(3)
    for t in range(4):
        h = np.tanh(W @ x[t, 0].numpy() + U @ h)
        np.testing.assert_allclose(output[t, 0].detach(), h, rtol=0, atol=1e-6)


def test_bad_arguments_of_the_constructor() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lstm'"):
        Recurrent("lsmt", 3, 4)
    with pytest.raises(ArgumentTypeError, match=r"`input_size` \(=nan\)"):
        Recurrent("lstm", float("nan"), 4)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"`hidden_size` \(=0\) is not positive"):
        Recurrent("lstm", 3, 0)
    with pytest.raises(ArgumentError, match=r"`input_size` \(=3\) differs from hidden_size \(=4\).*Make them equal"):
        Recurrent(cell_of(lambda self, x, h: x + h, input_width="hidden"), 3, 4)
    with pytest.raises(CellError, match="cannot be named 'training'"):
        Recurrent(cell_of(lambda self, x, h: h * self.vector("training")), 3, 4)
    with pytest.raises(CellError, match="initial_h"):
        Recurrent(cell_of(lambda self, x, h: h * self.vector("initial_h")), 3, 4, learn_initial=True)


def test_repr_says_what_differs_from_the_default() -> None:
    assert repr(Recurrent(Skip(3), 3, 4)) == "Recurrent(Skip(span=3, activation='tanh'), 3, 4)"
    said = repr(Recurrent("gru", 3, 4, bias=False, reverse=True, batch_first=True, learn_initial=True))
    assert said == "Recurrent(GRU(), 3, 4, bias=False, batch_first=True, reverse=True, learn_initial=True)"


def test_the_output_is_as_wide_as_the_first_state() -> None:
    for cell, width in ((LSTM(projection=2), 2), (Jordan(output_size=7), 7), (Linear(), 4)):
        layer = Recurrent(cell, 3, 4)
        assert layer.output_size == layer(torch.zeros(2, 3))[0].shape[-1] == width
