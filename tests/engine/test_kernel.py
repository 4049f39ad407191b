"""The kernel of every cell against the eager loop: values, final states, trace and all gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.engine.agreement import (
    assert_agree,
    assert_agree_in_float32,
    by_kernel,
    by_loop,
    draw,
    needs_compiler,
    ragged,
)
from tests.engine.random_cells import CLEAR, CLEAR_IN_DOUBLE, clear_call, clearance
from tests.variants import VARIANTS, as_state, as_states, each_cell, each_kernel
from torch.func import functional_call

from unspool import engine
from unspool.cells import Cell, Symbol, find_cell, mean_units, normalise, sigmoid, tanh, where
from unspool.errors import ArgumentError, DTypeError, ShapeError
from unspool.nn import Recurrent, runner
from unspool.nn.unroll import unroll

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling")]

#: steps, rows, input size, hidden size, threads: vectors full and not, rows more and fewer than threads and than what a
#: product takes at once, ones that are long enough for several slabs, and ones whose units threads share.
SHAPES = (
    (1, 1, 1, 1, 1),
    (2, 1, 9, 33, 3),
    (4, 2, 3, 7, 2),
    (5, 5, 8, 8, 2),
    (3, 13, 17, 9, 3),
    (6, 5, 1, 17, 1),
    (3, 2, 33, 3, 1),
    (40, 13, 7, 33, 2),
    (11, 1, 4, 32, 3),
    (230, 2, 7, 48, 2),
)


@each_kernel
def test_values_and_gradients(cell: Cell) -> None:
    for number, (steps, rows, input_size, hidden_size, threads) in enumerate(SHAPES):
        for lengths in (None, ragged(steps, rows)):
            reverse = (number + (lengths is None)) % 2 == 0
            options: dict[str, Any] = {"lengths": lengths, "reverse": reverse}
            clear = CLEAR if steps < 100 else CLEAR_IN_DOUBLE
            call = clear_call(cell, number, steps, rows, input_size, hidden_size, clear=clear, **options)
            exact = by_loop(call)
            assert_agree(by_kernel(call, threads), exact, 1e-11)
            if clearance(call) > CLEAR:
                assert_agree_in_float32(call, threads, exact)


@pytest.mark.long
@each_cell
def test_without_bias(cell: Cell) -> None:
    for reverse in (False, True):
        call = clear_call(cell, 0, 5, 5, 3, 9, lengths=ragged(5, 5), reverse=reverse, bias=False)
        exact = by_loop(call)
        assert_agree(by_kernel(call, 2), exact, 1e-11)
        assert_agree(by_kernel(call.to(torch.float32), 2), exact, 1e-5)


@each_kernel
def test_trace_and_inference(cell: Cell) -> None:
    for reverse in (False, True):
        for lengths in (None, ragged(5, 5)):
            call = draw(cell, 5, 5, 3, 9, lengths=lengths, reverse=reverse)
            layer, state = call.layer, as_state(call.states)
            ends = None if lengths is None else torch.tensor(lengths)
            with torch.no_grad():
                expected = unroll(layer.step, layer.cell_parameters(), call.x, call.states, ends, reverse, trace=True)
                with patch.object(runner, "unroll", side_effect=AssertionError("the eager loop ran")):
                    output, final, trace = layer(call.x, state, lengths=lengths, trace=True)
                    plain, plain_final = layer(call.x, state, lengths=lengths)
            names = [*expected[2], "output", *layer.equations.states]
            wanted = dict(zip(names, (*expected[2].values(), expected[0], *expected[1]), strict=True))
            assert_agree(dict(zip(names, (*trace.values(), output, *as_states(final)), strict=True)), wanted, 1e-12)
            assert_agree(
                dict(zip(names, (*trace.values(), plain, *as_states(plain_final)), strict=True)), wanted, 1e-12
            )
            assert list(trace) == list(layer.equations.named)


def test_a_trace_has_the_numbers_of_which_a_row_has_one() -> None:
    class Divided(Cell):
        def step(self, x: Symbol, h: Symbol) -> Symbol:
            n = tanh(self.linear("n", x, h))
            m = mean_units(n * n)
            d = 2 * m + 1
            return n / d

    call = draw(Divided(), 4, 3, 3, 5)
    layer = call.layer
    with torch.no_grad():
        expected = unroll(layer.step, layer.cell_parameters(), call.x, call.states, None, False, trace=True)[2]
        trace = layer(call.x, as_state(call.states), trace=True)[2]
    assert set(trace) == {"n", "m", "d", "h"}
    assert_agree(trace, expected, 1e-12)


@each_kernel
def test_the_state_starts_at_zero(cell: Cell) -> None:
    call = draw(cell, 4, 3, 3, 9, lengths=(4, 0, 2))
    zeros = tuple(torch.zeros_like(state) for state in call.states)
    expected = call.layer(call.x, as_state(zeros), lengths=call.lengths)[0]
    output = call.layer(call.x, lengths=call.lengths)[0]
    assert torch.equal(output, expected)
    sources = [call.x, *call.layer.parameters()]
    slopes = [torch.autograd.grad(y.square().sum(), sources, materialize_grads=True) for y in (output, expected)]
    assert all(torch.equal(mine, other) for mine, other in zip(*slopes, strict=True))


@each_kernel
def test_gradients_that_are_missing_or_not_wanted(cell: Cell) -> None:
    call = clear_call(cell, 5, 5, 5, 3, 9, lengths=ragged(5, 5))
    for used in ("output", *call.layer.equations.states):
        part = replace(call, used=frozenset({used}))
        assert_agree(by_kernel(part, 2), by_loop(part), 1e-11)
    for wanted in ("x", "states", "parameters"):
        call.layer.requires_grad_(wanted == "parameters")
        part = replace(
            call,
            x=call.x.detach().requires_grad_(wanted == "x"),
            states=tuple(state.detach().requires_grad_(wanted == "states") for state in call.states),
        )
        assert_agree(by_kernel(part, 2), by_loop(part), 1e-11)
    call.layer.requires_grad_(False)
    next(call.layer.parameters()).requires_grad_()
    assert_agree(by_kernel(part, 2), by_loop(part), 1e-11)


@each_kernel
def test_layout_in_memory_does_not_matter(cell: Cell) -> None:
    call = draw(cell, 5, 5, 3, 9, lengths=ragged(5, 5))
    expected = by_kernel(call)

    def scattered(tensor: torch.Tensor) -> torch.Tensor:
        """The same numbers, every second place in memory, the axes the other way round."""
        wide = torch.full((*tensor.shape[::-1], 2), float("nan"), dtype=tensor.dtype)
        wide[..., 1] = tensor.detach().permute(*reversed(range(tensor.dim())))
        found = wide[..., 1].permute(*reversed(range(tensor.dim())))
        assert torch.equal(found, tensor)
        assert not found.is_contiguous()
        return found.requires_grad_()

    for parameter in call.layer.parameters():
        parameter.data = scattered(parameter).detach()
    found = by_kernel(replace(call, x=scattered(call.x), states=tuple(map(scattered, call.states))))
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@each_kernel
def test_same_bits_whatever_ran_before(cell: Cell) -> None:
    """The scratch memory that threads keep is full of NaN from a larger call, and nothing of it comes through."""
    call = draw(cell, 7, 13, 3, 9, lengths=ragged(7, 13))
    poison = draw(cell, 9, 14, 5, 17)
    with torch.no_grad():
        for tensor in (poison.x, *poison.states, *poison.layer.parameters()):
            tensor.fill_(float("nan"))
    for threads in (1, 2, 3):
        expected = by_kernel(call, threads)
        for dtype in (torch.float64, torch.float32):
            by_kernel(poison.to(dtype), threads)
            again = by_kernel(call, threads)
            assert all(torch.equal(again[name], value) for name, value in expected.items())


@each_kernel
def test_what_stands_in_the_padding_does_not_matter(cell: Cell) -> None:
    call = draw(cell, 5, 5, 3, 9, lengths=ragged(5, 5))
    expected = by_kernel(call)
    past = torch.arange(5).unsqueeze(1) >= torch.tensor(call.lengths)
    for rubbish in (float("nan"), float("inf"), -1e300):
        x = call.x.detach().clone()
        x[past] = rubbish
        found = by_kernel(replace(call, x=x.requires_grad_()))
        assert all(torch.equal(found[name], value) for name, value in expected.items())
        output, _ = call.layer(x, as_state(call.states), lengths=call.lengths)
        slope = torch.ones_like(output)
        first = torch.autograd.grad(output, x, slope, retain_graph=True)[0]
        slope[past] = rubbish
        second = torch.autograd.grad(output, x, slope)[0]
        assert torch.equal(first, second)
        assert (second[past] == 0).all()


@each_kernel
def test_nan_and_inf_reach_what_they_reach_in_the_loop(cell: Cell) -> None:
    """One bad number in one row spoils the same entries as in torch, and no other row."""
    for bad in (float("nan"), float("inf"), -float("inf")):
        call = draw(cell, 4, 3, 3, 9)
        with torch.no_grad():
            call.x[1, 1, 0] = bad
        found, expected = by_kernel(call), by_loop(call)
        for name in ("output", *(f"final {state}" for state in call.layer.equations.states)):
            torch.testing.assert_close(found[name], expected[name], rtol=1e-11, atol=1e-11, equal_nan=True)
            rows = found[name].movedim(-2, 0)[[0, 2]]
            assert rows.isfinite().all()


def test_lengths_changed_after_the_call_do_not_change_its_gradient() -> None:
    call = draw(VARIANTS["lstm"], 5, 3, 3, 9, lengths=(2, 0, 4))
    expected = by_kernel(call)["d x"]
    lengths = torch.tensor(call.lengths)
    output, final = call.layer(call.x, as_state(call.states), lengths=lengths)
    lengths.copy_(torch.tensor([5, 5, 5]))
    with patch.object(call.layer, "forward", return_value=(output, final)):
        assert torch.equal(by_kernel(call)["d x"], expected)


def test_integers_of_any_kind_are_lengths() -> None:
    call = draw(VARIANTS["lstm"], 5, 3, 3, 9, lengths=(2, 0, 4))
    expected = by_kernel(call)["output"]
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        assert torch.equal(
            call.layer(call.x, as_state(call.states), lengths=torch.tensor([2, 0, 4], dtype=dtype))[0], expected
        )
    wide = torch.tensor([[2, 9], [0, 9], [4, 9]])[:, 0]
    assert torch.equal(call.layer(call.x, as_state(call.states), lengths=wide)[0], expected)


class Dead(Cell):
    """Maps on which the state does not depend, named or not: their parameters have the gradient zero."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = tanh(self.linear("a", x, h))
        self.linear("unseen", x, h)
        seen = self.linear("seen", 2 * a)
        self.name("shown", sigmoid(self.linear("shown", seen)))
        return a


