"""Forecasting: no look ahead, figures as they are defined, and every bad table refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.small_series import MODEL, learner, predictions, settings, size_of, small_task, wave
from tests.tensors import as_tensors

import unspool
from unspool.data.series import Series
from unspool.errors import ArgumentError, DataError, UnknownNameError
from unspool.runs.train import Trained
from unspool.settings.data import SeriesData
from unspool.tasks import metrics
from unspool.tasks.baselines.forecasts import AR, persistence, seasonal_naive
from unspool.tasks.forecast import Forecasting


@pytest.fixture
def task() -> Forecasting:
    return small_task()


class TestData:
    def test_nothing_after_training_is_learned_from(self) -> None:
        first = wave(60)
        changed = Series(
            "a",
            first.axis,
            first.moments,
            first.values.copy(),
            first.future_covariates.copy(),
            first.past_covariates.copy(),
        )
        for part in (changed.values, changed.future_covariates, changed.past_covariates):
            part[44:] *= 7  # validation begins here: 60 − 10 − 6
        one, other = (Forecasting.of([series], settings(season=None, lookback=None)) for series in (first, changed))
        assert one.dump() == other.dump()
        batches = [
            as_tensors(task.parts["training"].batch(np.arange(len(task.parts["training"].pairs))))
            for task in (one, other)
        ]
        assert all(torch.equal(a, b) for a, b in zip(*(batch.inputs for batch in batches), strict=True))
        assert torch.equal(batches[0].targets, batches[1].targets)

    def test_every_origin_of_every_part(self, task: Forecasting) -> None:
        origins = {name: part.pairs[:][part.pairs[:][:, 0] == 1, 1].tolist() for name, part in task.parts.items()}
        assert origins == {
            "training": list(range(8, 32)),  # the last foretells 31, 32, 33; 50 − 10 − 6 = 34
            "validation": list(range(34, 42)),
            "test": list(range(44, 48)),
        }

    def test_scales_are_those_of_the_training_part(self, task: Forecasting) -> None:
        values = wave(60).values[:44]
        np.testing.assert_allclose(task.terms.units["a"], np.abs(values[4:] - values[:-4]).mean(0), rtol=1e-12)
        np.testing.assert_allclose(task.terms.scales["a"].mean[:2], values.mean(0), rtol=1e-12)

    def test_shares_are_of_the_shortest_and_at_least_a_horizon(self) -> None:
        task = Forecasting.of([wave(60), wave(50, "b", 1)], settings(validation=0.2, test=0.01))
        assert [len(task.parts[name].pairs) for name in ("validation", "test")] == [2 * (10 - 2), 2 * (3 - 2)]

    def test_what_is_not_said_is_guessed(self) -> None:
        task = Forecasting.of([wave(60, noise=0.05)], settings(season=None, lookback=None))
        assert (task.terms.season, task.terms.lookback) == (4, 8)
        short = Forecasting.of([wave(24)], settings(lookback=None, validation=6, test=6))
        assert short.terms.lookback == 4  # half of 24 − 6 − 6 − 3, of which the other half are training's origins


class TestFigures:
    def test_as_metrics_has_them(self, task: Forecasting) -> None:
        part, model = task.parts["validation"], learner(task, shaken=True)
        rows = np.arange(len(part.pairs))
        found, y_pred, y_true = task.evaluate(model, "validation"), predictions(task, model, part), part.targets(rows)
        expected = []
        for one, end in ((0, 44), (1, 34)):
            own = part.pairs[:][:, 0] == one
            for target in range(2):
                history = part.series[one].values[:end, target]
                pair = y_true[own][..., target].ravel(), y_pred[own][..., target, 1].ravel()
                expected.append(metrics.mase(*pair, history, 4))
        assert found["MASE"] == pytest.approx(np.mean(expected), rel=1e-9)
        assert found["RMSE"] == pytest.approx(np.sqrt(np.mean((y_true - y_pred[..., 1]) ** 2)), rel=1e-9)
        assert found["MAE"] == pytest.approx(np.mean(np.abs(y_true - y_pred[..., 1])), rel=1e-9)
        assert found["coverage"] == np.mean((y_pred[..., 0] <= y_true) & (y_true <= y_pred[..., 2]))
        assert found["pinball"] == pytest.approx(metrics.pinball(y_true, y_pred, (0.1, 0.5, 0.9)), rel=1e-9)

    def test_baselines(self, task: Forecasting) -> None:
        part = task.parts["test"]
        rows = np.arange(len(part.pairs))
        y_true, found = part.targets(rows), task.baselines("test")
        pasts = [part.series[one].values[:at] for one, at in part.pairs]
        for name, y_pred in {
            "persistence": np.stack([persistence(past, 3) for past in pasts]),
            "seasonal naive": np.stack([seasonal_naive(past, 3, 4) for past in pasts]),
        }.items():
            assert found[name]["MAE"] == pytest.approx(np.abs(y_true - y_pred).mean(), rel=1e-12)
            assert found[name]["pinball"] == pytest.approx(found[name]["MAE"] / 2, rel=1e-12)  # the levels' mean is ½
            assert found[name]["loss"] == pytest.approx(found[name]["MASE"] / 2, rel=1e-12)
            assert "coverage" not in found[name]
        inside = []
        for row, (one, at) in enumerate(part.pairs):
            for target in range(2):
                values = part.series[one].values[:, target]
                model = AR.fit(values[: (44, 34)[one]])
                low, high = model.interval(values[:at], 3, 0.8)
                inside.append((low <= y_true[row, :, target]) & (y_true[row, :, target] <= high))
        assert found["AR"]["coverage"] == np.mean(inside)
        assert task.baselines() != found
        assert set(found["AR"]) == set(task.evaluate(learner(task), "test"))

    def test_an_autoregression_that_explodes_is_left_out(
        self, task: Forecasting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(AR, "fit", lambda values: AR(0.0, np.array([1e200]), 1.0))
        assert list(task.baselines()) == ["persistence", "seasonal naive"]

    def test_a_median_alone_has_no_interval(self) -> None:
        task = Forecasting.of([wave(60)], settings(quantiles=(0.5,)))
        found = task.evaluate(learner(task), "validation")
        assert "coverage" not in found
        assert found["pinball"] == pytest.approx(found["MAE"] / 2, rel=1e-12)

    def test_a_line_to_look_at(self, task: Forecasting) -> None:
        part = task.parts["test"]
        answer = task.infer(learner(task), part, np.arange(1))[1][0]
        line = task.show(part, 0, answer)
        past = " ".join(f"{value:.4g}" for value in wave(60).values[51:54, 0])
        naive, y_true = wave(60).values[50, 0], wave(60).values[54, 0]
        assert line.startswith(f"a: {past} → 54 {naive:.4g} [")
        assert f"], was {y_true:.4g} … 56 " in line


ROWS = [f"{2001 + month // 12}-{month % 12 + 1:02},{value:.3f}" for month, value in enumerate(wave(48).values[:, 0])]
SMALL: dict[str, Any] = {**MODEL, "horizon": 3, "validation": 8, "steps": 4, "eval_every": 4, "batch_size": 8}


def train_on(folder: Path, text: str, **changed: Any) -> Trained:
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return unspool.train(folder / "t.csv", out=folder / "run", task="forecast", **{**SMALL, **changed})


def refused(folder: Path, text: str, *essence: str, kind: type[Exception] = DataError, **changed: Any) -> None:
    with pytest.raises(kind) as error:
        train_on(folder, text, **changed)
    assert [part for part in essence if part not in str(error.value)] == []
    assert not (folder / "run").exists()


def table(rows: list[str], header: str = "month,y") -> str:
    return "\n".join([header, *rows]) + "\n"


class TestRefused:
    def test_a_number_that_is_none(self, tmp_path: Path) -> None:
        rows = [*ROWS[:20], f"{ROWS[20].split(',')[0]},nan", *ROWS[21:]]
        refused(tmp_path, table(rows), "t.csv, line 22", "`y` has no number within its series", "Fill it in")

    def test_rows_out_of_order(self, tmp_path: Path) -> None:
        rows = [*ROWS[:9], ROWS[10], ROWS[9], *ROWS[11:]]
        refused(tmp_path, table(rows), "t.csv, line 12", "2001-10 comes after 2001-11", "Sort the rows")

    def test_a_stamp_twice(self, tmp_path: Path) -> None:
        rows = [*ROWS[:5], *ROWS[4:]]
        refused(tmp_path, table(rows), "t.csv, line 7", "2001-05 is there twice", "Keep one row for each")

    def test_a_gap(self, tmp_path: Path) -> None:
        rows = [*ROWS[:5], *ROWS[7:]]
        refused(tmp_path, table(rows), "t.csv, line 7", "2001-08 is 3 steps after 2001-05", "Fill in the rows")

    def test_a_horizon_longer_than_the_series(self, tmp_path: Path) -> None:
        essence = "the series 'y' is too short", "48 steps", "horizon 60"
        refused(tmp_path, table(ROWS), *essence, horizon=60, validation=0.1)

    def test_a_look_back_longer_than_the_series(self, tmp_path: Path) -> None:
        refused(tmp_path, table(ROWS), "the series 'y' is too short", "48 steps", "lookback 90", lookback=90)

    def test_a_column_that_is_not_there(self, tmp_path: Path) -> None:
        text = table(ROWS, "month,sales")
        refused(tmp_path, text, "t.csv has no column 'slaes'", "Did you mean 'sales'?", target=["slaes"])
        refused(tmp_path, text, "t.csv has no column 'mnth'", "Did you mean 'month'?", time_column="mnth")
        refused(tmp_path, text, "t.csv has no column 'moth'", "Did you mean 'month'?", future_covariates=["moth"])
        refused(
            tmp_path,
            text,
            "t.csv has no column 'shop'",
            "It has: month, sales. Rename one, or give",
            series_column="shop",
        )

    def test_columns_that_cannot_be_guessed(self, tmp_path: Path) -> None:
        rows = [f"{row.replace('-', ' in ')},low,high" for row in ROWS]
        refused(tmp_path, table(rows, "m,a,b,c"), "which has the times is not clear", "with `time_column`")
        rows = [f"{row.split(',')[0]},low,high" for row in ROWS]
        refused(tmp_path, table(rows, "month,a,b"), "which has the values to forecast is not clear", "with `target`")

    def test_a_column_of_two_roles(self, tmp_path: Path) -> None:
        refused(
            tmp_path,
            table(ROWS),
            "'y' has two roles",
            "Name it once",
            kind=ArgumentError,
            target=["y"],
            future_covariates=["y"],
        )

    def test_one_constant_series_of_two(self, tmp_path: Path) -> None:
        rows = [f"{row},{name}" for name in "ab" for row in ROWS]
        rows[48:] = [f"{row.split(',')[0]},7,b" for row in ROWS]
        text = table(rows, "month,y,shop")
        refused(tmp_path, text, "the series 'b': `y` is constant", "Leave it out", series_column="shop")

    def test_a_series_that_repeats_itself(self, tmp_path: Path) -> None:
        rows = [f"{row.split(',')[0]},{place % 4}" for place, row in enumerate(ROWS)]
        refused(tmp_path, table(rows), "`y` is the same after every season of 4", "another `season`", season=4)

    def test_seasons_that_do_not_fit(self, tmp_path: Path) -> None:
        essence = "`season` (=40) is not less than the 40 training steps of 'y'", "Give less"
        refused(tmp_path, table(ROWS), *essence, kind=ArgumentError, season=40)
        essence = "`lookback` (=5) is less than the season (6)", "or `relative_to='last'`"
        refused(tmp_path, table(ROWS), *essence, kind=ArgumentError, season=6, lookback=5)

    def test_parts_that_are_too_small(self, tmp_path: Path) -> None:
        refused(tmp_path, table(ROWS), "no validation data", "Give `validation`", validation=0)
        refused(
            tmp_path, table(ROWS), "`validation` (=2) is less than the horizon (3)", kind=ArgumentError, validation=2
        )

    @pytest.mark.parametrize("levels", [[0.9, 0.5, 0.1], [0.1, 0.9], [0.5, 0.5], [0.0, 0.5], [0.5, 1.0], []])
    def test_quantiles(self, tmp_path: Path, levels: list[float]) -> None:
        refused(tmp_path, table(ROWS), "quantiles", kind=ArgumentError, quantiles=levels)

    def test_series_in_memory(self) -> None:
        bad = wave(60)
        bad.values[7, 1] = np.inf
        with pytest.raises(DataError, match="the series 'a': `v` is inf at step 7. Fill it in"):
            Forecasting.of([bad], settings())
        with pytest.raises(DataError, match="two series are called 'a'"):
            Forecasting.of([wave(60), wave(60)], settings())
        with pytest.raises(DataError, match=r"has values of shape \(60, 2\), and 1 targets are named"):
            Forecasting.of([wave(60)], settings(target=["u"]))
        with pytest.raises(DataError, match="there are no series"):
            Forecasting.of([], settings())

    def test_what_a_run_keeps_without_targets_is_refused(self) -> None:
        document = small_task().dump()
        broken: list[dict[str, Any]] = [{"targets": []}, {"units": {name: [] for name in document["units"]}}]
        for changed in broken:
            with pytest.raises(DataError, match=r"vocabulary\.json does not say how to read series"):
                Forecasting.restore({**document, **changed}, settings())

    def test_one_column_lacks_times(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("value\n1\n2\n3\n", encoding="utf-8")
        with pytest.raises(DataError, match="has one column only, 'value', and a series is times and values"):
            Forecasting.prepare(SeriesData(files=(str(tmp_path / "t.csv"),)), 0)


class TestRun:
    def test_a_run_foretells_from_the_end_of_a_file(self, tmp_path: Path) -> None:
        """With a learning rate of almost nothing, the forecast is the last season."""
        run = train_on(tmp_path, table(ROWS), season=4, lr=1e-12, test=6)
        document = json.loads((run.path / "vocabulary.json").read_text(encoding="utf-8"))
        assert isinstance(run.task, Forecasting)
        restored = Forecasting.restore(document, SeriesData(files=("-",), horizon=3))
        part = restored.read(tmp_path / "t.csv", targets=False)
        found = list(restored.predict(run.learner, part))
        assert [(one["series"], one["time"], one["target"]) for one in found] == [
            ("y", f"2005-0{month}", "y") for month in (1, 2, 3)
        ]
        last = [float(row.split(",")[1]) for row in ROWS[-4:-1]]
        np.testing.assert_allclose([one["q0.5"] for one in found], last, rtol=1e-5)
        past = np.array([[float(row.split(",")[1])] for row in ROWS[-restored.terms.lookback :]])
        gap = np.log(2) * size_of(restored, "y", past)[0]
        np.testing.assert_allclose([one["q0.9"] - one["q0.1"] for one in found], [2 * gap] * 3, rtol=1e-3)

    def test_other_files_are_measured_by_the_scales_of_training(self, task: Forecasting) -> None:
        restored = Forecasting.restore(json.loads(json.dumps(task.dump())), settings(time_column=None, target=()))
        model = learner(task, shaken=True)
        part = task.parts["test"]
        whole = restored.part([wave(60), wave(50, "b", 1)])
        rows = np.flatnonzero([[*pair] in part.pairs[:].tolist() for pair in whole.pairs[:]])
        _, found = restored.infer(model, whole, rows)
        expected = task.evaluate(model, "test")
        assert restored.metrics(whole, rows, found) == pytest.approx({k: expected[k] for k in expected if k != "loss"})

    def test_several_series_targets_and_a_known_future(self, task: Forecasting) -> None:
        model = learner(task, shaken=True)
        series = [wave(20, "b", 5, ahead=3), wave(30, "a", 6, ahead=9)]
        found = list(task.predict(model, task.part(series, targets=False)))
        assert [(one["series"], one["time"], one["target"]) for one in found] == [
            (name, str(first + step), target)
            for name, first in (("b", 20), ("a", 30))
            for step in range(3)
            for target in ("u", "v")
        ]
        alone = list(task.predict(model, task.part(series[1:], targets=False)))
        for one, other in zip(alone, found[6:], strict=True):
            assert [one[f"q{level}"] for level in (0.1, 0.5, 0.9)] == pytest.approx(
                [other[f"q{level}"] for level in (0.1, 0.5, 0.9)], rel=1e-5
            )

    def test_files_that_do_not_fit_the_model(self, task: Forecasting, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="needs 8 steps before it, and the series has 7. Give more of its past"):
            task.part([wave(7, ahead=3)], targets=False)
        with pytest.raises(DataError, match="`future_covariates` of 'a' end 1 steps before the forecast does"):
            task.part([wave(20, ahead=2)], targets=False)
        with pytest.raises(UnknownNameError, match="`series` .='c'. is not known"):
            task.part([wave(20, "c", ahead=3)], targets=False)
        text = table([f"2024-01-{day:02},{day},{day % 3},1,2" for day in range(1, 29)], "t,u,v,k,x")
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match="'u, v' has a step of 1 day, and the model one of 1"):
            task.read(tmp_path / "t.csv")
        with pytest.raises(DataError, match="vocabulary.json does not say how to read series"):
            Forecasting.restore({"units": {}}, settings())

    def test_training_beats_the_naive_forecasts(self, tmp_path: Path) -> None:
        """A trend and a season with noise: the trend is what the last season lacks, the season what the last value."""
        values = wave(160, noise=0.1).values[:, 0] + 0.4 * np.arange(160)
        rows = [f"{place},{value:.4f}" for place, value in enumerate(values)]
        changed = {"steps": 120, "eval_every": 60, "season": 4, "validation": 20, "test": 20, "lr": 0.02}
        run = train_on(tmp_path, table(rows, "t,y"), time_column="t", **changed)
        assert isinstance(run.task, Forecasting)
        rivals = run.task.baselines("test")
        assert run.finished.test["MASE"] < 0.5 * min(rivals[name]["MASE"] for name in ("persistence", "seasonal naive"))
        assert run.finished.test["coverage"] > 0.5
