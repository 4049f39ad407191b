"""Gradients where a derivative is infinite, undefined or one-sided: a kernel's are those of the eager loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from torch import Tensor

from unspool import Cell
from unspool.cells.functions import exp, log, maximum, minimum, relu, sigmoid, sqrt, tanh, where
from unspool.cells.symbols import Symbol
from unspool.nn import Recurrent

pytestmark = needs_compiler

POINTS = [0.0, -0.0, 1.0, -1.0, 2.5, 1e-30, -1e-30, math.inf, -math.inf, math.nan]
OPERATIONS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {
    "sqrt": lambda v, w: sqrt(v),
    "log": lambda v, w: log(v),
    "abs": lambda v, w: abs(v),
    "relu": lambda v, w: relu(v),
    "divide": lambda v, w: v / w,
    "minimum": lambda v, w: minimum(v, w),
    "maximum": lambda v, w: maximum(v, w),
    "where": lambda v, w: where(v < w, sqrt(v), log(w)),
    "power": lambda v, w: v**7,
    "exp": lambda v, w: exp(v),
    "sigmoid": lambda v, w: sigmoid(v),
    "tanh": lambda v, w: tanh(v),
}


class Singular(Cell):
    """One state per operation; each acts on vectors of its own, so that no gradient hides another."""

    input_width = "hidden"

    def step(
        self,
        x: Symbol,
        h: Symbol,
        s1: Symbol,
        s2: Symbol,
        s3: Symbol,
        s4: Symbol,
        s5: Symbol,
        s6: Symbol,
        s7: Symbol,
        s8: Symbol,
        s9: Symbol,
        s10: Symbol,
        s11: Symbol,
    ) -> tuple[Symbol, ...]:
        found = [act(self.vector(f"v_{name}"), self.vector(f"w_{name}")) for name, act in OPERATIONS.items()]
        return tuple(value + 0 * x for value in found)


@pytest.mark.parametrize("slope", [1.0, -2.0, 0.0, math.inf])
@pytest.mark.parametrize("dtype", [torch.float64])
def test_gradients_at_singular_points(dtype: torch.dtype, slope: float, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = torch.tensor([(v, w) for v in POINTS for w in POINTS], dtype=dtype)
    layer: Any = Recurrent(Singular, len(pairs), len(pairs), dtype=dtype)
    with torch.no_grad():
        for name in OPERATIONS:
            getattr(layer, f"v_{name}").copy_(pairs[:, 0])
            getattr(layer, f"w_{name}").copy_(pairs[:, 1])
    x = torch.zeros(1, 3, len(pairs), dtype=dtype)
    found: dict[str, dict[str, Tensor]] = {}
    for setting in ("on", "off"):
        monkeypatch.setenv("UNSPOOL_ENGINE", setting)
        assert layer.engine.startswith("kernel" if setting == "on" else "eager")
        layer.zero_grad()
        output, states = layer(x)
        torch.autograd.backward([output, *states], [torch.full_like(value, slope) for value in (output, *states)])
        found[setting] = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in layer.named_parameters()
        }
    torch.testing.assert_close(found["on"], found["off"], rtol=1e-12, atol=0, equal_nan=True)
    if slope == 1.0:  # by hand; 3 rows, and the first state counts twice, as output and as final state
        slopes = {name: gradient.view(len(POINTS), len(POINTS)) for name, gradient in found["on"].items()}
        zero, one = POINTS.index(0.0), POINTS.index(1.0)
        assert slopes["v_sqrt"][zero, one] == math.inf
        assert slopes["v_log"][zero, one] == math.inf
        assert slopes["v_abs"][zero, one] == slopes["v_relu"][zero, one] == 0
        assert slopes["w_divide"][one, zero] == -math.inf
        assert slopes["v_divide"][one, POINTS.index(2.5)] == pytest.approx(3 / 2.5)
        assert slopes["v_maximum"][one, one] == slopes["w_maximum"][one, one] == 1.5
        assert slopes["v_power"][one, one] == 21


def test_a_state_that_nothing_reads_has_the_gradient_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one difference, which docs/extending.md states: 0 · ∞ in the kernel, nothing in the loop."""
    width = len(POINTS) ** 2
    layer: Any = Recurrent(Singular, width, width, dtype=torch.float64)
    torch.nn.init.zeros_(layer.v_log)
    slopes: dict[str, Any] = {}
    for setting in ("on", "off"):
        monkeypatch.setenv("UNSPOOL_ENGINE", setting)
        final = layer(torch.zeros(1, 1, width, dtype=torch.float64))[1]
        slopes[setting] = torch.autograd.grad(final[4].sum(), [layer.v_log, layer.v_divide], allow_unused=True)
    assert slopes["on"][0].isnan().all()
    assert slopes["off"][0] is None
    torch.testing.assert_close(slopes["on"][1], slopes["off"][1], equal_nan=True)
