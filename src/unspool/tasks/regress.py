"""Regression: one or several numbers of a text, such as a molecule in SMILES, or of a sequence of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator
from torch import Tensor
from torch.nn import functional

from unspool.data.inputs import Inputs, fit_inputs, load_inputs
from unspool.data.labelled import TARGET_NAMES, Raw
from unspool.data.metrics import mae, r_squared, rmse
from unspool.data.molecules import write_anew
from unspool.data.scale import Scale
from unspool.data.sequences import Rows
from unspool.data.text import Source
from unspool.errors import ArgumentError, DataError
from unspool.learning.settings import Count
from unspool.tasks.examples import Batch, ExampleLearner, ExampleTask, Part, digest_files, read_divided
from unspool.tasks.labelled import (
    AnswerColumns,
    LabelledPart,
    SequenceData,
    describe_parts,
    named,
    read_raw,
    remember_columns,
    shown,
    text_column,
)
from unspool.tasks.pooled import PooledModel, PooledSettings

Floats = NDArray[np.float64]


class MeasuredData(SequenceData):
    """Text, or sequences of numbers in long form (id_column, time_column, features), and numbers that were measured."""

    targets: tuple[str, ...] = ()
    """the numbers to foretell; guessed from the names if not said"""
    enumerate: Count = 0
    """of molecules in SMILES: other ways in which each is written; the answer is the mean over all its writings"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        read = [self.text_column, self.id_column, self.time_column, *self.features]
        for place, target in enumerate(self.targets):
            if target in read or target in self.targets[:place]:
                what = "is also read" if target in read else "is there twice"
                raise ArgumentError.of("targets", target, what, "Name each column once")
        if self.enumerate and self.id_column is not None:
            problem = "writes molecules in other ways, and with `id_column` sequences are numbers"
            raise ArgumentError.of("enumerate", self.enumerate, problem, "Leave one of them out")
        return self


@dataclass(frozen=True)
class MeasuredPart(LabelledPart):
    """Sequences and their scaled targets; `others` are the same examples in the same order, written in other ways."""

    others: tuple[LabelledPart, ...] = ()


class Regressor(PooledModel):
    """Targets, in deviations from their mean; the loss is the mean of squared errors over examples and targets."""

    def __init__(self, settings: PooledSettings, inputs: Inputs, scale: Scale) -> None:
        super().__init__(settings, inputs, len(scale.mean))
        self.scale = scale

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.mse_loss(scores, batch.targets, reduction="sum") / scores.shape[-1]

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(self.scale.undo(scores.double().numpy()))


