"""What a cell reads besides x: given by name, in x's layout, with gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_kernels
from torch import Tensor

from unspool import engine
from unspool.cells import Cell, Symbol, exp, softplus, tanh
from unspool.errors import ArgumentError, ArgumentTypeError, CellError, ShapeError
from unspool.nn import Recurrent


class Decaying(Cell):
    """The state decays with the time since the last step, and a mask says which inputs are there."""

    inputs = {"dt": "one", "mask": "input"}

    def step(self, x: Symbol, h: Symbol, dt: Symbol, mask: Symbol) -> Symbol:
        rate = softplus(self.vector("rate", 0.3))
        return tanh(exp(-(rate * dt)) * h + self.linear("h", mask * x, mask))


def example(**options: Any) -> tuple[Recurrent, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = Recurrent(Decaying, 3, 4, dtype=torch.float64, **options)
    x, mask = (torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return layer, x, torch.rand(5, 2, 1, dtype=torch.float64, requires_grad=True), mask


@needs_kernels
def test_kernel_and_loop_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, dt, mask = example()
    found = []
    for kernels in ("on", "off"):
        monkeypatch.setenv("UNSPOOL_ENGINE", kernels)
        output, state = layer(x, dt=dt, mask=mask, lengths=[5, 3])
        gradients = torch.autograd.grad((output**2).sum() + state.sum(), (x, dt, mask, *layer.parameters()))
        found.append((output, state, *gradients))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-11, atol=1e-11)
    assert found[0][3][3:, 1].eq(0).all()  # beyond a sequence's length


def test_gradients_are_those_of_finite_differences() -> None:
    layer, x, dt, mask = example()
    assert torch.autograd.gradcheck(lambda *given: layer(given[0], dt=given[1], mask=given[2])[0], (x, dt, mask))


def test_numpy_agrees() -> None:
    layer, x, dt, mask = example()
    parameters = {name: value.detach().numpy() for name, value in layer.cell_parameters().items()}
    further = {"dt": dt.detach().numpy(), "mask": mask.detach().numpy()}
    expected, _, _ = engine.run(Decaying(), parameters, x.detach().numpy(), inputs=further)
    torch.testing.assert_close(layer(x, dt=dt, mask=mask)[0].detach(), torch.from_numpy(expected))


def test_every_layout() -> None:
    layer, x, dt, mask = example()
    expected, _ = layer(x, dt=dt, mask=mask)
    torch.testing.assert_close(layer(x, dt=dt[..., 0], mask=mask)[0], expected)
    torch.testing.assert_close(layer(x[:, 0], dt=dt[:, 0], mask=mask[:, 0])[0], expected[:, 0])
    torch.testing.assert_close(layer(x[:, 0], dt=dt[:, 0, 0], mask=mask[:, 0])[0], expected[:, 0])
    layer.batch_first = True
    turned = {"dt": dt.transpose(0, 1), "mask": mask.transpose(0, 1)}
    torch.testing.assert_close(layer(x.transpose(0, 1), **turned)[0], expected.transpose(0, 1))
    turned["dt"] = dt[..., 0].T
    torch.testing.assert_close(layer(x.transpose(0, 1), **turned)[0], expected.transpose(0, 1))


def test_wrong_inputs_are_refused() -> None:
    layer, x, dt, mask = example()
    with pytest.raises(ArgumentError, match=r"Call layer\(x, dt=…, mask=…\)"):
        layer(x)
    with pytest.raises(ArgumentError, match="are not those that Decaying reads besides x"):
        layer(x, dt=dt, mask=mask, more=x)
    with pytest.raises(ShapeError, match="mask"):
        layer(x, dt=dt, mask=mask[:4])
    with pytest.raises(ArgumentTypeError, match="is not a tensor"):
        layer(x, dt=1.0, mask=mask)
    with pytest.raises(ArgumentError, match="Leave them out"):
        Recurrent("gru", 3, 4, dtype=torch.float64)(x, dt=dt)


@pytest.mark.parametrize("inputs", [{"h": "one"}, {"x": "one"}, {"dt": "hidden"}, {"dt": "none"}, {"d t": "one"}])
def test_wrong_declarations_are_refused(inputs: dict[str, str]) -> None:
    with pytest.raises(CellError):
        type("Mine", (Cell,), {"inputs": inputs, "step": lambda self, x, h, **further: h})().equations()
