"""Every cell that the tests run over, listed once: a cell that joins the catalogue inherits them all."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.cells import CATALOGUE, LSTM, Cell, DeepTransition, Elman, Jordan, Leaky, Residual, Skip, Symbol
from unspool.cells.functions import absolute, exp, log, maximum, minimum, normalise, relu, sigmoid, sqrt, tanh, where
from unspool.nn.leaves import map_leaves
from unspool.nn.recurrent import Recurrent

Array = NDArray[np.float64]


class Minimal(Cell):
    """The five lines that a user needs at least."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x))
        n = tanh(self.linear("n", x))
        return (1 - z) * h + z * n


class PeepholeLSTM(Cell):
    """An LSTM whose gates look at the memory."""

    keeps = {"f": +1}

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.linear("i", x, h) + self.vector("p_i", 0.1) * c)
        f = sigmoid(self.linear("f", x, h) + self.vector("p_f", 0.2) * c)
        c = f * c + i * tanh(self.linear("g", x, h))
        o = sigmoid(self.linear("o", x, h) + self.vector("p_o") * c)
        return o * tanh(c), c


class NormalisedLSTM(LSTM):
    """An LSTM with layer normalisation, its gates by a helper method."""

    def gate(self, name: str, x: Symbol, h: Symbol) -> Symbol:
        return self.vector(f"s_{name}", 1.0) * normalise(self.linear(name, x, h, bias=False)) + self.vector(f"m_{name}")

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i, f, o = (sigmoid(self.gate(name, x, h)) for name in "ifo")
        g = tanh(self.gate("g", x, h))
        c = f * c + i * g
        return o * tanh(normalise(c)), c


class ThreeStages(Cell):
    """Three products in a row, each needing the one before; the middle one is narrow."""

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"narrow": 2}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        u = relu(self.linear("u", x, h, width="narrow"))
        v = tanh(self.linear("v", u, h))
        w = sigmoid(self.linear("w", v, u * 0.5, x))
        return w * v + (1 - w) * h


class ThreeStates(Cell):
    """A fast, a slow and a narrow state."""

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"few": 3}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"m": "few"}

    def step(self, x: Symbol, h: Symbol, s: Symbol, m: Symbol) -> tuple[Symbol, Symbol, Symbol]:
        a = tanh(self.linear("a", x, h, m))
        s = 0.9 * s + 0.1 * a
        m = tanh(self.linear("m", s, m, width="few", bias=False))
        return a - s, s, m


class Toolbox(Cell):
    """Every function and operator that equations may use; its kinks are away from where tests differentiate."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = self.linear("a", x, h)
        b = minimum(a, 0.7) + maximum(-0.6, h) - abs(a) / (2 + absolute(h))
        d = exp(-(a**2)) + log(1.5 + a * a) + sqrt(h * h + 0.25)
        e = where(a > 0.05, b, 0.3 * d) + where(h >= 2.0, 0.1, -0.7)
        k = where(d > 1.2, minimum(b, d), maximum(b, h))
        return 0.5 * relu(k + 0.03) - tanh(e / (1 + d)) - 1 / (3 + sigmoid(h))


class UnitByUnit(Cell):
    """Reads x without a matrix, so that the input is as wide as the state."""

    input_width = "hidden"

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        f = sigmoid(self.linear("f", x) + self.vector("v", 0.3) * h)
        return f * h + (1 - f) * x


class Heir(Minimal):
    """A cell that goes on from its parent's step."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        old = super().step(x, h)
        g = sigmoid(self.linear("g", x, h))
        return g * old + 0.5


USERS: tuple[type[Cell], ...] = (
    Minimal,
    PeepholeLSTM,
    NormalisedLSTM,
    ThreeStages,
    ThreeStates,
    Toolbox,
    UnitByUnit,
    Heir,
)

VARIANTS: Mapping[str, Cell] = {
    **{name: make() for name, make in CATALOGUE.items()},
    **{f"elman-{phi}": Elman(phi) for phi in ("tanh", "relu", "sigmoid", "identity")},
    "jordan-output": Jordan(output_size=2, output_activation="tanh"),
    "lstm-projection": LSTM(projection=2),
    **{f"deep-transition-{depth}": DeepTransition(depth) for depth in (1, 2, 3)},
    "residual-relu": Residual("relu"),
    **{f"skip-{span}": Skip(span) for span in (2, 3)},
    "leaky-slow": Leaky(dt=0.01, alpha=2.5),
    **{kind.__name__: kind() for kind in USERS},
}

