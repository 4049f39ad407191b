"""Forgetting of prefixes against powers, and against models that are run on exchanged sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.measures.test_flow import InPieces, scalar
from tests.insight.models import each_stack, loss_of, small_input, small_stack
from tests.variants import LENGTHS
from torch import Tensor

from unspool.cells import LSTM, Cell, Elman
from unspool.errors import ArgumentError
from unspool.insight.measures.forgetting import measure_forgetting
from unspool.insight.recording import record
from unspool.nn import Stack


def traces(stack: Stack, x: Tensor, lengths: Any) -> list[Tensor | None]:
    """All states of each unit, None for such as run backwards."""
    _, _, named = stack(x, lengths=lengths, trace=True)
    found: list[Tensor | None] = []
    for values, layer in zip(named, stack.layers, strict=True):
        both = isinstance(values, tuple)
        part: Any = layer.ahead if both else layer
        ahead = values[0] if both else values
        found.append(torch.cat([ahead[name] for name in part.equations.states], -1).detach())
        found += [None] if both else []
    return found


@each_stack
def test_is_the_distance_of_two_runs(cell: Cell, layers: int, both: bool) -> None:
    stack, x = small_stack(cell, layers, both), small_input(cell)
    found = measure_forgetting(record(stack, lambda model: loss_of(model(x, lengths=LENGTHS)[0])), prefix=2)
    exchanged = x.clone()
    for row, other in ((0, 1), (1, 4), (4, 0)):  # those of at least two steps
        exchanged[:2, row] = x[:2, other]
    pairs = zip(traces(stack, x, LENGTHS), traces(stack, exchanged, LENGTHS), strict=True)
    for row, (one, two) in enumerate(pairs):
        if one is None or two is None:
            assert np.isnan(found.distance[row]).all()
            assert (found.horizon[row], bool(found.censored[row])) == (0, True)
            continue
        for step in range(4):
            now = then = 0.0
            for b, length in enumerate(LENGTHS):
                if length > step + 1:
                    now += float((one - two)[step + 1, b].square().sum())
                    then += float((one - two)[1, b].square().sum())
            np.testing.assert_allclose(found.distance[row, step], np.sqrt(now / then), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weight", [0.5, -0.8, 1.0, 1.2])
def test_a_scalar_linear_network_forgets_in_powers(weight: float) -> None:
    x = torch.randn(24, 3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    found = measure_forgetting(record(scalar(weight), lambda model: model(x)[0].sum()))
    assert found.steps.tolist() == list(range(19))  # after six of prefix
    np.testing.assert_allclose(found.distance[0], abs(weight) ** np.arange(19.0), rtol=1e-9)
    np.testing.assert_allclose(found.rate, abs(weight), rtol=1e-9)
    if weight == 0.5:
        assert (found.horizon[0], found.censored[0]) == (7, False)
    else:
        assert (found.horizon[0], found.censored[0]) == (18, True)


def test_one_row_reads_its_prefix_backwards() -> None:
    x = torch.tensor([1.0, 5, 2, 0, 1], dtype=torch.float64).reshape(5, 1, 1)
    found = measure_forgetting(record(scalar(0.5), lambda model: model(x)[0].sum()), prefix=2)
    np.testing.assert_allclose(found.distance, [[1, 0.5, 0.25, 0.125]], rtol=1e-12)
    same = measure_forgetting(record(scalar(0.5), lambda model: model(x)[0].sum()), prefix=1)
    assert np.isnan(same.distance).all()
    one = measure_forgetting(record(scalar(0.5), lambda model: model(x[:1])[0].sum()))
    assert (one.steps.tolist(), one.censored.tolist()) == ([0], [True])


def test_pieces_are_the_whole() -> None:
    stack, x = small_stack(Elman(), 2), small_input(Elman(), steps=7)
    whole = measure_forgetting(record(stack, lambda model: loss_of(model(x)[0])), prefix=3)
    pieces = measure_forgetting(record(InPieces(stack), lambda model: loss_of(model(x))), prefix=3)
    np.testing.assert_allclose(pieces.distance, whole.distance, rtol=1e-12)


def test_rounding_has_no_rate() -> None:
    stack = scalar(0.5).float()
    x = torch.randn(200, 4, 1, generator=torch.Generator().manual_seed(5))
    found = measure_forgetting(record(stack, lambda model: model(x)[0].sum()), prefix=50)
    assert found.rate[0] == pytest.approx(0.5, rel=0.01)
    assert (found.horizon[0], found.censored[0]) == (7, False)


@pytest.mark.parametrize("prefix", [0, 6])
def test_refuses_prefixes_that_are_none(prefix: int) -> None:
    recording = record(small_stack(LSTM()), lambda model: loss_of(model(small_input(LSTM()))[0]))
    with pytest.raises(ArgumentError, match="prefix"):
        measure_forgetting(recording, prefix)
