"""Cells drawn at random from everything that equations may use, and calls of them that keep away from kinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import torch
from tests.engine.agreement import Call, draw
from tests.engine.random_matrices import RandomMatrices

from unspool.cells import (
    Cell,
    Symbol,
    absolute,
    cos,
    cumsum,
    erf,
    exp,
    gelu,
    log,
    log1p,
    log_sigmoid,
    max_units,
    maximum,
    mean_units,
    minimum,
    normalise,
    relu,
    sigmoid,
    silu,
    sin,
    softmax,
    softplus,
    sqrt,
    sum_units,
    tanh,
    where,
)
from unspool.cells.evaluate import Evaluator
from unspool.nn.operations import OPERATIONS
from unspool.nn.unroll import unroll

#: How far every comparison stays from a tie, many times what rounding in float32 can move it: see `clear_call`.
CLEAR = 2e-5
#: The same for float64: calls so long that in float32 something always comes near a tie.
CLEAR_IN_DOUBLE = 1e-9


class RandomCell(Cell):
    """Equations that follow from `seed`: one to three states, one to four stages of maps of intermediate values."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.inputs = {"dt": "one", "mask": "input"} if seed % 3 == 1 else {}

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"narrow": self._random("sizes").choice((1, 2, 5, 11))}

    @property
    def states(self) -> tuple[str, ...]:
        return ("h", "s", "m")[: self._random("states").randint(1, 3)]

    @property
    def state_widths(self) -> Mapping[str, str]:
        random = self._random("widths")
        return {state: random.choice(("hidden", "hidden", "narrow")) for state in self.states}

    def step(self, x: Symbol, *before: Symbol, **further: Symbol) -> tuple[Symbol, ...]:
        return _Writer(self, self._random("step"), x, before, further).results()

    def _random(self, purpose: str) -> Random:
        return Random(f"{self.seed} {purpose}")


class RandomUnitByUnit(RandomCell):
    """One that also reads x unit by unit."""

    input_width = "hidden"


def random_cell(seed: int, further: bool = True) -> Cell:
    """The cell of a seed; it may read `further` inputs besides x."""
    kind = RandomMatrices if seed % 5 == 4 else RandomUnitByUnit if seed % 4 == 3 else RandomCell
    cell = kind(seed)
    if not further:
        cell.inputs = {}
    return cell


# Each function is defined, smooth or kinked but never steep, for every number that can come to it.
UNARY: tuple[Callable[[Symbol], Symbol], ...] = (
    tanh,
    sigmoid,
    relu,
    absolute,
    lambda v: -v,
    lambda v: 0.5 - v,
    lambda v: 0.3 * v + 1,
    lambda v: v * 1,
    lambda v: v + 0,
    lambda v: exp(-(v**2)),
    lambda v: exp(minimum(v, 0.5)),
    lambda v: log(1.5 + v * v),
    lambda v: sqrt(v * v + 0.25),
    lambda v: 1 / (2 + abs(v)),
    lambda v: normalise(v, 0.3),
    sin,
    lambda v: cos(2 * v),
    erf,
    gelu,
    silu,
    softplus,
    log_sigmoid,
    lambda v: log1p(v * v),
    softmax,
    lambda v: cumsum(tanh(v)) / 9,
    lambda v: v * sigmoid(mean_units(v)),
    lambda v: tanh(v) - 0.1 * tanh(sum_units(v)),
    lambda v: v / (1 + sum_units(v * v)),
    lambda v: exp(minimum(v - max_units(v), 0.1)),
)
BINARY: tuple[Callable[[Symbol, Symbol], Symbol], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: tanh(a) * b,
    lambda a, b: a / (1.5 + b * b),
    minimum,
    maximum,
)