#: Cells of the catalogue whose costly tests are long; `tests/engine/test_published.py` has a lean set for each of them.
PUBLISHED = tuple(CATALOGUE)[tuple(CATALOGUE).index("leaky") + 1 :]

#: For tests that take milliseconds per cell.
every_cell = pytest.mark.parametrize("cell", list(VARIANTS.values()), ids=list(VARIANTS))
#: For tests that run layers or kernels.
each_cell = pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, id=name, marks=[pytest.mark.long] * (name in PUBLISHED)) for name, cell in VARIANTS.items()],
)
#: For tests that compile a kernel per cell: some of every kind, and all of them where minutes do not matter.
each_kernel = pytest.mark.parametrize(
    "cell",
    [
        *(
            pytest.param(VARIANTS[name], id=f"{name}-soon")
            for name in ("lstm", "jordan", "NormalisedLSTM", "ThreeStates", "UnitByUnit")
        ),
        *(pytest.param(cell, id=name, marks=pytest.mark.long) for name, cell in VARIANTS.items()),
    ],
)

#: States that a cell divides by, and leaves positive, by the name of its class.
NORMALIZERS = {"SLSTM": ("n",)}

#: Ragged lengths in no order: with a zero, a one, the full five steps, and a repeat.
STEPS, LENGTHS = 5, (3, 5, 0, 1, 3)


def cell_of(step: Callable[..., Any], **attributes: Any) -> Cell:
    """A cell of a class Mine that has this `step`."""
    made: Cell = type("Mine", (Cell,), {"step": step, **attributes})()
    return made


def sizes(cell: Cell) -> tuple[int, int]:
    """A small input and hidden size that the cell accepts."""
    unit = cell.equations().hidden_unit
    hidden = -(-4 // unit) * unit
    return (hidden, hidden) if cell.input_width == "hidden" else (3, hidden)


def random_parameters(cell: Cell, bias: bool = True, scale: float = 0.7) -> dict[str, Array]:
    """Parameters by name, the same at every call."""
    equations = cell.equations(bias)
    generator = np.random.default_rng(zlib.crc32(repr(cell).encode()))
    return {name: scale * generator.normal(size=shape) for name, shape in equations.shapes(*sizes(cell)).items()}


def random_batch(cell: Cell, steps: int = STEPS, rows: int = len(LENGTHS)) -> tuple[Array, tuple[Array, ...]]:
    """x (steps, rows, input_size) and initial states (rows, width), the same at every call."""
    equations = cell.equations()
    generator = np.random.default_rng(steps + 100 * rows)
    x = generator.normal(size=(steps, rows, equations.x_size(*sizes(cell))))
    widths = {state: equations.size(width, *sizes(cell)) for state, width in equations.states.items()}
    drawn = {state: 0.5 * generator.normal(size=(rows, width)) for state, width in widths.items()}
    return x, tuple(possible_state(cell, state, value) for state, value in drawn.items())


def possible_state(cell: Cell, state: str, value: Any) -> Any:
    """A state that the cell can have, made of any numbers."""
    return abs(value) + 0.5 if state in NORMALIZERS.get(type(cell).__name__, ()) else value


def random_layer(cell: Cell, bias: bool = True, **options: Any) -> Recurrent:
    """A float64 layer that holds `random_parameters`."""
    layer = Recurrent(cell, *sizes(cell), bias=bias, dtype=torch.float64, **options)
    values = {name: torch.from_numpy(value) for name, value in random_parameters(cell, bias).items()}
    layer.load_state_dict(values, strict=not options.get("learn_initial"))
    return layer


def as_state(states: tuple[Any, ...]) -> Any:
    """States nested as a layer takes them: one alone, several as a tuple."""
    return states[0] if len(states) == 1 else states


def as_states(state: Any) -> tuple[Any, ...]:
    """The opposite of `as_state`."""
    return state if isinstance(state, tuple) else (state,)


def random_tensors(cell: Cell, steps: int = STEPS, rows: int = len(LENGTHS)) -> tuple[Tensor, Any]:
    """`random_batch` for torch: x, and the state nested as a layer takes it; both want gradients."""
    x, states = random_batch(cell, steps, rows)
    return torch.from_numpy(x).requires_grad_(), as_state(tuple(torch.from_numpy(s).requires_grad_() for s in states))


def row_of(state: Any, row: int) -> Any:
    """One row of a state, however nested: what a layer takes unbatched."""
    return map_leaves(lambda part: part[row], state)
