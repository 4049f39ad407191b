"""Gradient flow against powers, and against autograd through models that are written out step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.insight.models import each_stack, loss_of, small_input, small_stack
from tests.variants import LENGTHS, STEPS
from torch import Tensor, nn

from unspool.cells import Cell, Elman
from unspool.errors import ArgumentError
from unspool.insight.measures import flow
from unspool.insight.measures.flow import factor_per_step, measure_flow, norm_of
from unspool.insight.recording import record
from unspool.nn import Bidirectional, Recurrent, Stack

Array = NDArray[np.float64]
Nodes = dict[str, list[Tensor]]
Copies = dict[str, list[dict[str, Tensor]]]


def unrolled(stack: Stack, x: Tensor, lengths: Sequence[int], scale: Tensor) -> tuple[Tensor, Nodes, Copies]:
    """A stack's output by a loop over time, the states after every step, and the copy of the weights each step used.

    The gradient along every edge from step to step is multiplied by the row's `scale`; values stay as they are.
    """
    ends = torch.tensor(lengths).unsqueeze(-1)
    nodes: Nodes = {}
    copies: Copies = {}
    for name, layer in stack.layers.named_children():
        parts = {"": layer}
        if isinstance(layer, Bidirectional):
            parts = {".ahead": layer.ahead, ".back": layer.back}
        outputs = []
        for suffix, part in parts.items():
            assert isinstance(part, Recurrent)
            path = f"layers.{name}{suffix}"
            own = [{key: value.clone() for key, value in part.cell_parameters().items()} for _ in x]
            state = part.initial_state(x.shape[1], x)
            carried = state if isinstance(state, tuple) else (state,)
            widths = [value.shape[-1] for value in carried]
            given: list[Any] = [None] * len(x)
            after: list[Any] = [None] * len(x)
            for t in range(len(x))[:: -1 if part.reverse else 1]:
                new, _ = part.step(own[t], x[t], carried)
                after[t] = torch.cat([value.expand(x.shape[1], -1) for value in new], -1)
                states = after[t].split(widths, -1)
                given[t] = torch.where(t < ends, states[0], 0.0)
                edges = [value.detach() + scale * (value - value.detach()) for value in states]
                carried = tuple(torch.where(t < ends, *pair) for pair in zip(edges, carried, strict=True))
            nodes[path], copies[path] = after, own
            outputs.append(torch.stack(given))
        x = torch.cat(outputs, -1)
    return x, nodes, copies


def coefficients(values: Array, scales: Array) -> Array:
    """Of the polynomials in the scale that have these values (first axis) there."""
    flat = values.reshape(len(scales), -1)
    found = np.linalg.solve(np.vander(scales, increasing=True), flat)
    return np.asarray(found, np.float64).reshape(values.shape)


def scales_for(edges: int) -> Array:
    """Enough of them, well apart, to know a polynomial of this degree."""
    return np.asarray(np.cos(np.pi * (np.arange(edges + 1) + 0.5) / (edges + 1)), np.float64)


def states_by_lag(stack: Stack, x: Tensor, lengths: Sequence[int]) -> dict[str, Array]:
    """∂L/∂s by unit, apart by the edges crossed: (lags, time, rows, states). All scales are run as rows, at once."""
    scales = scales_for(len(stack.layers) * (len(x) - 1))
    count, rows = len(scales), x.shape[1]
    each = torch.from_numpy(scales).repeat_interleave(rows).unsqueeze(-1)
    output, nodes, _ = unrolled(stack, x.repeat(1, count, 1), list(lengths) * count, each)
    loss = sum((loss_of(part) for part in output.split(rows, 1)), torch.zeros(()))
    found = {}
    for name, after in nodes.items():
        grads = torch.autograd.grad(loss, after, retain_graph=True, allow_unused=True, materialize_grads=True)
        stacked = torch.stack(grads).detach().reshape(len(x), count, rows, -1).transpose(0, 1)
        found[name] = coefficients(stacked.numpy(), scales)
    return found


@each_stack
def test_is_what_a_loop_over_time_gives(cell: Cell, layers: int, both: bool) -> None:
    stack, x = small_stack(cell, layers, both), small_input(cell)
    found = measure_flow(record(stack, lambda model: loss_of(model(x, lengths=LENGTHS)[0])))
    expected = states_by_lag(stack, x, LENGTHS)
    assert found.survival.shape == (len(expected), max(LENGTHS))
    for row, (name, lags) in enumerate(expected.items()):
        total = lags.sum(0)
        for t in range(STEPS):
            live = [b for b, length in enumerate(LENGTHS) if t < length]
            mean = np.mean([np.square(total[t, b]).sum() for b in live])
            np.testing.assert_allclose(found.norms[row, t], np.sqrt(mean), rtol=1e-9)
        for lag in range(STEPS):
            below = 0.0
            for b, length in enumerate(LENGTHS):
                for t in range(length):
                    steps_before = length - 1 - t if name.endswith("back") else t
                    if steps_before >= lag:
                        below += np.square(lags[0, t, b]).sum()
            above = np.square(lags[lag]).sum()
            np.testing.assert_allclose(found.survival[row, lag], np.sqrt(above / below), rtol=1e-8, atol=1e-10)


def scalar(weight: float, layers: int = 1) -> Stack:
    """h_t = weight · h_{t−1} + x_t."""
    stack = Stack(Elman("identity"), 1, 1, layers, bias=False, dtype=torch.float64)
    for layer in stack.layers:
        assert isinstance(layer, Recurrent)
        parameters = layer.cell_parameters()
        nn.init.constant_(parameters["U_h"], weight)
        nn.init.ones_(parameters["W_h"])
    return stack


def at_the_end(x: Tensor) -> Any:
    return lambda model: model(x)[0][-1].sum()


@pytest.mark.parametrize("weight", [0.5, -0.9, 1.0, 1.5])
def test_a_scalar_linear_network_has_powers(weight: float) -> None:
    x = torch.randn(41, 3, 1, dtype=torch.float64)
    found = measure_flow(record(scalar(weight), at_the_end(x)), limit=36)
    np.testing.assert_allclose(found.survival, [abs(weight) ** np.arange(36.0)], rtol=1e-12)
    np.testing.assert_allclose(found.norms, [abs(weight) ** np.arange(40.0, -1, -1)], rtol=1e-12)
    np.testing.assert_allclose(found.rate, abs(weight), rtol=1e-12)
    everywhere = measure_flow(record(scalar(weight), lambda model: loss_of(model(x)[0])))
    np.testing.assert_allclose(everywhere.survival, [abs(weight) ** np.arange(41.0)], rtol=1e-12)


def test_known_powers_and_horizons() -> None:
    x = torch.ones(41, 1, 1, dtype=torch.float64)
    half, more = (measure_flow(record(scalar(weight), at_the_end(x))) for weight in (0.5, 1.5))
    assert half.survival[0, 30] == pytest.approx(9.3e-10, rel=0.01)
    assert more.survival[0, 20] == pytest.approx(3325, abs=0.5)
    assert (half.horizon[0], half.censored[0]) == (6, False)  # 0.5⁶ = 0.0156, 0.5⁷ = 0.0078
    assert (more.horizon[0], more.censored[0]) == (40, True)


def test_relu_grows_with_the_identity() -> None:
    stack = Stack(Elman("relu"), 3, 3, bias=False, dtype=torch.float64)
    layer = stack.layers[0]
    assert isinstance(layer, Recurrent)
    with torch.no_grad():
        layer.cell_parameters()["W_h"].copy_(torch.eye(3))
        layer.cell_parameters()["U_h"].copy_(1.2 * torch.eye(3, dtype=torch.float64))
    x = torch.rand(30, 2, 3, dtype=torch.float64) + 0.1
    found = measure_flow(record(stack, at_the_end(x)))
    np.testing.assert_allclose(found.survival[0], 1.2 ** np.arange(30.0), rtol=1e-12)


def test_without_recurrence_nothing_survives() -> None:
    found = measure_flow(record(scalar(0.0), at_the_end(torch.ones(5, 2, 1, dtype=torch.float64))))
    np.testing.assert_array_equal(found.survival, [[1, 0, 0, 0, 0]])
    assert (found.horizon[0], found.censored[0]) == (0, False)
    assert np.isnan(found.rate[0])


def test_sources_too_many_to_follow_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "WORK", 2000.0)
    x = torch.randn(60, 6, 1, dtype=torch.float64)
    recording = record(scalar(0.8, 2), lambda model: loss_of(model(x)[0]))
    sampled = list(flow._split(recording, 8))
    assert [len(places) for places, _ in sampled[0]] == [8, 8]
    full = [lag.states for lag in recording.lags(20)]
    for lag in range(20):
        for number, layer in enumerate(recording.layers):
            places, values = sampled[lag][number]
            whole = full[lag][layer.name].flatten(0, 1)[places]
            torch.testing.assert_close(values, whole, rtol=1e-12, atol=1e-14)
    upper = measure_flow(recording, limit=30).survival[1]
    np.testing.assert_allclose(upper, 0.8 ** np.arange(len(upper)), rtol=1e-12)
    monkeypatch.setattr(flow, "WORK", 100.0)
    assert measure_flow(recording, limit=30).survival.shape[1] < 30


class InPieces(nn.Module):
    """A stack that is called for a few steps at a time."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> Tensor:
        outputs, state = [], None
        for piece in x.split(2):
            output, state = self.stack(piece, state)
            outputs.append(output)
        return torch.cat(outputs)


