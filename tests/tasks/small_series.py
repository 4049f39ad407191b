"""Small series, a task on them, and its models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool.data.series import Series
from unspool.data.times import TimeAxis
from unspool.models.catalogue import make_learner
from unspool.models.forecaster import Forecaster
from unspool.settings.data import SeriesData
from unspool.settings.model import ForecasterSettings
from unspool.tasks.forecast import Forecasting
from unspool.tasks.forecast_data import ForecastPart

MODEL: dict[str, Any] = {"hidden": 6, "engine": "torch"}


def wave(steps: int, name: str = "a", seed: int = 0, ahead: int = 0, noise: float = 0.3) -> Series:
    """Two targets with a season of 4 and a trend, one covariate known ahead, one that is not."""
    chance = np.random.default_rng(seed)
    t = np.arange(steps + ahead)
    values = np.stack([10 + 0.1 * t + np.sin(np.pi * t / 2), 500 - 30 * np.cos(np.pi * t / 2)], axis=1)
    values = (values + noise * chance.normal(size=values.shape) * [1, 30])[:steps]
    known, unknown = chance.normal(size=(steps + ahead, 1)), chance.normal(size=(steps, 1))
    return Series(name, TimeAxis("number", "fixed", 1), t, values, known, unknown)


def settings(**changed: Any) -> SeriesData:
    """Of what `wave` gives."""
    columns = {"target": ("u", "v"), "future_covariates": ("k",), "past_covariates": ("x",), "time_column": "t"}
    steps = {"horizon": 3, "lookback": 8, "season": 4, "validation": 10, "test": 6}
    return SeriesData.model_validate({"files": ("-",), **columns, **steps, **changed})


def small_task() -> Forecasting:
    """Two series."""
    return Forecasting.of([wave(60), wave(50, "b", 1)], settings())


def learner(task: Forecasting, *, shaken: bool = False, **changed: Any) -> Forecaster:
    """A new model; shaken, it has no zeros."""
    torch.manual_seed(0)
    found = make_learner(task, ForecasterSettings.model_validate({**MODEL, **changed}))
    if shaken:
        for parameter in found.parameters():
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return found.eval()


def predictions(task: Forecasting, model: Forecaster, part: ForecastPart) -> np.ndarray:
    """Quantiles (examples, horizon, targets, levels) in the units of the series."""
    _, found = task.infer(model, part, np.arange(len(part.pairs)))
    return np.stack([part.unscale(index, one) for index, one in enumerate(found)])


def size_of(task: Forecasting, name: str, past: np.ndarray) -> np.ndarray:
    """What differences to a past (steps, targets) are divided by, in its own units."""
    found: np.ndarray = np.sqrt(past.var(0) + (0.1 * task.terms.units[name]) ** 2)
    return found
