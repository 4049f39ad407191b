"""What the loss needs, against least squares on data whose need is known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from unspool.insight.measures.need import Need, measure_need
from unspool.insight.recording import record


def needed(model: nn.Module, x: Tensor, y: Tensor, skip: int = 0) -> Need:
    """The need of a squared error between the first output and y, from step `skip` on."""
    return measure_need(record(model, lambda model: (model(x)[0][skip:, :, :1] - y[skip:]).square().mean()))


def delayed(lag: int, steps: int = 60, rows: int = 16, kept: float = 0.0) -> tuple[Tensor, Tensor]:
    """Inputs with some autocorrelation, and the first feature of `lag` steps ago."""
    x = torch.randn(steps, rows, 3, generator=torch.Generator().manual_seed(0))
    for step in range(1, steps):
        x[step] = kept * x[step - 1] + (1 - kept**2) ** 0.5 * x[step]
    y = torch.zeros(steps, rows, 1)
    y[lag:] = x[: steps - lag, :, :1]
    return x, y


def gru() -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(3, 8)


def test_an_input_that_is_missed_is_found() -> None:
    for kept in (0.0, 0.9):
        found = needed(gru(), *delayed(25, kept=kept), skip=25)
        assert found.known
        assert found.strongest == 25
        assert found.explained[24] > 0.3 > found.chance


def test_against_least_squares() -> None:
    """The adjusted part of the variance that one more predictor explains, by plain regression."""
    x, y = delayed(25, rows=40)
    model = gru()
    found = needed(model, x, y, skip=25)
    with torch.no_grad():
        h = model(x)[0]
    error = (h[..., :1] - y)[25:].transpose(0, 1).reshape(-1).double().numpy()

    def lagged(values: Tensor, lag: int) -> np.ndarray:
        return values[25 - lag : 60 - lag].transpose(0, 1).reshape(len(error), -1).double().numpy()

    known = np.concatenate([np.ones((len(error), 1)), lagged(h, 0), lagged(x, 0), lagged(x, 1)], 1)
    whole = np.concatenate([known, lagged(x, 25)], 1)
    left = [np.square(error - table @ np.linalg.lstsq(table, error)[0]).sum() for table in (known, whole)]
    expected = 1 - left[1] / left[0] * (len(error) - known.shape[1] - 1) / (len(error) - whole.shape[1] - 1)
    np.testing.assert_allclose(found.explained[24], expected, rtol=1e-6)


def test_what_is_remembered_or_not_needed_is_no_need() -> None:
    x, _ = delayed(1)
    noise = torch.randn(60, 16, 1, generator=torch.Generator().manual_seed(1))
    assert needed(gru(), x, noise).furthest == 0
    assert needed(gru(), x, x[..., :1]).furthest == 0


def test_too_little_is_not_known() -> None:
    x, y = delayed(1, steps=6, rows=2)
    assert not needed(gru(), x, y).known
    constant = record(gru(), lambda model: model(delayed(1)[0])[0].sum())
    assert not measure_need(constant).known
