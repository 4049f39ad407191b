"""Gradients where an input of a call depends on another, or is another: each path counts once, at every order."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_compiler
from torch import Tensor

from unspool import nn
from unspool.cells import Cell, Symbol, minimum, relu
from unspool.engine import build

pytestmark = needs_compiler


def two_chunks(layer: nn.Recurrent, x: Tensor) -> Tensor:
    _, state = layer(x)
    output: Tensor = layer(x, state)[0]
    return output


def state_from_input(layer: nn.Recurrent, x: Tensor) -> Tensor:
    output: Tensor = layer(x, x.mean(0))[0]
    return output


def own_output(layer: nn.Recurrent, x: Tensor) -> Tensor:
    output: Tensor = layer(layer(x)[0])[0]
    return output


CASES = (two_chunks, state_from_input, own_output)


def differentiate(run: Callable[[nn.Recurrent, Tensor], Tensor], create_graph: bool) -> list[Tensor]:
    torch.manual_seed(0)
    layer = nn.Recurrent("elman", 3, 3, dtype=torch.float64)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    sources = [x, *layer.parameters()]
    first = torch.autograd.grad(run(layer, x).square().sum(), sources, create_graph=create_graph)
    if not create_graph:
        return list(first)
    second = torch.autograd.grad(sum((g.square().sum() for g in first), torch.zeros(())), sources)
    return [*first, *second]


@pytest.mark.parametrize("run", CASES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_first_and_second_order(run: Callable[[nn.Recurrent, Tensor], Tensor], create_graph: bool) -> None:
    found = differentiate(run, create_graph)
    with patch.object(build, "enabled", return_value=False):
        expected = differentiate(run, create_graph)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("run", CASES)
def test_gradients_in_batches(run: Callable[[nn.Recurrent, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    layer = nn.Recurrent("elman", 3, 3, dtype=torch.float64)
    x = torch.randn(4, 2, 3, dtype=torch.float64)

    def function(value: Tensor) -> Tensor:
        return run(layer, value).flatten()

    found = torch.autograd.functional.jacobian(function, x, vectorize=True)
    torch.testing.assert_close(found, torch.autograd.functional.jacobian(function, x), rtol=1e-10, atol=1e-12)


class Bounded(Cell):
    """Slopes that a comparison decides."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return minimum(self.linear("a", x), 0.3) + relu(self.linear("b", x)) + abs(self.linear("c", x, h))


def test_slopes_of_nan_are_torchs() -> None:
    x = torch.tensor([[[math.nan, 1.0]]], dtype=torch.float64)
    torch.manual_seed(0)
    layer = nn.Recurrent(Bounded, 2, 2, dtype=torch.float64)
    found = []
    for enabled in (True, False):
        with patch.object(build, "enabled", return_value=enabled):
            output = layer(x)[0]
            biases = [parameter for name, parameter in layer.named_parameters() if name.startswith("b_")]
            found.append(torch.autograd.grad(output.sum(), biases))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
