"""Cells of the literature: each against its paper's equations, written again in torch, by kernel, loop and player."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engine.agreement import Call, Values, assert_agree, by_kernel, by_loop, draw, needs_kernels, with_gradients
from tests.oracles.published import STEPS, run
from tests.variants import PUBLISHED

from unspool.cells import CATALOGUE
from unspool.engine import run as run_in_numpy

each_published = pytest.mark.parametrize("name", PUBLISHED)

#: States that a cell takes as logarithms or divides by are drawn where it leaves them: normalizers are positive.
POSITIVE = {"slstm": ("n",)}


def draw_call(name: str) -> Call:
    """A call in float64 with states that the cell can have."""
    call = draw(CATALOGUE[name](), 6, 3, 3, 8)
    states = zip(call.layer.equations.states, call.states, strict=True)
    positive = POSITIVE.get(name, ())
    drawn = (part.detach().abs() + 0.5 if state in positive else part.detach() for state, part in states)
    return replace(call, states=tuple(part.requires_grad_() for part in drawn))


def by_paper(name: str, call: Call) -> Values:
    """Results and gradients by the equations of the paper."""
    return with_gradients(call, *run(STEPS[name], call.layer.cell_parameters(), call.x, call.states))


def test_every_published_cell_has_an_oracle() -> None:
    assert set(STEPS) == set(PUBLISHED)


@each_published
def test_the_loop_is_the_paper(name: str) -> None:
    call = draw_call(name)
    assert_agree(by_loop(call), by_paper(name, call), 1e-12)


@needs_kernels
@pytest.mark.usefixtures("compiling")
@each_published
def test_the_kernel_is_the_paper(name: str) -> None:
    call = draw_call(name)
    assert_agree(by_kernel(call), by_paper(name, call), 1e-11)


@each_published
def test_numpy_is_the_paper(name: str) -> None:
    call = draw_call(name)
    parameters = {key: value.detach().numpy() for key, value in call.layer.cell_parameters().items()}
    states = tuple(state.detach().numpy() for state in call.states)
    found, final, _ = run_in_numpy(call.layer.cell, parameters, call.x.detach().numpy(), states)
    expected, ends = run(STEPS[name], call.layer.cell_parameters(), call.x, call.states)
    np.testing.assert_allclose(found, expected.detach(), rtol=0, atol=1e-12)
    for one, other in zip(final, ends, strict=True):
        np.testing.assert_allclose(one, other.detach(), rtol=0, atol=1e-12)
