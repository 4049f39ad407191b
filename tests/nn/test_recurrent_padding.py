"""Recurrent on ragged batches: padding changes nothing, neither values nor gradients, in either direction."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.variants import LENGTHS, as_state, as_states, cell_of, each_cell, random_layer, random_tensors
from torch import Tensor

from unspool.cells import GRU, Cell, sqrt
from unspool.nn.recurrent import Recurrent

pytestmark = pytest.mark.usefixtures("engine")

either_way = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
same = partial(torch.testing.assert_close, rtol=0, atol=0)


def gradients(layer: Recurrent, x: Tensor, state: Any, lengths: Any = None) -> tuple[list[Tensor], list[Tensor]]:
    """Everything that comes out, traced values included, and a weighted sum's gradients of everything that went in."""
    output, final, trace = layer(x, state, lengths=lengths, trace=True)
    results = [output, *as_states(final), *trace.values()]
    weights = torch.Generator().manual_seed(1)
    loss = sum((torch.rand(v.shape, generator=weights, dtype=v.dtype) * v).sum() for v in results if v.requires_grad)
    return results, list(torch.autograd.grad(loss, [x, *as_states(state), *layer.parameters()], materialize_grads=True))


@either_way
@each_cell
def test_padding_never_changes_a_result(cell: Cell, reverse: bool) -> None:
    layer, (x, state) = random_layer(cell, reverse=reverse), random_tensors(cell)
    padding = torch.arange(5).unsqueeze(1) >= torch.tensor(LENGTHS)
    results, slopes = gradients(layer, x, state, LENGTHS)
    for filling in (0.0, float("nan"), float("inf"), 1e30):
        filled = x.detach().masked_fill(padding.unsqueeze(-1), filling).requires_grad_()
        other_results, other_slopes = gradients(layer, filled, state, LENGTHS)
        for mine, other in zip(results + slopes, other_results + other_slopes, strict=True):
            assert torch.equal(mine, other)
    assert (slopes[0][padding] == 0).all()
    for sequence in (results[0], *results[1 + len(as_states(state)) :]):
        assert (sequence[padding] == 0).all()


@either_way
@each_cell
def test_a_ragged_batch_is_its_rows_run_alone(cell: Cell, reverse: bool) -> None:
    layer, (x, state) = random_layer(cell, reverse=reverse), random_tensors(cell)
    output, final = layer(x, state, lengths=LENGTHS)
    parts, ends = [], []
    for row, length in enumerate(LENGTHS):
        alone, end = layer(x[:length, row], as_state(tuple(part[row] for part in as_states(state))))
        parts.append(torch.nn.functional.pad(alone, (0, 0, 0, 5 - length)))
        ends.append(as_states(end))
    finals = [torch.stack(column) for column in zip(*ends, strict=True)]
    inside = [x, *as_states(state), *layer.parameters()]
    together = [output, *as_states(final)]
    apart = [torch.stack(parts, 1), *finals]
    weights = [torch.rand(value.shape, dtype=value.dtype) for value in together]
    for mine, other in zip(together, apart, strict=True):
        close(mine, other)
    found = (torch.autograd.grad(values, inside, weights, materialize_grads=True) for values in (together, apart))
    for mine, other in zip(*found, strict=True):
        close(mine, other)


def test_a_cell_that_cannot_read_zeros_is_not_run_on_padding() -> None:
    """√(W x)² has no slope at x = 0, where a padded step would put it; its own steps are far from there."""
    layer = random_layer(cell_of(lambda self, x, h: h + sqrt(self.linear("a", x, bias=False) ** 2)))
    x, state = random_tensors(layer.cell)
    _, slopes = gradients(layer, x, state, LENGTHS)
    assert all(slope.isfinite().all() for slope in slopes)


@pytest.mark.parametrize(
    "lengths",
    [
        list(LENGTHS),
        LENGTHS,
        np.array(LENGTHS),
        np.array(LENGTHS, np.uint8),
        torch.tensor(LENGTHS),
        torch.tensor(LENGTHS, dtype=torch.int32),
        torch.tensor(LENGTHS, dtype=torch.int8),
        torch.tensor(LENGTHS, dtype=torch.uint16),
        [torch.tensor(length) for length in LENGTHS],
    ],
    ids=repr,
)
def test_lengths_of_any_kind(lengths: Any) -> None:
    layer, (x, state) = random_layer(GRU()), random_tensors(GRU())
    same(layer(x, state, lengths=lengths)[0], layer(x, state, lengths=list(LENGTHS))[0])


@each_cell
def test_rows_without_steps_keep_their_state(cell: Cell) -> None:
    layer, (x, state) = random_layer(cell), random_tensors(cell)
    output, final = layer(x, state, lengths=[0] * 5)
    assert (output == 0).all()
    for mine, given in zip(as_states(final), as_states(state), strict=True):
        same(mine, given)