class Regression(ExampleTask):
    """Learning numbers of a sequence. An answer is the targets in their own units."""

    name = "regress"
    Data = MeasuredData
    Model = PooledSettings
    defaults = {
        "model": {"layers": 2, "dropout": 0.1},
        "training": {"epochs": 60.0, "window": "all", "rate": 2e-3},
    }
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

    @classmethod
    def prepare(cls, data: MeasuredData, seed: int) -> Self:
        raws = read_divided(data, lambda _, source: read_raw(data, source, answer_columns(data.targets)))
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(raws, data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: MeasuredData, **of: Any) -> Self:
        """From sequences that are in memory."""
        training = raws["training"]
        values = read_targets(training)
        count = values.shape[1]
        numbered = ["target"] if count == 1 else [f"target {place}" for place in range(1, count + 1)]
        targets = training.answer_columns or data.targets or numbered
        if len(targets) != count:
            raise ArgumentError.of(
                "targets", targets, f"does not name the {count} target(s) that there are", "Name each"
            )
        for name, column in zip(targets, values.T, strict=True):
            if column.max() == column.min():
                raise DataError(
                    f"the target `{name}` is {column[0]:g} in all {len(column)} training example(s): there is nothing "
                    "to learn. Give examples in which it differs, or leave the target out."
                )
        data = remember_columns(data, {"text_column": text_column(training), "targets": training.answer_columns})
        whole = join_writings(training, write_anew(training, data.enumerate))
        inputs = fit_inputs(whole, data.tokens, data.vocabulary, data.lowercase, data.features)
        task = cls({}, inputs, targets, Scale.of(values), data, **of)
        held_out = {name: task.part(raw) for name, raw in raws.items() if name != "training" and len(raw)}
        task.parts = {"training": MeasuredPart(*task._encode(whole)), **held_out}
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: MeasuredData) -> Self:
        targets = document.get("targets")
        if not isinstance(targets, Mapping) or not isinstance(targets.get("names"), list):
            raise DataError("the run's vocabulary.json does not say the targets. Take the run's own.")
        data = remember_columns(data, {"text_column": document.get("text_column"), "targets": tuple(targets["names"])})
        return cls({}, load_inputs(document), targets["names"], Scale.load(targets, len(targets["names"])), data)

    def dump(self) -> dict[str, Any]:
        targets = {"names": list(self.targets), **self.scale.dump()}
        return {**self.inputs.dump(), "targets": targets, "text_column": self.data.text_column}

    def make_learner(self, settings: PooledSettings) -> Regressor:
        return Regressor(settings, self.inputs, self.scale)

    def describe(self) -> Mapping[str, str]:
        scales = zip(self.targets, self.scale.mean, self.scale.deviation, strict=True)
        found = {
            "data": describe_parts(self.parts, self.inputs),
            "targets": ", ".join(f"{name} ({mean:.4g} ± {deviation:.4g})" for name, mean, deviation in scales),
        }
        if self.data.enumerate:
            found["molecules"] = f"each written in {1 + self.data.enumerate} ways, for training one example each"
        return found

    def read(self, source: Source, *, answers: bool = True) -> MeasuredPart:
        columns = answer_columns(self.targets)
        return self.part(read_raw(self.data, source, columns, known=answers, inputs=self.inputs))

    def part(self, raw: Raw) -> MeasuredPart:
        """Raw sequences in the terms of the training data."""
        others = [LabelledPart(*self._encode(one)) for one in write_anew(raw, self.data.enumerate)]
        return MeasuredPart(*self._encode(raw), tuple(others))

    def _encode(self, raw: Raw) -> tuple[Any, NDArray[np.float32] | None, Raw]:
        inputs = self.inputs.encode(raw, self.data.longest)
        if raw.answers is None:
            return inputs, None, raw
        values = read_targets(raw, len(self.targets))
        scaled = self.scale.apply(values)
        for row, place in np.argwhere(~np.isfinite(scaled))[:1]:
            raise DataError(
                f"{raw.place(row)}: the target `{self.targets[place]}` is {values[row, place]:g}, too far from all "
                "training examples. Correct it, or leave the row out."
            )
        return inputs, scaled, raw

    def ask(self, learner: ExampleLearner, part: Part, rows: Rows) -> tuple[float, list[Any]]:
        """As every task does; of an example that is written in several ways, the means of losses and of answers."""
        ways: list[Part] = [part, *part.others] if isinstance(part, MeasuredPart) else [part]
        asked = [super(Regression, self).ask(learner, way, rows) for way in ways]
        return float(np.mean([loss for loss, _ in asked])), list(np.mean([answers for _, answers in asked], axis=0))

    def figures(self, part: MeasuredPart, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        """Means over the targets, and those of each where there are several; R² only of a target that changes."""
        assert part.raw.answers is not None
        truth, said = read_targets(part.raw)[rows], np.stack(answers)
        if not np.isfinite(said).all():  # a model that diverged; whoever trains it knows what to say of that
            return dict.fromkeys(MEASURES, float("nan"))
        each = [measure(true, one) for true, one in zip(truth.T, said.T, strict=True)]
        names = [name for name in MEASURES if all(name in one for one in each)]
        found = {name: float(np.mean([one[name] for one in each])) for name in names}
        if len(each) > 1:
            for target, one in zip(self.targets, each, strict=True):
                found |= {f"{name} of {target}": value for name, value in one.items()}
        return found

    def show(self, part: MeasuredPart, row: int, answer: Any) -> str:
        assert part.raw.answers is not None
        truth = ", ".join(f"{value:.4g}" for value in part.raw.answers[row])
        return f"{shown(part.raw, row)} → {', '.join(f'{value:.4g}' for value in answer)} (is {truth})"

    def record(self, part: MeasuredPart, row: int, answer: Any) -> dict[str, Any]:
        which = named(part.raw, row)
        names = [f"{name}, foretold" if name in which else name for name in self.targets]
        return {**which, **dict(zip(names, map(float, answer), strict=True))}

    def baselines(self) -> dict[str, dict[str, float]]:
        part = self.parts["validation"]
        rows = np.arange(len(part.lengths))
        loss = float(np.square(part.answers, dtype=np.float64).mean())  # the mean is 0 in the loss's own units
        return {"mean": {"loss": loss, **self.figures(part, rows, [self.scale.mean] * len(rows))}}


MEASURES: Mapping[str, Callable[[Floats, Floats], float]] = {"RMSE": rmse, "MAE": mae, "R²": r_squared}


def measure(truth: Floats, said: Floats) -> dict[str, float]:
    """The figures of one target."""
    changes = np.ptp(truth) > 0 and truth.var() > 0  # the second is 0 where a square is too small a number
    return {name: of(truth, said) for name, of in MEASURES.items() if changes or name != "R²"}


def answer_columns(targets: Sequence[str]) -> AnswerColumns:
    """Where targets are found."""
    return AnswerColumns(targets, TARGET_NAMES, "the numbers to foretell", "--target", numbers=True)


def read_targets(raw: Raw, count: int | None = None) -> Floats:
    """The targets (examples, targets) in their own units: finite numbers, as many of each as of the first."""
    answers = raw.answers or []
    if not answers:
        raise DataError("there are no examples with targets. Give at least two.")
    count = max(1, len(answers[0])) if count is None else count
    found = np.empty((len(answers), count), np.float64)
    for row, answer in enumerate(answers):
        if len(answer) != count:
            raise DataError(f"{raw.place(row)}: there are {len(answer)} targets, not {count}. Give each example all.")
        for place, value in enumerate(answer):
            try:
                found[row, place] = value
            except (TypeError, ValueError):
                found[row, place] = np.nan
            if not np.isfinite(found[row, place]):
                raise DataError(
                    f"{raw.place(row)}: target {place + 1} is {value!r}, not a finite number. Correct it, or leave the "
                    "example out."
                )
    return found


def join_writings(raw: Raw, others: Sequence[Raw]) -> Raw:
    """The examples as they are, then those that are written in other ways, each an example of its own."""
    if not others:
        return raw
    texts = [text for one in (raw, *others) for text in one.texts or ()]
    return replace(raw.take(np.tile(np.arange(len(raw)), 1 + len(others))), texts=texts)
