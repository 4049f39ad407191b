"""Forecasting on many files: the bits of the same data in memory, in training, evaluation and when it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from unspool.data.series import Series
from unspool.data.stored_series import StoredSeries
from unspool.errors import DataError
from unspool.learning.files import read_tensors
from unspool.runs.train import train
from unspool.settings.data import SeriesData
from unspool.tasks import examples, forecast, forecast_shards
from unspool.tasks.forecast import Forecasting

SMALL: dict[str, Any] = {"horizon": 2, "lookback": 4, "season": 3, "validation": 4, "series_column": "series"}
TINY: dict[str, Any] = {"engine": "torch", "hidden": 4, "batch_size": 8, "eval_every": 1000}


def make_table(names: range, steps: range) -> pl.DataFrame:
    """Series with a season of three, in long form."""
    rows = [(f"s{name}", step, np.sin(step * 2.1) * (1 + name) + step % 3 + name) for step in steps for name in names]
    return pl.DataFrame(rows, schema=["series", "time", "value"], orient="row")


def write(folder: Path, *tables: pl.DataFrame) -> Path:
    folder.mkdir()
    for number, table in enumerate(tables):
        table.write_parquet(folder / f"shard-{number}.parquet")
    return folder


def prepare(folder: Path) -> Forecasting:
    return Forecasting.prepare(SeriesData(files=(str(folder),), **SMALL), seed=0)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every folder of several files is stored, in a cache of its own."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(forecast_shards, "LARGE", 0)


def assert_equal(one: Series, other: Series) -> None:
    assert (one.name, one.axis) == (other.name, other.axis)
    for part in ("moments", "values", "future_covariates", "past_covariates"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize("by", ["series", "time", "both"])
def test_stored_series_are_those_of_one_table(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way the rows are divided among files."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    tables = {
        "series": [make_table(range(3), range(20)), make_table(range(3, 5), range(20))],
        "time": [make_table(range(5), range(9)), make_table(range(5), range(9, 20))],
        "both": [
            make_table(range(3), range(20)),
            *(make_table(range(3, 5), part) for part in (range(9), range(9, 20))),
        ],
    }
    folder = write(tmp_path / "shards", *tables[by])
    expected = prepare(folder)
    monkeypatch.setattr(forecast_shards, "LARGE", 0)
    found = prepare(folder)
    series = found.parts["training"].series
    assert isinstance(series, StoredSeries)
    assert len(series) == 5
    by_name = {one.name: one for one in expected.parts["training"].series}
    for one in series:
        assert_equal(one, by_name[one.name])
    assert found.describe() == expected.describe()
    assert found.baselines() == expected.baselines()


def test_a_run_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    folder = write(tmp_path / "shards", make_table(range(3), range(20)), make_table(range(3, 5), range(20)))
    train(folder, out=tmp_path / "memory", task="forecast", steps=9, **SMALL, **TINY)
    monkeypatch.setattr(forecast_shards, "LARGE", 0)
    train(folder, out=tmp_path / "stored", task="forecast", steps=9, **SMALL, **TINY)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("memory", "stored")]
    assert weights[0] == weights[1]


@pytest.mark.usefixtures("stored")
def test_a_run_resumes_within_an_epoch_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MANY", 0)  # the order of examples is computed
    folder = write(tmp_path / "shards", make_table(range(3), range(20)), make_table(range(3, 5), range(20)))
    settings = {**SMALL, **TINY, "schedule": "constant", "warmup": 0}  # do not depend on the number of steps
    whole = train(folder, out=tmp_path / "whole", task="forecast", steps=7, **settings)
    train(folder, out=tmp_path / "cut", task="forecast", steps=3, **settings)
    resumed = train(out=tmp_path / "cut", resume=True, steps=7)
    assert whole.finished.validation == resumed.finished.validation
    weights = [read_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "cut")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.usefixtures("stored")
def test_metrics_of_many_forecasts_are_those_of_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unspool.models.catalogue import make_learner
    from unspool.settings.model import ForecasterSettings

    task = prepare(write(tmp_path / "shards", make_table(range(4), range(20)), make_table(range(4, 7), range(25))))
    learner = make_learner(task, ForecasterSettings(hidden=4))
    part = task.parts["training"]
    expected = task.evaluate_part(learner, part)
    monkeypatch.setattr(forecast, "TOGETHER", 13)
    assert task.evaluate_part(learner, part) == pytest.approx(expected)
    cuts = list(part.cut(13))
    assert len(cuts) > 2
    np.testing.assert_array_equal(np.concatenate(cuts), np.arange(len(part.pairs)))


@pytest.mark.usefixtures("stored")
def test_baselines_of_many_series_are_those_of_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "shards", make_table(range(4), range(20)), make_table(range(4, 7), range(20)))
    monkeypatch.setattr(forecast, "MOST_BASELINES", 2)
    some = write(tmp_path / "some", make_table(range(1), range(20)), make_table(range(6, 7), range(20)))
    assert prepare(folder).baselines() == prepare(some).baselines()


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("second", "message"),
    [
        (make_table(range(5), range(10, 20)), "is in several files"),
        (make_table(range(5), range(8, 20)), "is in several files"),
        (make_table(range(5), range(9, 20)).rename({"value": "other"}), "shard-1.parquet"),
        (make_table(range(5), range(9, 20)).with_columns(time=pl.col("time").cast(pl.String) + ".5"), "'s0'"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(second: pl.DataFrame, message: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "shards", make_table(range(5), range(9)), second)
    with pytest.raises(DataError, match=message):
        prepare(folder)


@pytest.mark.usefixtures("stored")
def test_stored_series_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "shards", make_table(range(3), range(20)), make_table(range(3, 5), range(20)))
    prepare(folder)

    def refuse(*_: object) -> None:
        raise AssertionError("it is stored already")

    monkeypatch.setattr(forecast_shards, "read_named", refuse)
    prepare(folder)
