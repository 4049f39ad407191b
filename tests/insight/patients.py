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


def scaled() -> Patient:
    """A tanh network that reads numbers a hundred times as large as its weights are made for."""
    return Patient(_stack("elman"), 100 * _batch())


def small_inputs() -> Patient:
    """An LSTM that reads numbers near zero."""
    model = _stack("lstm")
    _fill(model, b_f=2.5)
    return Patient(model, 1e-3 * _batch())


def unequal_inputs() -> Patient:
    """An LSTM of which one feature varies a thousand times as much as another."""
    model = _stack("lstm")
    _fill(model, b_f=2.5)
    sizes = torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0, 1e-3], dtype=torch.float64)
    return Patient(model, sizes * _batch())


def stuck_shut() -> Patient:
    """An LSTM whose input gate never opens."""
    model = _stack("lstm")
    _fill(model, b_f=2.5, b_i=-15.0)
    return Patient(model, _batch())


def stuck_open() -> Patient:
    """A GRU whose gate, which lets the new state in, is always open."""
    model = _stack("gru")
    _fill(model, b_z=15.0)
    return Patient(model, _batch())


def frozen() -> Patient:
    """A tanh network that has settled, and hardly reads its input."""
    model = _stack("elman")
    with torch.no_grad():
        layers_of(model)[0].cell_parameters()["W_h"].mul_(1e-6)
    return Patient(model, _batch())


def saturated_cell() -> Patient:
    """An LSTM that adds up without end, so that tanh(c) is at its limits."""
    model = _stack("lstm")
    sign = torch.where(torch.arange(HIDDEN) % 2 == 0, 2.0, -2.0)
    _fill(model, b_f=4.5, b_i=3.0, b_g=sign)
    return Patient(model, _batch())


def saturated_units() -> Patient:
    """A tanh network with input weights sixty times as large."""
    model = _stack("elman")
    with torch.no_grad():
        layers_of(model)[0].cell_parameters()["W_h"].mul_(60)
    return Patient(model, _batch())


def forgetful() -> Patient:
    """Two LSTM layers, of which the lower one forgets at once and the upper one keeps."""
    model = _stack("lstm", 2)
    lower, upper = layers_of(model)
    _fill(upper, b_f=4.0)
    _fill(lower, b_f=-4.0)
    with torch.no_grad():
        for name, value in lower.cell_parameters().items():
            value.mul_(0.02 if name.startswith("U_") else 1.0)
    return Patient(model, _batch())


def latch() -> Patient:
    """Saturated tanh units that excite themselves: they hold the sign of the first inputs, and let no gradient pass."""
    model = _stack("elman")
    _fill(model, U_h=4 * torch.eye(HIDDEN, dtype=torch.float64), b_h=0.0)
    x = 0.05 * _batch()
    x[: STEPS // 4] = 40 * x[: STEPS // 4]
    return Patient(model, x)


#: What the first verdict must be → who gets it.
PATIENTS: dict[str, Callable[[], Patient]] = {
    "vanishing": vanishing,
    "exploding": exploding,
    "dead": dead,
    "shut": double_gated,
    "chaotic": chaotic,
    "truncated": truncated,
    "scaled": scaled,
    "stuck": stuck_shut,
    "frozen": frozen,
    "saturated": saturated_cell,
    "forgetful": forgetful,
    "healthy": healthy,
}
#: Other networks with the same verdicts.
OTHERS: dict[str, tuple[str, Callable[[], Patient]]] = {
    "small inputs": ("scaled", small_inputs),
    "unequal inputs": ("scaled", unequal_inputs),
    "stuck open": ("stuck", stuck_open),
    "saturated units": ("saturated", saturated_units),
}
