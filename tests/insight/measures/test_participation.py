"""Participation of outputs whose covariance is known, and of every cell's against loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import LENGTHS, each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Linear
from unspool.insight.measures.participation import Participation, measure_participation
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    options = {} if lengths is None else {"lengths": lengths}
    return record(model, lambda model: loss_of(model(x, **options)[0]))


def shown(outputs: Tensor) -> Participation:
    """Of a layer that gives out what it reads."""
    width = outputs.shape[-1]
    layer: Any = Recurrent(Linear(), width, width, dtype=torch.float64)
    with torch.no_grad():
        layer.U_h.zero_()
        layer.W_h.copy_(torch.eye(width))
    return measure_participation(recorded(layer, outputs.double()))


def test_known_covariances() -> None:
    """Variances 4, 1, 1, 0 along the axes: (4 + 1 + 1)² / (16 + 1 + 1) = 2."""
    axes = torch.eye(4).double() * torch.tensor([2.0, 1.0, 1.0, 0.0])
    outputs = torch.cat([axes, -axes]).unsqueeze(1)
    found = shown(outputs)
    assert found.labels == ("layer 1",)
    assert found.size.tolist() == [4]
    assert found.ratio[0] == pytest.approx(2, rel=1e-12)
    np.testing.assert_allclose(found.spectrum[0], [4 / 6, 1 / 6, 1 / 6, 0], atol=1e-12)
    assert found.near_constant.tolist() == [0.25]


def test_the_ratio_does_not_depend_on_the_axes() -> None:
    spheres = torch.cat([torch.eye(5), -torch.eye(5)]).unsqueeze(1).double()
    turn = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    assert shown(spheres @ turn + 3).ratio[0] == pytest.approx(5, rel=1e-9)
    assert shown(spheres.sum(-1, keepdim=True) * turn[0]).ratio[0] == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("outputs", [torch.full((7, 3, 4), 0.1), torch.randn(1, 1, 4)], ids=["constant", "one place"])
def test_nothing_varies(outputs: Tensor) -> None:
    found = shown(outputs)
    assert found.ratio.tolist() == [0]
    assert found.spectrum[0].tolist() == [0] * 4
    assert found.near_constant.tolist() == [1]


def test_units_that_hardly_change() -> None:
    """By their own deviation, or beside the others."""
    wave = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
    small = torch.stack([wave, 0.9e-4 * wave, 1.1e-4 * wave + 5, wave], -1).unsqueeze(1)
    assert shown(small).near_constant.tolist() == [0.5]
    assert shown(small[..., 1:3]).near_constant.tolist() == [0.5]
    assert shown(1000 * small).near_constant.tolist() == [0.5]


def test_wide_layers_tell_the_first_directions() -> None:
    found = shown(torch.randn(200, 1, 80, generator=torch.Generator().manual_seed(0)))
    assert found.spectrum[0].shape == (64,)
    assert found.spectrum[0].sum() < 1
    assert found.size.tolist() == [80]


@each_cell
@pytest.mark.parametrize(("layers", "both", "lengths"), [(1, False, None), (2, True, LENGTHS)])
def test_every_cell_pair_by_pair(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    """(tr C)² / ‖C‖² with every entry of C from its definition."""
    recording = recorded(small_stack(cell, layers, both), small_input(cell), lengths)
    found = measure_participation(recording)
    for number, layer in enumerate(recording.layers):
        width = next(iter(layer.widths.values()))
        places = [layer.after[t, row, :width].tolist() for t, row in layer.live.nonzero().tolist()]
        means = [math.fsum(place[j] for place in places) / len(places) for j in range(width)]
        covariance = [
            [math.fsum((p[j] - means[j]) * (p[k] - means[k]) for p in places) / len(places) for k in range(width)]
            for j in range(width)
        ]
        trace = math.fsum(covariance[j][j] for j in range(width))
        assert found.size[number] == width
        assert found.ratio[number] == pytest.approx(trace**2 / math.fsum(v * v for row in covariance for v in row))
        spread = np.linalg.svd(np.array(places) - means, compute_uv=False) ** 2 / len(places) / trace
        np.testing.assert_allclose(found.spectrum[number], np.pad(spread, (0, width - len(spread))), atol=1e-9)
        variances = [covariance[j][j] for j in range(width)]
        # Beside the others, or by its own deviation: all outputs of an oscillator above another one, with short steps.
        still = [variance < 1e-6 * trace / width or math.sqrt(variance) < 1e-4 for variance in variances]
        assert found.near_constant[number] == np.mean(still)
