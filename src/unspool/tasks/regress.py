"""Regression: numbers predicted from a text, such as a molecule in SMILES, or from a sequence of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.columns import NUMBER_NAMES
from unspool.data.glance import Glance, are_measured
from unspool.data.inputs import Inputs, fit_inputs, load_inputs
from unspool.data.labelled import Raw
from unspool.data.molecules import randomize_smiles
from unspool.data.scale import Scale
from unspool.data.sequences import Indices
from unspool.data.subwords import Spellings
from unspool.errors import ArgumentError, DataError
from unspool.tasks import labelled
from unspool.tasks.contract import Claim, ExampleModel
from unspool.tasks.examples import Part, digest_files
from unspool.tasks.labelled import LabelledPart, LabelledTask, TargetColumns
from unspool.tasks.metrics import mae, r_squared, rmse

if TYPE_CHECKING:
    from unspool.settings.data import MeasuredData

Floats = NDArray[np.float64]
#: The metrics of one target.
METRICS: Mapping[str, Callable[[Floats, Floats], float]] = {"RMSE": rmse, "MAE": mae, "R²": r_squared}


@dataclass(frozen=True)
class MeasuredPart(LabelledPart):
    """Sequences and their standardized targets; `variants` are the same examples as other SMILES."""

    variants: tuple[LabelledPart, ...] = ()


class Regression(LabelledTask):
    """Learning numbers of a sequence. A prediction is the targets in their own units.

    Example:
        task = Regression.prepare(MeasuredData(files=("solubility.csv",), target=("logS",)), seed=0)
        model = make_learner(task, PooledSettings(hidden=64))
        task.evaluate(model, "validation")["RMSE"]
    """

    name = "regress"
    predicted = "number"
    chosen_by = "RMSE"

    def __init__(
        self,
        parts: Mapping[str, MeasuredPart],
        inputs: Inputs,
        targets: Sequence[str],
        scale: Scale,
        data: MeasuredData,
        **of: Any,
    ) -> None:
        super().__init__(parts, **of)
        self.inputs, self.targets, self.scale, self.data = inputs, tuple(targets), scale, data

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if glance.arrays is not None:
            return _claim_arrays(glance.name, glance.arrays.targets)
        if not glance.is_table:
            return None
        if "target" in glance.settings:
            return Claim(50, f"`target` is {glance.settings['target']}")
        found = labelled.find_target(glance)
        if found is None or not glance.is_graded(found.target):
            return None
        priority = 20 if glance.is_measured(found.target) else 10
        settings = {**found.inputs, "target": (found.target,)}
        return Claim(priority, f"`{found.target}` of {glance.name} holds numbers", settings)

    @classmethod
    def prepare(cls, data: MeasuredData, seed: int) -> Self:
        raws = labelled.read_parts(data, number_columns(data.target))
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(raws, data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: MeasuredData, **of: Any) -> Self:
        """From sequences in memory, by the part that they are for."""
        training = raws["training"]
        values = read_targets(training)
        targets = _name_targets(training, data, values)
        columns = {"text_column": labelled.text_column(training), "target": training.target_columns}
        data = labelled.remember_columns(data, columns)
        whole = join_variants(training, randomize_smiles(training, data.augment_smiles))
        inputs = fit_inputs(whole, data.tokenizer, data.vocab_size, data.lowercase, data.features)
        task = cls({}, inputs, targets, Scale.of(values), data, **of)
        held_out = {name: task.part(raw) for name, raw in raws.items() if name != "training" and len(raw)}
        task.parts = {"training": MeasuredPart(*task._encode(whole)), **held_out}
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: MeasuredData) -> Self:
        targets = document.get("targets")
        if not isinstance(targets, Mapping):
            raise DataError("the run's vocabulary.json does not name the targets. Take the run's own.")
        names, text = saved.read_names(targets, "names"), saved.read_name(document, "text_column")
        data = labelled.remember_columns(data, {"text_column": text, "target": tuple(names)})
        return cls({}, load_inputs(document), names, Scale.load(targets, len(names)), data)

    def dump(self) -> dict[str, Any]:
        targets = {"names": list(self.targets), **self.scale.dump()}
        return {**self.inputs.dump(), "targets": targets, "text_column": self.data.text_column}

    def describe(self) -> Mapping[str, str]:
        scales = zip(self.targets, self.scale.mean, self.scale.deviation, strict=True)
        found = {
            **super().describe(),
            "targets": ", ".join(f"{name} ({mean:.4g} ± {deviation:.4g})" for name, mean, deviation in scales),
        }
        if self.data.augment_smiles:
            found["molecules"] = f"{1 + self.data.augment_smiles} SMILES each, for training one example each"
        return found

    def target_columns(self) -> TargetColumns:
        return number_columns(self.targets)

    def part(self, raw: Raw) -> MeasuredPart:
        variants = [LabelledPart(*self._encode(one)) for one in randomize_smiles(raw, self.data.augment_smiles)]
        return MeasuredPart(*self._encode(raw), tuple(variants))

    def _encode(self, raw: Raw) -> tuple[Any, NDArray[np.float32] | None, Raw, Spellings | None]:
        inputs, spellings = self.inputs.encode(raw, self.data.max_length), self.inputs.spell(raw)
        if raw.targets is None:
            return inputs, None, raw, spellings
        values = read_targets(raw, len(self.targets))
        scaled = self.scale.apply(values)
        for index, place in np.argwhere(~np.isfinite(scaled))[:1]:
            raise DataError(
                f"{raw.place(index)}: the target `{self.targets[place]}` is {values[index, place]:g}, too far from all "
                "training examples. Correct it, or leave the row out."
            )
        return inputs, scaled, raw, spellings

    def is_target(self, target: Any) -> bool:
        listed = isinstance(target, list | tuple) or getattr(target, "ndim", 0) == 1
        return all(_may_be_number(value) for value in (target if listed else [target]))

    def read_target(self, target: Any) -> tuple[Any, ...]:
        return tuple(np.ravel(target).tolist())

    # ── the model ──

    def infer(self, learner: ExampleModel, part: Part, indices: Indices) -> tuple[float, list[Any]]:
        """As every task; of a molecule with several SMILES, the means of their losses and predictions."""
        variants: Sequence[Part] = getattr(part, "variants", ())
        found = [super(Regression, self).infer(learner, one, indices) for one in (part, *variants)]
        loss = float(np.mean([loss for loss, _ in found]))
        return loss, list(np.mean([predictions for _, predictions in found], axis=0))

    def player_facts(self) -> dict[str, Any]:
        return {"undo": self.scale.undo}

    def metrics(self, part: MeasuredPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        """Means over the targets, and those of each where there are several; R² only of a target that changes."""
        y_true, y_pred = read_targets(part.raw)[indices], np.stack(predictions)
        if not np.isfinite(y_pred).all():  # the model diverged, which the loop reports
            return dict.fromkeys(METRICS, float("nan"))
        each = [measure(true, predicted) for true, predicted in zip(y_true.T, y_pred.T, strict=True)]
        found = _average(each)
        if len(each) > 1:
            for target, one in zip(self.targets, each, strict=True):
                found |= {f"{name} of {target}": value for name, value in one.items()}
        return found

    def show(self, part: MeasuredPart, index: int, prediction: Any) -> str:
        assert part.raw.targets is not None
        predicted, targets = (
            ", ".join(f"{value:.4g}" for value in values) for values in (prediction, part.raw.targets[index])
        )
        return f"{labelled.shorten_input(part.raw, index)} → {predicted} (is {targets})"

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.targets))

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        first = self.input_column
        return (first, *(f"{name}, predicted" if name == first else name for name in self.targets))

    def record(self, part: MeasuredPart, index: int, prediction: Any) -> dict[str, Any]:
        values = [labelled.show_input(part.raw, index), *map(float, prediction)]
        return dict(zip(self.prediction_columns, values, strict=True))

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        if part not in self.parts:
            return {}
        own = self.parts[part]
        indices = np.arange(len(own.lengths))
        loss = float(np.square(own.targets, dtype=np.float64).mean())  # standardized targets have the mean 0
        return {"mean": {"loss": loss, **self.metrics(own, indices, [self.scale.mean] * len(indices))}}


def _claim_arrays(name: str, targets: Any) -> Claim | None:
    measured = targets is not None and are_measured(targets)
    return Claim(20, f"{name} has sequences of numbers and a number for each") if measured else None


def _name_targets(training: Raw, data: MeasuredData, values: Floats) -> Sequence[str]:
    """The names of the targets; refused where they are not as many, or a target is constant."""
    count = values.shape[1]
    numbered = ["target"] if count == 1 else [f"target {place}" for place in range(1, count + 1)]
    targets = training.target_columns or data.target or numbered
    if len(targets) != count:
        problem = f"does not name the {count} target(s) that there are"
        raise ArgumentError.of("target", targets, problem, "Name each")
    _refuse_constant(targets, values)
    return targets


def _refuse_constant(targets: Sequence[str], values: Floats) -> None:
    for name, column in zip(targets, values.T, strict=True):
        if column.max() == column.min():
            raise DataError(
                f"the target `{name}` is {column[0]:g} in all {len(column)} training example(s): there is nothing "
                "to learn. Give examples in which it differs, or leave the target out."
            )


def _average(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of those metrics that all targets have."""
    names = [name for name in METRICS if all(name in one for one in each)]
    return {name: float(np.mean([one[name] for one in each])) for name in names}


