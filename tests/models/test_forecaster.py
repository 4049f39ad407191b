"""The forecaster: naive at first, quantiles in order, and all of it by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tasks.small_series import learner, predictions, size_of, small_task
from tests.tensors import as_tensors

from unspool.models.forecaster import spread
from unspool.tasks import metrics
from unspool.tasks.baselines.forecasts import seasonal_naive
from unspool.tasks.batch import Batch, Window
from unspool.tasks.forecast import Forecasting


@pytest.fixture
def task() -> Forecasting:
    return small_task()


def test_a_wave_of_twice_the_height_has_twice_the_forecast(task: Forecasting) -> None:
    model = learner(task, shaken=True)
    batch = as_tensors(task.parts["validation"].batch(np.arange(6)))
    past, future, unit = batch.inputs
    doubled = torch.cat((1 + 2 * past[..., :2], past[..., 2:]), -1)
    found, twice = (
        model.score(Batch(Window(*window), batch.lengths, None, 6)).levels[-1]
        for window in ((past, future, unit), (doubled, future, 2 * unit))
    )
    torch.testing.assert_close(twice, 1 + 2 * found)


@pytest.mark.parametrize(("relative", "season"), [("season", 4), ("last", 1)])
def test_before_training_the_median_is_the_naive_forecast(task: Forecasting, relative: str, season: int) -> None:
    part = task.parts["validation"]
    found = predictions(task, learner(task, relative_to=relative), part)
    for row, (one, at) in enumerate(part.pairs):
        expected = seasonal_naive(part.series[one].values[:at], 3, season)
        np.testing.assert_allclose(found[row, ..., 1], expected, rtol=1e-5)
        gap = np.log(2) * size_of(task, part.series[one].name, part.series[one].values[at - 8 : at])  # softplus(0)
        np.testing.assert_allclose(found[row, ..., 2] - expected, np.broadcast_to(gap, (3, 2)), rtol=1e-3)


def test_before_training_a_value_that_is_relative_to_nothing_is_the_mean(task: Forecasting) -> None:
    part = task.parts["test"]
    found = predictions(task, learner(task, relative_to="none"), part)[part.pairs[:][:, 0] == 0]
    expected = part.series[0].values[:44].mean(0)
    np.testing.assert_allclose(found[..., 1], np.broadcast_to(expected, found.shape[:-1]), rtol=1e-12)


def test_quantiles_by_hand() -> None:
    raw = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    soft = [np.log1p(np.exp(value)) for value in (1.0, -2.0, 3.0)]
    expected = [0.5 - soft[1] - soft[0], 0.5 - soft[1], 0.5, 0.5 + soft[2]]
    np.testing.assert_allclose(spread(raw, 2), expected, rtol=1e-12)


def test_quantiles_never_cross(task: Forecasting) -> None:
    model = learner(task, shaken=True)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=5.0)
    assert (np.diff(predictions(task, model, task.parts["validation"]), axis=-1) >= 0).all()


def test_the_loss_is_the_pinball_loss_in_units_of_mase(task: Forecasting) -> None:
    part, model = task.parts["test"], learner(task, shaken=True)
    loss, _ = task.infer(model, part, np.arange(len(part.pairs)))
    units = np.stack([task.terms.units[part.series[one].name] for one in part.pairs[:][:, 0]])[:, None]
    y_true, y_pred = part.targets(np.arange(len(part.pairs))), predictions(task, model, part)
    expected = metrics.pinball(y_true / units, y_pred / units[..., None], (0.1, 0.5, 0.9))
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reader", ["recurrent", "bag", "fcn", "cnn"])
def test_known_covariates_are_read_step_by_step(task: Forecasting, reader: str) -> None:
    """A recurrent decoder hands a step's covariates on, never back; one without memory keeps them to the step."""
    model = learner(task, shaken=True, backbone=reader)
    batch = as_tensors(task.parts["validation"].batch(np.arange(2)))
    window = batch.inputs
    future = window.future.clone()
    future[1] += 1
    before, after = (
        model.score(Batch(Window(window.past, one, window.unit), batch.lengths, None, 2)).levels[-1]
        for one in (window.future, future)
    )
    changed = (before != after).flatten(1).any(1).tolist()
    assert changed == [False, True, reader == "recurrent"]


def test_by_hand(task: Forecasting) -> None:
    """Two GRUs of torch.nn, and a product."""
    model = learner(task, shaken=True, cell="gru-reset-after", relative_to="last")
    batch = as_tensors(task.parts["test"].batch(np.arange(4)))
    past, future, unit = batch.inputs
    encoder, decoder, head = torch.nn.GRU(4, 6), torch.nn.GRU(6 + 1 + 1, 6), torch.nn.Linear(6, 2 * 3)
    weights = list(model.parameters())
    by_hand = [*encoder.parameters(), *decoder.parameters(), *head.parameters()]
    for own, parameter in zip(by_hand, weights, strict=True):
        own.data.copy_(parameter.data)
    size = (past[..., :2].var(0, correction=0) + 0.01 * unit**2).sqrt()
    _, final = encoder(torch.cat([(past[..., :2] - past[-1, :, :2]) / size, past[..., 2:]], -1))
    place = torch.tensor([1 / 3, 2 / 3, 1.0])[:, None, None].expand(3, 4, 1)
    steps, _ = decoder(torch.cat([final.expand(3, 4, 6), place, future], -1))
    raw = head(steps).view(3, 4, 2, 3)
    median = past[-1, :, :2] + size * raw[..., 1]
    found = model.score(batch).levels[-1]
    torch.testing.assert_close(found[..., 1], median)
    torch.testing.assert_close(found[..., 0], median - size * torch.nn.functional.softplus(raw[..., 0]))


def test_layers_below_have_losses_of_their_own(task: Forecasting) -> None:
    model = learner(task, shaken=True, layers=2, deep_supervision=0.5, engine="kernel")
    batch = as_tensors(task.parts["validation"].batch(np.arange(5)))
    scores = model.score(batch).levels
    outcome = model(batch)
    assert outcome.extra is not None
    torch.testing.assert_close(outcome.loss, model.summed_loss(scores[1], batch) / 5)
    torch.testing.assert_close(outcome.extra, 0.5 * model.summed_loss(scores[0], batch) / 5)