class _Writer:
    """Writes one step: stages of maps, each followed by elementwise work on what there is of a width."""

    def __init__(
        self, cell: RandomCell, random: Random, x: Symbol, before: tuple[Symbol, ...], further: Mapping[str, Symbol]
    ) -> None:
        self.cell, self.random, self.x, self.before = cell, random, x, before
        self.further = list(further.values())
        self.values: dict[str | None, list[Symbol]] = {"hidden": [], "narrow": []}
        self.conditions: dict[str | None, list[Symbol]] = {"hidden": [], "narrow": []}
        self.fresh: list[Symbol] = []
        self.count = 0
        for value in (x, *before):
            if value.width != "input":
                self.values[value.width].append(value)

    def results(self) -> tuple[Symbol, ...]:
        for stage in range(self.random.randint(1, 4)):
            made = [self._map(stage) for _ in range(self.random.randint(1, 3))]
            self.fresh = [self._mix(value) for value in made]
        return tuple(self._new(state) for state in self.before)

    def _new(self, state: Symbol) -> Symbol:
        """A new state that cannot leave a bounded range."""
        same = [value for value in self.fresh if value.width == state.width]
        value = self.random.choice(same) if same else self._linear((*self.fresh, state), state.width)
        z = sigmoid(self.random.choice(self.values[state.width]))
        forms = (
            lambda: tanh(value),
            lambda: (1 - z) * state + z * tanh(value),
            lambda: minimum(maximum(value, -1.5), 1.5),
            lambda: normalise(value, 0.2),
            lambda: 0.5 * state + sigmoid(value),
            lambda: next((other for other in self.before if other.width == state.width), state),  # handed on as it is
        )
        return self._named(self.random.choices(forms, (4, 4, 2, 1, 2, 1))[0]())

    def _map(self, stage: int) -> Symbol:
        """A map of x, states, vectors and values; from the second stage on, of the stage before at least."""
        early = [self.x, *self.before, *self.further]
        operands = self.random.sample(early, self.random.randint(1, min(2, len(early))))
        if stage:
            operands = [*operands[: self.random.randint(0, 2)], self.random.choice(self.fresh)]
        if self.random.random() < 0.2:
            operands.append(self._vector(self.random.choice(("hidden", "narrow"))))
        return self._linear(tuple(operands), self.random.choice(("hidden", "hidden", "narrow")))

    def _linear(self, operands: tuple[Symbol, ...], width: str | None) -> Symbol:
        self.count += 1
        bias, width = self.random.random() < 0.7, width or "hidden"
        return self.cell.linear(f"l{self.count}", *dict.fromkeys(operands), bias=bias, width=width)

    def _vector(self, width: str | None) -> Symbol:
        self.count += 1
        return self.cell.vector(f"p{self.count}", 0.1, width or "hidden")

    def _mix(self, value: Symbol) -> Symbol:
        """Elementwise work on a value, with others of its width."""
        known = self.values[value.width]
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            other = self.random.choice(known) if known and self.random.random() < 0.8 else self._vector(value.width)
            if kind < 0.08:
                value = self._tied(value)
            elif kind < 0.15:
                value = self._gated(value)
            elif kind < 0.45:
                value = self.random.choice(UNARY)(value)
            elif kind < 0.8:
                pair = (value, other) if self.random.random() < 0.5 else (other, value)
                value = self.random.choice(BINARY)(*pair)
            else:
                value = self._where(value, other)
            if self.random.random() < 0.3:
                known.append(self._named(value))
        known.append(value)
        return value

    def _tied(self, value: Symbol) -> Symbol:
        """A map to the same width, whose matrix may be that of an earlier one."""
        return tanh(self.cell.linear(f"t_{value.width}", value, bias=False, width=str(value.width), tied=True))

    def _gated(self, value: Symbol) -> Symbol:
        """A number per row that all units read: of a map, learned, or given."""
        self.count += 1
        choices = (
            lambda: sigmoid(self.cell.linear(f"g{self.count}", self.x, width="one")),
            lambda: self.cell.vector(f"a{self.count}", 0.5, width="one"),
            lambda: next((tanh(one) for one in self.further if one.width == "one"), sigmoid(value)),
            lambda: where(mean_units(value) > 0.05, mean_units(value), 0.3),
        )
        return value * self.random.choice(choices)()

    def _where(self, value: Symbol, other: Symbol) -> Symbol:
        """A choice by a new comparison, or by one of an earlier stage."""
        known = self.conditions[value.width]
        if not known or self.random.random() < 0.6:
            against: Symbol | float = self.random.choice((0.1, -0.3, other))
            known.append(value > against if self.random.random() < 0.5 else against <= value)
        choice: Any = self.random.choice(((value, other), (other, value), (value, 0.2), (-0.4, value)))
        return where(self.random.choice(known), *choice)

    def _named(self, value: Symbol) -> Symbol:
        self.count += 1
        return self.cell.name(f"v{self.count}", value)


def clear_call(cell: Cell, seed: int, *shape: int, clear: float = CLEAR, **options: Any) -> Call:
    """A call in which no comparison, minimum, maximum, relu or absolute value comes near a tie without being one.

    At a kink the slope jumps: two computations that differ in the last digit may then rightly have gradients that
    differ by anything. An exact tie, such as that of two values cut off at zero, is one in every precision and stays.
    """
    for attempt in range(200):
        call = draw(cell, *shape, seed=1000 * seed + attempt, **options)
        if clearance(call) > clear:
            return call
    raise AssertionError(f"no clear call of {cell} in 200 attempts")


def clearance(call: Call) -> float:
    """The smallest distance from a tie that is not one."""
    least = [1.0]

    def largest(v: Any) -> Any:
        top = torch.atleast_1d(v).topk(min(2, v.shape[-1]), -1).values
        least.append(float((top[..., 0] - top[..., -1]).min()) if v.shape[-1] > 1 and v.numel() else 1.0)
        return OPERATIONS["max"](v)

    def watched(compute: Callable[..., Any]) -> Callable[..., Any]:
        def watch(a: Any, b: Any = 0.0) -> Any:
            distance = torch.as_tensor(a - b).abs()
            least.append(distance[distance > 0].min().item() if (distance > 0).any() else 1.0)
            return compute(a) if compute in (OPERATIONS["relu"], OPERATIONS["absolute"]) else compute(a, b)

        return watch

    kinked = ("relu", "absolute", "minimum", "maximum", "less", "less_equal")
    watching = {"max": largest, **{name: watched(OPERATIONS[name]) for name in kinked}}
    sizes = call.layer.input_size, call.layer.hidden_size
    step = Evaluator(call.layer.equations, OPERATIONS | watching, sizes)
    ends = None if call.lengths is None else torch.tensor(call.lengths)
    with torch.no_grad():
        unroll(step, call.layer.cell_parameters(), call.x, call.states, ends, call.layer.reverse)
    return min(least)
