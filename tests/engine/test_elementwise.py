"""Recurrences without a product with the state: threads share the units of a row and never wait for each other."""

from __future__ import annotations

import pytest
import torch
from tests.engine.agreement import Call, assert_agree, assert_agree_in_float32, by_kernel, by_loop, draw, needs_compiler
from tests.engine.agreement import ragged as ragged_lengths

from unspool.cells import Cell, Symbol, sigmoid, tanh
from unspool.cells.functions import where

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling")]


class MinGRU(Cell):
    """As published: gate and candidate read x alone, and the candidate stays positive."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x))
        v = self.linear("n", x)
        g = where(v >= 0, v + 0.5, sigmoid(v))
        return (1 - z) * h + z * g


class Highway(Cell):
    """As SRU: gates see the memory through weights per unit, and x passes by unit by unit."""

    input_width = "hidden"

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        f = sigmoid(self.linear("f", x) + self.vector("v_f", 0.3) * c)
        r = sigmoid(self.linear("r", x) + self.vector("v_r", -0.2) * c)
        c = f * c + (1 - f) * self.linear("c", x)
        return r * tanh(c) + (1 - r) * x + 0.1 * h, c


CELLS = {"minGRU": MinGRU(), "highway": Highway()}
#: steps, rows, hidden size: units that threads can share, and ones that they cannot; slabs by the dozen; one row.
SHAPES = ((70, 3, 64), (9, 5, 40), (230, 1, 64), (3, 20, 64))


def calls(name: str) -> list[Call]:
    return [
        draw(
            CELLS[name],
            steps,
            rows,
            24,
            hidden,
            seed=number,
            lengths=ragged_lengths(steps, rows) if number % 2 == 0 else None,
            reverse=number > 1,
        )
        for number, (steps, rows, hidden) in enumerate(SHAPES)
    ]


@pytest.mark.parametrize("name", CELLS)
def test_results_and_gradients_are_those_of_the_loop(name: str) -> None:
    for number, call in enumerate(calls(name)):
        exact = by_loop(call)
        assert_agree(by_kernel(call, threads=2 + number % 2), exact, 1e-11)
        if number == 0:
            assert_agree_in_float32(call, 2, exact)


@pytest.mark.parametrize("name", CELLS)
def test_the_number_of_threads_changes_no_bit_where_threads_share_the_units(name: str) -> None:
    call = calls(name)[0]
    alone, together = by_kernel(call, 1), by_kernel(call, 2)
    for key, value in alone.items():
        assert torch.equal(value, together[key]), key