def measure(y_true: Floats, y_pred: Floats) -> dict[str, float]:
    """The metrics of one target."""
    changes = np.ptp(y_true) > 0 and y_true.var() > 0  # the variance is 0 where a square underflows
    return {name: metric(y_true, y_pred) for name, metric in METRICS.items() if changes or name != "R²"}


def number_columns(targets: Sequence[str]) -> TargetColumns:
    """Where targets are found."""
    return TargetColumns(targets, NUMBER_NAMES, "the numbers to predict", "target", numbers=True)


def read_targets(raw: Raw, count: int | None = None) -> Floats:
    """The targets (examples, targets) in their own units: finite numbers, as many for each example as for the first."""
    targets = raw.targets or []
    if not targets:
        raise DataError("there are no examples with targets. Give at least two.")
    count = max(1, len(targets[0])) if count is None else count
    found = np.empty((len(targets), count), np.float64)
    for index, own in enumerate(targets):
        if len(own) != count:
            raise DataError(f"{raw.place(index)}: there are {len(own)} targets, not {count}. Give each example all.")
        found[index] = [_read_number(value, place, raw, index) for place, value in enumerate(own, 1)]
    return found


def _read_number(value: Any, place: int, raw: Raw, index: int) -> float:
    number = _to_number(value)
    if not np.isfinite(number):
        raise DataError(
            f"{raw.place(index)}: target {place} is {value!r}, not a finite number. Correct it, or leave "
            "the example out."
        )
    return number


def _may_be_number(value: Any) -> bool:
    return isinstance(value, str) or (hasattr(value, "__float__") and not getattr(value, "ndim", 0))


def _to_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def join_variants(raw: Raw, variants: Sequence[Raw]) -> Raw:
    """The examples as they are, then those with other SMILES, each an example of its own."""
    if not variants:
        return raw
    texts = [text for one in (raw, *variants) for text in one.texts or ()]
    return replace(raw.take(np.tile(np.arange(len(raw)), 1 + len(variants))), texts=texts)