class OneValueTwice(Cell):
    """Operands that are one value once h · 1 and h + 0 are simplified, each with its own matrix."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return tanh(self.linear("a", x, h * 1, h, h + 0) + self.linear("b", x * 1, x))


class LateChoice(Cell):
    """A comparison that later stages read."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = tanh(self.linear("a", x, h))
        high = h > 0.1
        b = where(high, tanh(self.linear("b", a)), a)
        return where(high, where(a < b, b, 0.3), tanh(self.linear("c", b)))


class SizeNamedRow(Cell):
    """A width that has the name of something else inside the engine."""

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"row": 3, "forward": 2}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = normalise(self.linear("a", x, h, width="row"), 0.2)
        return tanh(self.linear("b", a) + self.linear("c", self.linear("d", x, width="forward")))


class VectorsOnly(Cell):
    """Values that no row of the batch changes: maps and normalisation of parameter vectors."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        v = self.vector("v", 0.5)
        a = normalise(self.linear("a", v * v), 0.2)
        return tanh(self.linear("b", x, h) + normalise(a + v, 0.2) * v)


class HandedOn(Cell):
    """States that change places, take the input itself, and become a parameter."""

    input_width = "hidden"

    def step(self, x: Symbol, h: Symbol, s: Symbol, m: Symbol, v: Symbol) -> tuple[Symbol, Symbol, Symbol, Symbol]:
        return s, m, x, self.vector("p", 0.3)


AWKWARD = (Dead, OneValueTwice, LateChoice, SizeNamedRow, VectorsOnly, HandedOn)


@pytest.mark.parametrize("kind", AWKWARD, ids=lambda kind: kind.__name__)
def test_awkward_equations(kind: type[Cell]) -> None:
    poison = draw(kind(), 9, 14, 5, 17)
    with torch.no_grad():
        for tensor in (poison.x, *poison.states, *poison.layer.parameters()):
            tensor.fill_(float("nan"))
    for lengths, wants_x in ((None, True), (ragged(5, 5), False)):
        by_kernel(poison, 2)
        call = clear_call(kind(), 1, 5, 5, 3, 9, lengths=lengths)
        call = replace(call, x=call.x.detach().requires_grad_(wants_x))
        assert_agree(by_kernel(call, 2), by_loop(call), 1e-11)


@pytest.mark.parametrize("units", [4, 37])
def test_gradients_of_biases_in_a_large_batch(units: int) -> None:
    """Sums of 100,003 numbers: adding one after the other in float32 is several times less exact than this asks for."""
    torch.manual_seed(0)
    layer, x = Recurrent("lstm", 3, units), torch.randn(1, 100_003, 3)
    layer(x)[0].sum().backward()
    found = {name: part.grad for name, part in layer.named_parameters() if name.startswith("b_")}
    exact = Recurrent("lstm", 3, units, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    start = tuple(torch.zeros(100_003, units, dtype=torch.float64) for _ in range(2))
    h, _ = exact.take_step(x[0].double(), start)
    h.sum().backward()
    for name, gradient in found.items():
        expected = getattr(exact, name).grad
        assert gradient is not None
        assert expected is not None
        torch.testing.assert_close(gradient.double(), expected, rtol=2e-6, atol=1e-6 * float(expected.abs().max()))


def test_parameters_given_for_one_call() -> None:
    call = draw(VARIANTS["lstm"], 4, 3, 3, 9)
    other = draw(VARIANTS["lstm"], 4, 3, 3, 9, seed=1)
    expected = by_kernel(replace(call, layer=other.layer))["output"]
    found = functional_call(call.layer, dict(other.layer.named_parameters()), (call.x, as_state(call.states)))[0]
    assert torch.equal(found, expected)


def test_more_threads_than_rows_and_no_row_alive() -> None:
    call = draw(VARIANTS["lstm"], 4, 2, 3, 9, lengths=(0, 0))
    assert_agree(by_kernel(call, 3), by_loop(call), 0)


def test_addresses_that_are_missing_are_refused() -> None:
    """C would read beyond the table of addresses, or follow a null."""
    kernel = engine.Kernel(find_cell("gru").equations(), 2, 3)
    arrays = [np.zeros(64) for _ in range(12)]
    x, out, final, *parameters = (array.ctypes.data for array in arrays)
    head = (8, (1, 1), 1, False, 0, x)
    kernel.forward(*head, parameters, [], out, [final])
    with pytest.raises(ArgumentError, match="are not 12 addresses"):
        kernel.forward(*head, parameters[:-1], [], out, [final])
    with pytest.raises(ArgumentError, match="12, 1 of them 0"):
        kernel.forward(*head, [0, *parameters[1:]], [], out, [final])
    with pytest.raises(ArgumentError, match="are not 12 addresses"):
        kernel.forward(*head, parameters, [], out, [])
    with pytest.raises(ArgumentError, match="addresses"):
        kernel.backward(*head, parameters, [], out, out, 0, [0], 0, parameters[:-1], [])
    with pytest.raises(DTypeError, match="4 or 8 bytes"):
        kernel.forward(2, *head[1:], parameters, [], out, [final])
    with pytest.raises(ShapeError, match="no step"):
        kernel.forward(8, (0, 1), *head[2:], parameters, [], out, [final])
