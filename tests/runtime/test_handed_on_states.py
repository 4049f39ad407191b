"""States that one step hands on as they are, by the equations: each is what another was, and not what it has become."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.cells import Skip
from unspool.engine import reference
from unspool.runtime.network import Recurrence
from unspool.runtime.recurrence import RecurrencePlayer


def test_a_state_that_is_handed_on_is_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    cell, random = Skip(span=3), np.random.default_rng(0)
    equations = cell.equations(bias=True)
    parameters = {name: random.standard_normal(shape) for name, shape in equations.shapes(2, 4).items()}
    x = random.standard_normal((6, 3, 2))
    found, final = RecurrencePlayer(Recurrence(equations, 2, 4, False, parameters, None)).run(x)
    expected, states, _ = reference.run(cell, parameters, x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    for one, other in zip(final, states, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
