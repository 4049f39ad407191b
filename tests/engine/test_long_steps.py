"""Steps of many operations: no loop of the emitted code is longer than a compiler takes in its stride."""

from __future__ import annotations

import pytest
from tests.engine.agreement import assert_agree, by_kernel, by_loop, draw, needs_compiler
from tests.variants import cell_of

from unspool.cells import Cell, Symbol, sigmoid, tanh
from unspool.engine import schedule
from unspool.engine.graph import ELEMENTWISE, lower
from unspool.engine.reverse import reverse


def chain(length: int) -> Cell:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        v = self.linear("v", x, h)
        for number in range(length):
            v = tanh(v) * 0.9 + h if number % 2 else v * sigmoid(h + 0.01 * number)
        return v

    return cell_of(step)


def test_levels_are_short_and_no_more_than_needed() -> None:
    lowered = lower(chain(400).equations())
    plan = schedule.schedule(lowered, reverse(lowered))
    for program in (plan.forward, plan.backward):
        counts: dict[int, int] = {}
        for node, level in program.levels.items():
            assert all(program.levels[value] <= level for value in node.inputs)
            counts[level] = counts.get(level, 0) + (node.operation in ELEMENTWISE)
        assert max(counts.values()) == schedule.LARGEST_LEVEL
        assert len(counts) <= 2 + sum(counts.values()) // schedule.LARGEST_LEVEL


@needs_compiler
@pytest.mark.usefixtures("compiling")
def test_values_and_gradients_of_a_long_step() -> None:
    call = draw(chain(90), 3, 2, 3, 9)
    assert_agree(by_kernel(call), by_loop(call), 1e-11)
