"""The kernels as torch's operators: checked by opcheck, taken by torch.compile and torch.export, with equal values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from unspool import nn
from unspool.nn.recurrence import Recurrence


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.LSTM(5, 7, 2, bidirectional=True)
        self.middle = nn.Recurrent("gru", 14, 4)
        self.upper = nn.Stack("elman", 4, 6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lower(x)
        y, _ = self.middle(y)
        y, _ = self.upper(y)
        assert isinstance(y, Tensor)
        return y


@pytest.mark.parametrize("lengths", [None, [6, 0, 2]], ids=str)
def test_opcheck(lengths: list[int] | None) -> None:
    layer: Any = nn.Recurrent("lstm", 5, 7)
    recurrence: Recurrence = layer._recurrence
    x = torch.randn(6, 3, 5, requires_grad=True)
    states = [torch.zeros(3, 7), torch.zeros(3, 7)]
    parameters = list(layer.cell_parameters().values())
    ends = None if lengths is None else torch.tensor(lengths)
    arguments = (recurrence.cell, 7, x, states, parameters, ends, False, True)
    assert set(torch.library.opcheck(torch.ops.unspool.recurrence.default, arguments).values()) == {"SUCCESS"}


def test_compile_and_export_give_the_same_values_and_gradients() -> None:
    torch.manual_seed(0)
    model = Model()
    x = torch.randn(6, 3, 5, requires_grad=True)
    expected = model(x)
    wanted = [x, *model.parameters()]
    gradients = torch.autograd.grad(expected.square().sum(), wanted)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    actual = compiled(x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
    for mine, other in zip(torch.autograd.grad(actual.square().sum(), wanted), gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    exported = torch.export.export(model, (x.detach(),))
    torch.testing.assert_close(exported.module()(x.detach()), expected.detach(), rtol=0, atol=1e-6)
    assert any("unspool.recurrence" in str(node.target) for node in exported.graph.nodes)
