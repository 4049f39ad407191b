"""Networks made ill on purpose, each with what ails it, and a healthy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.nn import Stack
from unspool.nn.recurrent import Recurrent

STEPS, ROWS, WIDTH, HIDDEN = 60, 4, 6, 32


class Patient(NamedTuple):
    """A network and what it reads."""

    model: Stack
    x: Tensor
    bptt: int | None = None

    def specimen(self) -> Specimen:
        return take_model(self.model, self.x, bptt=self.bptt)


def _batch(positive: bool = False) -> Tensor:
    x = torch.randn(STEPS, ROWS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x.abs() if positive else x


def _stack(cell: str, layers: int = 1) -> Stack:
    torch.manual_seed(0)
    return Stack(cell, WIDTH, HIDDEN, layers, dtype=torch.float64)


def layers_of(model: nn.Module) -> list[Recurrent]:
    return [module for module in model.modules() if isinstance(module, Recurrent)]


@torch.no_grad()
def _fill(model: nn.Module, **values: float | Tensor) -> None:
    for layer in layers_of(model):
        for name, value in values.items():
            parameter = layer.cell_parameters()[name]
            parameter.copy_(torch.as_tensor(value, dtype=parameter.dtype).expand_as(parameter))


def vanishing() -> Patient:
    """A tanh network as torch begins it: each step halves a gradient."""
    return Patient(_stack("elman"), _batch())


def exploding() -> Patient:
    """A relu network whose recurrent matrix is 1.3 times the identity."""
    model = _stack("elman-relu")
    _fill(model, U_h=1.3 * torch.eye(HIDDEN, dtype=torch.float64))
    return Patient(model, _batch(positive=True))


def dead() -> Patient:
    """A relu network of which half the units never fire."""
    model = _stack("elman-relu")
    bias = torch.zeros(HIDDEN, dtype=torch.float64)
    bias[: HIDDEN // 2] = -50
    _fill(model, U_h=0.95 * torch.eye(HIDDEN, dtype=torch.float64), b_h=bias)
    return Patient(model, _batch())


def double_gated() -> Patient:
    """Two LSTM layers with the gates between them nearly shut on both sides."""
    model = _stack("lstm", 2)
    lower, upper = layers_of(model)
    _fill(model, b_f=3.0)
    _fill(lower, b_o=-2.0)
    _fill(upper, b_i=-2.0)
    return Patient(model, _batch())


def chaotic() -> Patient:
    """A tanh network with random recurrent weights three times as strong as order permits."""
    model = _stack("elman")
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(HIDDEN, HIDDEN, dtype=torch.float64, generator=generator) * 3 / HIDDEN**0.5
    _fill(model, U_h=matrix, W_h=0.02)
    return Patient(model, _batch())


def truncated() -> Patient:
    """An LSTM that keeps for fifty steps, trained over windows of five."""
    model = _stack("lstm")
    _fill(model, b_f=4.0)
    return Patient(model, _batch(), bptt=5)


def healthy() -> Patient:
    """An LSTM whose forget gates begin open, trained over the whole sequence."""
    model = _stack("lstm")
    _fill(model, b_f=2.5)
    return Patient(model, _batch())


#: What the first verdict must be → who gets it.
PATIENTS: dict[str, Callable[[], Patient]] = {
    "vanishing": vanishing,
    "exploding": exploding,
    "dead": dead,
    "shut": double_gated,
    "chaotic": chaotic,
    "truncated": truncated,
    "healthy": healthy,
}
