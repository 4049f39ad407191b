"""Estimated spectral radii against those of NumPy's eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from unspool.nn.spectral import Linearized, estimate_radii


def spectrum(J: Tensor) -> Tensor:
    return estimate_radii(Linearized(lambda z: (J @ z.unsqueeze(-1)).squeeze(-1), torch.zeros(J.shape[:2]).to(J)))


def test_estimated_radii() -> None:
    rng = np.random.default_rng(0)
    nilpotent = np.triu(rng.normal(size=(6, 6)), 1)
    S = rng.normal(size=(6, 6))
    matrices = [np.zeros((6, 6)), nilpotent, S @ nilpotent @ np.linalg.inv(S), np.eye(6), np.diag([1, -1, 0, 0, 0, 0])]
    matrices += [rng.normal(size=(6, 6)) for _ in range(20)]
    exact = np.array([abs(np.linalg.eigvals(J)).max() for J in matrices])
    exact[:3] = 0
    estimate = spectrum(torch.from_numpy(np.stack(matrices)).to(torch.float64)).numpy()
    assert np.all(estimate[:2] == 0)
    assert estimate[2] < 0.1  # an eigenvalue of a 6-fold Jordan block is known up to the sixth root of ε
    np.testing.assert_allclose(estimate[3:], exact[3:], rtol=0.05)


@pytest.mark.parametrize("width", [32, 128])
def test_estimated_radii_of_wide_layers_are_never_far_below(width: int) -> None:
    J = torch.randn(8, width, width, dtype=torch.float64, generator=torch.Generator().manual_seed(width))
    J[:2] = torch.linalg.qr(J[:2])[0]
    exact = torch.linalg.eigvals(J).abs().amax(-1)
    assert bool((spectrum(J) > 0.93 * exact).all())
