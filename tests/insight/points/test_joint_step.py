"""Linear steps of stacked layers against autograd, and the points of wide states against those of narrow ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unspool.insight.measures.fixed_points import find_points
from unspool.insight.points import counted_map, spectrum
from unspool.insight.points.spectrum import find_leading
from unspool.insight.points.system import find_systems
from unspool.insight.recording import record
from unspool.nn import Recurrent, Stack

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("options", [{}, {"residual": True}, {"skip": True}], ids=["plain", "residual", "skip"])
def test_joint_steps_are_autograds(cell: str, options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    widths = [4, 3, 2] if "skip" in options else 4
    model = Stack(cell, 4, widths, 3, dtype=torch.float64, **options)  # type: ignore[arg-type]
    data = torch.randn(3, 2, 4, dtype=torch.float64)
    (system,) = find_systems(record(model, lambda model: model(data)[0].sum()))
    assert len(system.layers) == 3
    x, states = torch.randn(1, 4, dtype=torch.float64), torch.randn(2, sum(system.widths), dtype=torch.float64)
    step = system.linear(x.expand(2, -1), states)
    found = step.jacobians()
    for row in range(2):

        def advance(state: Tensor) -> Tensor:
            return system.advance(x, state.unsqueeze(0))[0]

        torch.testing.assert_close(found[row], torch.autograd.functional.jacobian(advance, states[row]), **CLOSE)
    change = torch.randn_like(states)
    torch.testing.assert_close(step.push(change), (found @ change.unsqueeze(-1)).squeeze(-1), **CLOSE)
    torch.testing.assert_close(step.pull(change), (found.mT @ change.unsqueeze(-1)).squeeze(-1), **CLOSE)


def test_wide_states_have_the_points_of_narrow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """h = tanh(2 h), unit by unit but for a little, has 3 points per unit."""
    layer = Recurrent("elman", 1, 3, dtype=torch.float64)
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.copy_(2 * torch.eye(3) + 0.05 if name.startswith("U") else torch.zeros_like(value))
    (usual,) = find_points(layer, torch.zeros(1)).sets
    monkeypatch.setattr(counted_map, "WIDE", 2)
    monkeypatch.setattr(spectrum, "WIDE", 2)
    monkeypatch.setattr(spectrum, "LARGEST", 2)
    (wide,) = find_points(layer, torch.zeros(1)).sets
    assert len(wide.points) == len(usual.points) == 27
    distances = np.linalg.norm(usual.points[:, None] - wide.points, axis=-1)
    assert distances.min(1).max() < 1e-6
    same = distances.argmin(1)
    np.testing.assert_allclose(np.abs(wide.eigenvalues[same]), np.abs(usual.eigenvalues[:, :2]), rtol=1e-6)
    assert [wide.stable[place] for place in same] == list(usual.stable)


def test_leading_eigenvalues_are_approximated() -> None:
    generator = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(200, 200, dtype=torch.float64, generator=generator)).Q
    known = torch.linspace(1.4, 0.1, 200, dtype=torch.float64) ** 3
    values, vectors = find_leading(axes @ torch.diag(known) @ axes.T)
    order = values.abs().argsort(descending=True)[:8]
    torch.testing.assert_close(values[order].real, known[:8], rtol=1e-6, atol=0)
    assert float((axes[:, 0].to(vectors.dtype) @ vectors[:, order[0]]).abs()) == pytest.approx(1, abs=1e-6)


def test_products_that_reach_few_directions_end_early() -> None:
    matrix = torch.zeros(200, 200, dtype=torch.float64)
    matrix[0, 0] = 0.5
    values, vectors = find_leading(matrix)
    assert len(values) <= 3
    assert float(values.abs().max()) == pytest.approx(0.5)
    assert vectors.shape == (200, len(values))