def test_pieces_are_the_whole() -> None:
    stack, x = small_stack(Elman(), 2), small_input(Elman(), steps=7)
    whole = measure_flow(record(stack, lambda model: loss_of(model(x)[0])))
    pieces = measure_flow(record(InPieces(stack), lambda model: loss_of(model(x))))
    np.testing.assert_allclose(pieces.norms, whole.norms, rtol=1e-10)
    np.testing.assert_allclose(pieces.survival, whole.survival, rtol=1e-10)


def test_steps_that_no_row_has() -> None:
    x = torch.ones(4, 2, 1, dtype=torch.float64)
    stack = Stack(Elman("identity"), 1, 1, bidirectional=True, dtype=torch.float64)
    found = measure_flow(record(stack, lambda model: model(x, lengths=[1, 2])[0][:2].sum()))
    assert np.isnan(found.norms).tolist() == [[False, False, True, True]] * 2
    late = measure_flow(record(stack, lambda model: model(x)[0][-1].sum()))
    np.testing.assert_array_equal(late.survival[1], [1, np.nan, np.nan, np.nan])  # nothing lies before its source
    assert late.horizon.tolist()[1] == 0
    assert late.censored[1]
    one = measure_flow(record(stack, lambda model: model(x[:1, :1])[0].sum()))
    np.testing.assert_array_equal(one.survival, [[1.0], [1.0]])
    np.testing.assert_array_equal(one.norms, [[1.0], [1.0]])


def test_norms_whose_squares_overflow() -> None:
    x = torch.zeros(700, 2, 1, dtype=torch.float64)
    found = measure_flow(record(scalar(2.0), at_the_end(x)), limit=2)
    np.testing.assert_allclose(found.norms[0], 2.0 ** np.arange(699.0, -1, -1), rtol=1e-12)
    assert norm_of(torch.tensor([3e-200, 4e-200], dtype=torch.float64)) == pytest.approx(5e-200)


def test_rates_come_from_what_is_above_the_floor() -> None:
    assert factor_per_step(np.array([1, 0.5, 0.25, 1e-13, np.nan])) == pytest.approx(0.5)
    assert np.isnan(factor_per_step(np.array([1.0, 0.0])))


def test_refuses_no_lags() -> None:
    recording = record(scalar(0.5), at_the_end(torch.ones(3, 1, 1, dtype=torch.float64)))
    with pytest.raises(ArgumentError, match="limit"):
        measure_flow(recording, limit=0)
