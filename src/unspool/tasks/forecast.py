"""Forecasting: the next steps of series of numbers, as quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from unspool.data.corpus import PARTS
from unspool.data.forecasts import AR, seasonal_naive
from unspool.data.metrics import coverage, mae, pinball, rmse
from unspool.data.origins import Origins, inputs_at
from unspool.data.sequences import Rows
from unspool.data.series import Floats, Series
from unspool.data.tables import read_table
from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError
from unspool.tasks.examples import ExampleTask, digest_files
from unspool.tasks.forecast_data import ForecastPart, SeriesData, Terms, check_series, name_columns, read_named
from unspool.tasks.forecaster import Forecaster, ForecasterSettings

#: Past values that a line of a sample shows.
SHOWN = 3
#: What an autoregression must not reach: one of a short series may grow with every step of the horizon.
LARGEST = 1e100
#: The share of a Gaussian within one deviation.
WITHIN = 2 * NormalDist().cdf(1) - 1


class Forecasting(ExampleTask):
    """Learning what comes next. An answer is quantiles (horizon, targets, levels), scaled as the series are.

    Every origin of a part is an example: figures are those of rolling forecasts. The loss is the pinball loss in the
    unit of MASE, so that all series count alike.
    """

    name = "forecast"
    Data = SeriesData
    Model = ForecasterSettings
    defaults = {
        "training": {"steps": 1000, "window": "all", "rate": 3e-3, "weight_decay": 0.1, "average": "exponential"}
    }
    unit = "forecasts"

    def __init__(self, parts: Mapping[str, ForecastPart], terms: Terms, data: Any, **of: Any) -> None:
        super().__init__(parts, **of)
        self.terms, self.data = terms, data
        self._baselines: dict[str, dict[str, dict[str, float]]] = {}

    @classmethod
    def prepare(cls, data: SeriesData, seed: int) -> Self:
        table = read_table(data.files)
        named = name_columns(table, data)
        return cls.of(read_named(table, named), named, digest=digest_files(data.files), seed=seed)

    @classmethod
    def of(cls, series: Sequence[Series], data: SeriesData, **of: Any) -> Self:
        """From series that are in memory; `data` names as many targets and covariates as they have."""
        check_series(series, data)
        shortest = min(map(len, series))
        ahead = [data.count_steps(given, shortest) for given in (data.validation, data.test)]
        if not ahead[0]:
            raise DataError("there is nothing to validate on. Give `validation`, steps or a share above 0.")
        terms = Terms.find(series, data, Origins(series, data.look_back or 1, data.horizon, *ahead).ends())
        scaled = [terms.scaler.transform(one) for one in series]
        origins = Origins(scaled, terms.look_back, data.horizon, *ahead)
        parts = {
            name: ForecastPart(series, scaled, pairs, origins, terms, data.horizon)
            for name in PARTS
            if len(pairs := origins.pairs(name))
        }
        return cls(parts, terms, data, **of)

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: SeriesData) -> Self:
        terms = Terms.load(document)
        return cls({}, terms, data.model_copy(update={"time_column": terms.time, "targets": terms.targets}))

    def dump(self) -> dict[str, Any]:
        return self.terms.dump()

    def make_learner(self, settings: ForecasterSettings) -> Forecaster:
        terms, data = self.terms, self.data
        if settings.relative == "season" and terms.look_back < terms.season:
            problem = f"is less than the season ({terms.season}) to which forecasts are relative"
            remedy = f"Give {terms.season} or more, or season 1, or relative last"
            raise ArgumentError.of("look_back", terms.look_back, problem, remedy)
        targets, known = len(data.targets), len(data.known)
        seen = targets + len(data.unknown) + known
        return Forecaster(settings, data.quantiles, terms.season, targets, seen, known)

    def describe(self) -> Mapping[str, str]:
        terms, training = self.terms, self.parts["training"]
        lengths = sorted(map(len, training.series))
        count = "one series" if len(lengths) == 1 else f"{len(lengths):,} series"
        steps = f"{lengths[0]:,}" if lengths[0] == lengths[-1] else f"{lengths[0]:,} to {lengths[-1]:,}"
        sizes = ", ".join(f"{len(part.pairs):,} forecasts for {name}" for name, part in self.parts.items())
        season = f"a season has {terms.season}" if terms.season > 1 else "no season"
        asked = f"{self.data.horizon} steps of {', '.join(self.data.targets)} from {terms.look_back}; {season}"
        return {"data": f"{count} of {steps} steps ({terms.step} each); {sizes}", "forecast": asked}

    def read(self, source: Source, *, answers: bool = True) -> ForecastPart:
        return self.part(read_named(read_table(source), self.data), answers)

    def part(self, series: Sequence[Series], answers: bool = True) -> ForecastPart:
        """Every origin of series whose next steps are there too, or, without `answers`, the end of each series."""
        terms, horizon = self.terms, self.data.horizon
        check_series(series, self.data)
        if str(series[0].axis) != terms.step:
            raise DataError(
                f"the series {series[0].name!r} has a step of {series[0].axis}, and the model one of {terms.step}. "
                "Give series of the same step."
            )
        scaled = [terms.scaler.transform(one) for one in series]
        if answers:
            origins = Origins(scaled, terms.look_back, horizon)
            return ForecastPart(series, scaled, origins.pairs("training"), origins, terms, horizon)
        for one in scaled:
            inputs_at(one, len(one), terms.look_back, horizon)  # refuses what is too short
        pairs = np.array([(number, len(one)) for number, one in enumerate(series)], np.int64)
        return ForecastPart(series, scaled, pairs, None, terms, horizon)

    # ── what is read of the answers ──

    def figures(self, part: ForecastPart, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        said = np.stack([part.unscale(row, answer) for row, answer in zip(rows, answers, strict=True)])
        return self.measure(part, rows, said)

    def measure(self, part: ForecastPart, rows: Rows, said: Floats) -> dict[str, float]:
        """Figures of quantiles (rows, horizon, targets, levels), or of plain forecasts (rows, horizon, targets, 1)."""
        truth, scales = part.truth(rows), part.scales(rows)
        median = said[..., self.data.quantiles.index(0.5) if said.shape[-1] > 1 else 0]
        errors = (np.abs(truth - median) / scales[:, None]).mean((1, 2))
        owners = part.pairs[rows, 0]
        found = {
            "MASE": float(np.mean([errors[owners == one].mean() for one in np.unique(owners)])),
            "RMSE": rmse(truth, median),
            "MAE": mae(truth, median),
            "pinball": self._pinball(truth, said),
        }
        return found if said.shape[-1] == 1 else found | {"coverage": coverage(truth, said[..., 0], said[..., -1])}

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        """Forecasts without a network on a part; a plain one stands for all its quantiles."""
        if part not in self._baselines and part in self.parts:
            found, rows = self.parts[part], np.arange(len(self.parts[part].pairs))
            forecasts = {
                "persistence": self._naive(found, 1),
                **({"seasonal naive": self._naive(found, self.terms.season)} if self.terms.season > 1 else {}),
                "AR": self._regress(found),
            }
            self._baselines[part] = {
                name: {"loss": self._loss(found, rows, said), **self.measure(found, rows, said)}
                for name, said in forecasts.items()
                if (np.abs(said) < LARGEST).all()
            }
        return self._baselines.get(part, {})

    def _loss(self, part: ForecastPart, rows: Rows, said: Floats) -> float:
        """The learner's loss, of any forecasts."""
        scales = part.scales(rows)[:, None]
        return self._pinball(part.truth(rows) / scales, said / scales[..., None])

    def _pinball(self, truth: Floats, said: Floats) -> float:
        levels = self.data.quantiles
        return pinball(truth, np.broadcast_to(said, (*truth.shape, len(levels))), levels)

    def _naive(self, part: ForecastPart, season: int) -> Floats:
        rows = range(len(part.pairs))
        return np.stack([seasonal_naive(part.history(row, season), part.horizon, season) for row in rows])[..., None]

    @np.errstate(over="ignore", invalid="ignore")
    def _regress(self, part: ForecastPart) -> Floats:
        """Autoregressions, one for each target of each series, fitted before the end of its training part."""
        assert part.origins is not None
        levels = np.array([NormalDist().inv_cdf(quantile) for quantile in self.data.quantiles])
        said = np.empty((len(part.pairs), part.horizon, len(self.data.targets), len(levels)))
        for number, (one, end) in enumerate(zip(part.series, part.origins.ends(), strict=True)):
            for target in range(len(self.data.targets)):
                model = AR.fit(one.values[:end, target])
                order = max(len(model.coefficients), 1)
                low, high = model.interval(one.values[:end, target], part.horizon, WITHIN)
                for row in np.flatnonzero(part.pairs[:, 0] == number).tolist():
                    middle = model.forecast(part.history(row, order)[:, target], part.horizon)
                    said[row, :, target] = middle[:, None] + (high - low)[:, None] / 2 * levels
        return said

    # ── what people look at ──

    def show(self, part: ForecastPart, row: int, answer: Any) -> str:
        one, at = part.pairs[row]
        stamps = part.series[one].stamps(at, part.horizon)
        said, truth = part.unscale(row, answer), part.truth(np.array([row]))[0]
        middle = self.data.quantiles.index(0.5)
        lines = []
        for target in range(len(self.data.targets)):
            past = " ".join(map(_short, part.history(row, SHOWN)[:, target]))
            steps = []
            for step in sorted({0, part.horizon - 1}):
                low, median, high = (_short(said[step, target, place]) for place in (0, middle, -1))
                steps.append(f"{stamps[step]} {median} [{low}, {high}], was {_short(truth[step, target])}")
            lines.append(f"{past} → {' … '.join(steps)}")
        return f"{part.series[one].name}: {' · '.join(lines)}"

    def record(self, part: ForecastPart, row: int, answer: Any) -> dict[str, Any]:
        """A forecast as columns: an entry for each step and target."""
        one, at = part.pairs[row]
        targets, said = self.data.targets, part.unscale(row, answer).reshape(-1, len(self.data.quantiles))
        return {
            "series": [part.series[one].name] * len(said),
            "time": [stamp for stamp in part.series[one].stamps(at, part.horizon) for _ in targets],
            "target": [*targets] * part.horizon,
            **{f"q{level:g}": column.tolist() for level, column in zip(self.data.quantiles, said.T, strict=True)},
        }

    def predict(self, learner: Any, part: Any) -> Iterator[dict[str, Any]]:
        """A record for each step and target of each forecast."""
        for columns in super().predict(learner, part):
            for entries in zip(*columns.values(), strict=True):
                yield dict(zip(columns, entries, strict=True))


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
