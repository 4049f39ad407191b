"""Cells drawn at random: the kernel has the eager loop's values and gradients, whatever the equations and shapes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from tests.engine.agreement import Call, assert_agree, by_kernel, by_loop, needs_compiler
from tests.engine.random_cells import clear_call, random_cell

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling")]


def random_call(seed: int) -> Call:
    """A call of the seed's cell, its shape, lengths and direction drawn too."""
    random = Random(seed)
    steps, rows = random.randint(1, 6), random.choice((1, 2, 5, 13))
    widths = random.choice((1, 3, 8, 17)), random.choice((1, 3, 7, 8, 9, 17, 33))
    lengths = [random.randint(0, steps) for _ in range(rows)] if random.random() < 0.6 else None
    options: dict[str, Any] = {"lengths": lengths, "reverse": random.random() < 0.5, "bias": random.random() < 0.9}
    return clear_call(random_cell(seed), seed, steps, rows, *widths, **options)


def check(seed: int, both: bool = True) -> None:
    """In float64, and if asked in float32 too."""
    call = random_call(seed)
    exact = by_loop(call)
    threads = 1 + seed % 3
    assert_agree(by_kernel(call, threads), exact, 1e-11)
    if not both:
        return
    single = call.to(torch.float32)
    mine, other = by_kernel(single, threads), by_loop(single)
    # what float32 can do depends on the equations; the kernel may be off by little more than the loop itself is
    off = max((other[name].double() - value).abs().max().item() / _scale(value) for name, value in exact.items())
    assert_agree(mine, exact, 1e-5 + 4 * off)


def _scale(value: torch.Tensor) -> float:
    return max(1.0, value.abs().max().item())


@pytest.mark.parametrize("seed", range(8))
def test_kernel_equals_loop(seed: int) -> None:
    check(seed, both=seed % 2 == 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300))
def test_kernel_equals_loop_optimised(seed: int) -> None:
    check(seed)
