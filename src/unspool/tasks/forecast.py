"""Forecasting: the next steps of series of numbers, as quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unspool.data.corpus import PARTS
from unspool.data.glance import Glance
from unspool.data.memory import check_list, count_steps, read_array
from unspool.data.origins import Origins, Pairs, inputs_at
from unspool.data.seasons import Steps, follow_memory
from unspool.data.sequences import Indices
from unspool.data.series import Floats, Series, refuse_far, standardize
from unspool.data.stored_series import series_lengths
from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError, ShapeError
from unspool.tasks.baselines.forecasts import AR, seasonal_naive
from unspool.tasks.contract import Claim, Proposal, TrainingSequences, Usage
from unspool.tasks.examples import ExampleTask, digest_files
from unspool.tasks.forecast_columns import (
    claim_wide,
    explain_columns,
    has_labels,
    name_columns,
    name_settings,
    read_named,
    read_series_table,
)
from unspool.tasks.forecast_data import (
    ForecastPart,
    Terms,
    check_series,
    choose_horizon,
    held_out_steps,
    longest_lookback,
)
from unspool.tasks.forecast_shards import WeightedMean, is_large, standardize_all, store_shards
from unspool.tasks.label_lists import list_some
from unspool.tasks.metrics import coverage, mae, pinball, rmse
from unspool.tasks.plain_settings import with_changes

if TYPE_CHECKING:
    from unspool.settings.data import SeriesData
    from unspool.settings.training import Training

#: Past values that a line of a sample shows.
SHOWN = 3
#: Forecasts that are evaluated at a time.
TOGETHER = 1 << 14
#: Series on which forecasts without a network are measured at most: each has an autoregression of its own.
MOST_BASELINES = 1000
#: Forecasts of an autoregression that reach this are left out: that of a short series may explode over the horizon.
LARGEST = 1e100
#: The probability of a Gaussian within one standard deviation.
WITHIN = 2 * NormalDist().cdf(1) - 1


class Forecasting(ExampleTask):
    """Learning the next steps of series. A prediction is quantiles (horizon, targets, levels), standardized.

    Every origin of a part is an example: metrics are those of rolling forecasts. The loss is the pinball loss in the
    unit of MASE, so that all series count alike.

    Example:
        task = Forecasting.prepare(SeriesData(files=("co2.csv",), horizon=12), seed=0)
        model = make_learner(task, ForecasterSettings())
        task.evaluate(model, "validation")["MASE"]
    """

    name = "forecast"
    unit = "forecasts"

    def __init__(self, parts: Mapping[str, ForecastPart], terms: Terms, data: Any, **of: Any) -> None:
        super().__init__(parts, **of)
        self.terms, self.data = terms, data
        self._baselines: dict[str, dict[str, dict[str, float]]] = {}

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        given = glance.settings
        if not glance.is_table or {"id_column", "text_column", "features"} & {*given}:
            return None
        if "target" in given and "time_column" in given:
            return Claim(60, f"`target` is {given['target']}")
        targets = given.get("target", ())
        names = [targets] if isinstance(targets, str) else targets
        if not given.keys() & {"target", "time_column", "series_column"} and (wide := claim_wide(glance)):
            return wide
        found = glance.roles.find_series(given.get("time_column"), given.get("series_column"), names)
        if found is None or has_labels(glance, found):
            return None
        return Claim(55 if targets else 30, explain_columns(glance, found), name_settings(found))

    @classmethod
    def prepare(cls, data: SeriesData, seed: int) -> Self:
        digest = digest_files(data.files)
        if is_large(data.files):
            series, named = store_shards(data, digest)
            return cls.of(series, named, digest=digest, seed=seed)
        table, data = read_series_table(data.files, data)
        named = name_columns(table, data)
        return cls.of(read_named(table, named), named, digest=digest, seed=seed)

    @classmethod
    def of(cls, series: Sequence[Series], data: SeriesData, **of: Any) -> Self:
        """From series in memory; `data` names as many targets and covariates as they have."""
        check_series(series, data)
        horizon = choose_horizon(series, data)
        data = with_changes(data, {"horizon": horizon.steps})
        shortest = int(series_lengths(series).min())
        ahead = held_out_steps(data, shortest)
        if not ahead[0]:
            raise DataError("there is no validation data. Give `validation`: steps, or a fraction above 0.")
        ends = Origins(series, data.lookback or 1, horizon.steps, *ahead).ends()
        terms = Terms.find(series, data, ends, horizon)
        scaled = standardize_all(series, terms.scales)
        origins = Origins(scaled, terms.lookback, terms.horizon, *ahead)
        parts = {
            name: ForecastPart(series, scaled, pairs, origins, terms)
            for name in PARTS
            if len(pairs := origins.pairs(name))
        }
        return cls(parts, terms, data, **of)

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: SeriesData) -> Self:
        terms = Terms.load(document)
        width = len(terms.targets) + len(data.past_covariates) + len(data.future_covariates)
        if any(len(scale.mean) != width for scale in terms.scales.values()):
            raise DataError(
                f"the run's vocabulary.json has scales that are not of {width} columns. Take the run's own."
            )
        columns = {"time_column": terms.time, "series_column": terms.series, "target": terms.targets}
        return cls({}, terms, with_changes(data, {**columns, "horizon": terms.horizon}))

    def dump(self) -> dict[str, Any]:
        return self.terms.dump()

    @property
    def input_columns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.terms.time, *self.terms.targets)))

    def describe(self) -> Mapping[str, str]:
        terms, training = self.terms, self.parts["training"]
        lengths = sorted(series_lengths(training.series).tolist())
        count = "one series" if len(lengths) == 1 else f"{len(lengths):,} series"
        steps = f"{lengths[0]:,}" if lengths[0] == lengths[-1] else f"{lengths[0]:,} to {lengths[-1]:,}"
        sizes = ", ".join(f"{len(part.pairs):,} forecasts for {name}" for name, part in self.parts.items())
        return {
            "data": f"{count} of {steps} steps ({terms.step} each); {sizes}",
            "forecast": _describe_terms(terms),
        }

    def read(self, source: Source, *, targets: bool = True) -> ForecastPart:
        return self.part(read_named(*read_series_table(source, self.data)), targets)

    def part(self, series: Sequence[Series], targets: bool = True) -> ForecastPart:
        """Every origin of series whose next steps are known, or, without `targets`, the end of each series."""
        check_series(series, self.data)
        if str(series[0].axis) != self.terms.step:
            raise DataError(
                f"the series {series[0].name!r} has a step of {series[0].axis}, and the model one of "
                f"{self.terms.step}. Give series of the same step."
            )
        return self._encode(series, targets)

    def part_of(self, examples: Any, targets: Any = None) -> ForecastPart:
        """A part from series without times, whose steps are taken for those of the model, and are counted.

        Args:
            examples: The name of a series → an array (steps,) or (steps, targets); or, for a model of one series, its
                array alone.
            targets: Whether the next steps are among the examples: every origin of a series is then forecast, and
                without them the steps after its end.
        """
        if not isinstance(examples, Mapping):
            check_list(examples, "examples", "Give an array (steps,), or a dict of them by the names of series")
        if not len(examples):
            raise ShapeError.of("examples", examples, "has no series", "Give an array (steps,) for each")
        named = examples if isinstance(examples, Mapping) else {next(iter(self.terms.scales)): examples}
        if len(self.terms.scales) > 1 and named is not examples:
            remedy = f"Give a dict of arrays, by the names {list_some([*self.terms.scales])}"
            raise ArgumentError.of("examples", examples, "does not say which series it is", remedy)
        series = [count_steps(name, read_array(one, f"examples[{name!r}]")) for name, one in named.items()]
        check_series(series, self.data)
        return self._encode(series, bool(targets))

    def evaluate_examples(self, learner: Any, examples: Any, targets: Any = None) -> dict[str, float]:  # noqa: ARG002
        """The metrics of forecasts from every step of series that has enough steps before and after it."""
        return super().evaluate_examples(learner, examples, True)

    def _encode(self, series: Sequence[Series], targets: bool) -> ForecastPart:
        terms = self.terms
        scaled = [standardize(one, terms.scales) for one in series]
        for one, given in zip(scaled, series, strict=True):
            refuse_far(one, given)
        if targets:
            origins = Origins(scaled, terms.lookback, terms.horizon)
            return ForecastPart(series, scaled, origins.pairs("training"), origins, terms)
        for one in scaled:
            inputs_at(one, len(one), terms.lookback, terms.horizon)  # refuses what is too short
        pairs = Pairs.of(series_lengths(series), np.ones(len(series), np.int64))
        return ForecastPart(series, scaled, pairs, None, terms)

    def sequences(self) -> TrainingSequences:
        part = self.parts["training"]
        seen = [one.values[:end] for one, end in zip(part.series, part.origins.ends(), strict=True)]
        return TrainingSequences("steps", [seen], detrend=True, longest=self.data.lookback)

    def propose(self, memory: int, training: Training) -> list[Proposal]:  # noqa: ARG002
        """The horizon as training has it, and a lookback that follows the memory."""
        terms = self.terms
        chosen = {"horizon": Steps(terms.horizon, terms.why["horizon"]), "lookback": self._look_back(memory)}
        return [
            Proposal(name, steps, f"{reason[:1].upper()}{reason[1:]}.")
            for name, (steps, reason) in chosen.items()
            if reason
        ]

    def _look_back(self, memory: int) -> Steps:
        """Twice the memory; as training has it where there is no memory, or where it is given."""
        terms = self.terms
        if not memory or not terms.why["lookback"]:
            return Steps(terms.lookback, terms.why["lookback"])
        most = longest_lookback(min(self.parts["training"].origins.ends()), terms.horizon)
        return follow_memory(memory, terms.season, terms.horizon, most)

    # ── the model ──

    def evaluate_part(self, learner: Any, part: Any, limit: int | None = None) -> dict[str, float]:
        """The loss and the metrics; of many forecasts, some at a time, so that memory does not grow with them."""
        if limit or len(part.pairs) <= TOGETHER:
            return super().evaluate_part(learner, part, limit)
        mean = WeightedMean()
        for indices in part.cut(TOGETHER):
            loss, predictions = self.infer(learner, part, indices)
            found = {"loss": loss, **self.metrics(part, indices, predictions)}
            found["RMSE"] **= 2
            series = len(np.unique(part.pairs[indices][:, 0]))
            mean.add(found, {name: series if name == "MASE" else len(indices) for name in found})
        metrics = mean.values()
        return {**metrics, "RMSE": metrics["RMSE"] ** 0.5}

    def metrics(self, part: ForecastPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        pairs = zip(indices, predictions, strict=True)
        return self.measure(part, indices, np.stack([part.unscale(index, prediction) for index, prediction in pairs]))

    def measure(self, part: ForecastPart, indices: Indices, y_pred: Floats) -> dict[str, float]:
        """The metrics of quantiles (examples, horizon, targets, levels), or of point forecasts (…, 1)."""
        y_true, units = part.targets(indices), part.units(indices)
        median = y_pred[..., self.data.quantiles.index(0.5) if y_pred.shape[-1] > 1 else 0]
        errors = (np.abs(y_true - median) / units[:, None]).mean((1, 2))
        owners = part.pairs[indices][:, 0]
        found = {
            "MASE": float(np.mean([errors[owners == one].mean() for one in np.unique(owners)])),
            "RMSE": rmse(y_true, median),
            "MAE": mae(y_true, median),
            "pinball": self._pinball(y_true, y_pred),
        }
        if y_pred.shape[-1] > 1:
            found["coverage"] = coverage(y_true, y_pred[..., 0], y_pred[..., -1])
        return found

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        """Forecasts without a network on a part, or on some of many series; a point stands for all quantiles."""
        if part not in self._baselines and part in self.parts:
            found = self.parts[part].of_some(MOST_BASELINES)
            indices = np.arange(len(found.pairs))
            forecasts = {"persistence": self._repeat(found, 1)}
            if self.terms.season > 1:
                forecasts["seasonal naive"] = self._repeat(found, self.terms.season)
            forecasts["AR"] = self._regress(found)
            self._baselines[part] = {
                name: {"loss": self._loss(found, indices, y_pred), **self.measure(found, indices, y_pred)}
                for name, y_pred in forecasts.items()
                if (np.abs(y_pred) < LARGEST).all()
            }
        return self._baselines.get(part, {})

    def _loss(self, part: ForecastPart, indices: Indices, y_pred: Floats) -> float:
        """The loss of the model, for any forecasts."""
        units = part.units(indices)[:, None]
        return self._pinball(part.targets(indices) / units, y_pred / units[..., None])

    def _pinball(self, y_true: Floats, y_pred: Floats) -> float:
        levels = self.data.quantiles
        return pinball(y_true, np.broadcast_to(y_pred, (*y_true.shape, len(levels))), levels)

    def _repeat(self, part: ForecastPart, season: int) -> Floats:
        """The last season before each origin, repeated."""
        histories = (part.history(index, season) for index in range(len(part.pairs)))
        return np.stack([seasonal_naive(one, part.horizon, season) for one in histories])[..., None]

    @np.errstate(over="ignore", invalid="ignore")
    def _regress(self, part: ForecastPart) -> Floats:
        """Autoregressions, one for each target of each series, fitted on its training part."""
        assert part.origins is not None
        levels = np.array([NormalDist().inv_cdf(quantile) for quantile in self.data.quantiles])
        y_pred = np.empty((len(part.pairs), part.horizon, len(self.data.target), len(levels)))
        for number, (one, end) in enumerate(zip(part.series, part.origins.ends(), strict=True)):
            for target in range(len(self.data.target)):
                model = AR.fit(one.values[:end, target])
                order = max(len(model.coefficients), 1)
                low, high = model.interval(one.values[:end, target], part.horizon, WITHIN)
                for index in part.pairs.rows_of(number).tolist():
                    middle = model.forecast(part.history(index, order)[:, target], part.horizon)
                    y_pred[index, :, target] = middle[:, None] + (high - low)[:, None] / 2 * levels
        return y_pred

    # ── what people look at ──

    def show(self, part: ForecastPart, index: int, prediction: Any) -> str:
        one, at = part.pairs[index]
        stamps = part.series[one].stamps(at, part.horizon)
        y_pred, y_true = part.unscale(index, prediction), part.targets(np.array([index]))[0]
        middle = self.data.quantiles.index(0.5)
        lines = []
        for target in range(len(self.data.target)):
            past = " ".join(map(_short, part.history(index, SHOWN)[:, target]))
            steps = []
            for step in sorted({0, part.horizon - 1}):
                low, median, high = (_short(y_pred[step, target, place]) for place in (0, middle, -1))
                steps.append(f"{stamps[step]} {median} [{low}, {high}], was {_short(y_true[step, target])}")
            lines.append(f"{past} → {' … '.join(steps)}")
        return f"{part.series[one].name}: {' · '.join(lines)}"

    def usage(self) -> Usage:
        scale = next(iter(self.terms.scales.values()))
        known = zip(self.data.target, scale.mean.tolist(), scale.deviation.tolist(), strict=False)
        scales = tuple((mean, deviation) for _, mean, deviation in known)  # targets are the first columns
        return Usage("series", "steps", tuple(self.data.target), (), self.terms.horizon, scales, self.terms.season)

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        return ("series", "time", "target", *(f"q{level:g}" for level in self.data.quantiles))

    def record(self, part: ForecastPart, index: int, prediction: Any) -> dict[str, Any]:
        """A forecast as columns, with one entry for each step and target."""
        one, at = part.pairs[index]
        targets, y_pred = self.data.target, part.unscale(index, prediction).reshape(-1, len(self.data.quantiles))
        columns = [
            [part.series[one].name] * len(y_pred),
            [stamp for stamp in part.series[one].stamps(at, part.horizon) for _ in targets],
            [*targets] * part.horizon,
            *(column.tolist() for column in y_pred.T),
        ]
        return dict(zip(self.prediction_columns, columns, strict=True))

    def predict(self, learner: Any, part: Any) -> Iterator[dict[str, Any]]:
        """A row for each step and target of each forecast."""
        for columns in super().predict(learner, part):
            for entries in zip(*columns.values(), strict=True):
                yield dict(zip(columns, entries, strict=True))


def _describe_terms(terms: Terms) -> str:
    """What is forecast from what, and why where it was chosen."""
    season = f"season of {terms.season}" if terms.season > 1 else "no season"
    asked = f"{terms.horizon} steps of {', '.join(terms.targets)} from {terms.lookback}; {season}"
    chosen = "; ".join(f"`{name}`: {reason}" for name, reason in terms.why.items() if reason)
    return f"{asked} ({chosen})" if chosen else asked


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
