"""Small series, a task on them, and its models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unspool.data.series import Series
from unspool.data.times import TimeAxis
from unspool.tasks.forecast import Forecasting
from unspool.tasks.forecast_data import ForecastPart, SeriesData
from unspool.tasks.forecaster import Forecaster, ForecasterSettings

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
    columns = {"targets": ("u", "v"), "known": ("k",), "unknown": ("x",), "time_column": "t"}
    steps = {"horizon": 3, "look_back": 8, "season": 4, "validation": 10, "test": 6}
    return SeriesData.model_validate({"files": ("-",), **columns, **steps, **changed})


def small_task() -> Forecasting:
    """Two series."""
    return Forecasting.of([wave(60), wave(50, "b", 1)], settings())


def learner(task: Forecasting, *, shaken: bool = False, **changed: Any) -> Forecaster:
    """A fresh model; shaken, it has no zeros."""
    torch.manual_seed(0)
    found = task.make_learner(ForecasterSettings.model_validate({**MODEL, **changed}))
    if shaken:
        for parameter in found.parameters():
            torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return found.eval()


def answers(task: Forecasting, model: Forecaster, part: ForecastPart) -> np.ndarray:
    """Quantiles (rows, horizon, targets, levels) in the series' own units."""
    _, found = task.ask(model, part, np.arange(len(part.pairs)))
    return np.stack([part.unscale(row, answer) for row, answer in enumerate(found)])


def size_of(task: Forecasting, name: str, past: np.ndarray) -> np.ndarray:
    """What differences to a past (steps, targets) are divided by, in its own units."""
    found: np.ndarray = np.sqrt(past.var(0) + (0.1 * task.terms.scales[name]) ** 2)
    return found
