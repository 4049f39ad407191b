"""Classification: which of several labels a text, or a sequence of numbers, has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.columns import LABEL_NAMES
from unspool.data.glance import Glance, are_measured
from unspool.data.inputs import fit_inputs, load_inputs
from unspool.data.labelled import Raw
from unspool.data.problems import warn_unseen
from unspool.data.sequences import Indices
from unspool.errors import DataError
from unspool.settings.defaults import DataFacts
from unspool.tasks import labelled
from unspool.tasks.baselines.counting import Probabilities, by_ngrams, majority
from unspool.tasks.batch import UNSEEN
from unspool.tasks.contract import Claim
from unspool.tasks.examples import check_validation, digest_files
from unspool.tasks.label_lists import list_some
from unspool.tasks.labelled import LabelledPart, TargetColumns
from unspool.tasks.labels import LabelTask
from unspool.tasks.metrics import accuracy, macro_f1

if TYPE_CHECKING:
    from unspool.settings.data import LabelledData


@dataclass(frozen=True)
class ClassifiedPart(LabelledPart):
    """Sequences and the numbers of their labels; those of labels that training never saw are `UNSEEN`."""

    @property
    def counts(self) -> Indices:
        """1 for each example over which the loss is computed."""
        return super().counts if self.targets is None else (self.targets != UNSEEN).astype(np.int64)


class Classification(LabelTask):
    """Learning which label a sequence has. A prediction is the probabilities of all labels.

    Example:
        task = Classification.prepare(LabelledData(files=("intents.csv",)), seed=0)
        model = make_learner(task, PooledSettings(hidden=64))
        task.evaluate(model, "validation")["accuracy"]
    """

    name = "classify"
    predicted = "label"
    chosen_by, more_is_better = "accuracy", True

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        if glance.arrays is not None:
            targets = glance.arrays.targets
            known = targets is not None and not are_measured(targets)
            return Claim(20, f"{glance.name} has sequences of numbers and labels") if known else None
        found = labelled.find_target(glance)
        if found is None or glance.is_measured(found.target):
            return None
        settings = {**found.inputs, "label_column": found.target}
        return Claim(20, f"`{found.target}` of {glance.name} holds labels", settings)

    @classmethod
    def prepare(cls, data: LabelledData, seed: int) -> Self:
        raws = labelled.read_parts(data, label_columns(data))
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(raws, data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: LabelledData, **of: Any) -> Self:
        """From sequences in memory, by the part that they are for."""
        training = raws["training"]
        columns = {
            "text_column": labelled.text_column(training),
            "label_column": next(iter(training.target_columns), None),
        }
        data = labelled.remember_columns(data, columns)
        inputs = fit_inputs(training, data.tokenizer, data.vocab_size, data.lowercase, data.features)
        labels = sorted({target[0] for target in training.targets or ()}, key=str)
        if len(labels) < 2:
            raise DataError(
                f"all training examples have the label {labels[0]!r}: there is nothing to tell apart. "
                "Give examples of two labels at least."
            )
        task = cls({}, inputs, labels, data, **of)
        task.parts = {name: task.part(raw) for name, raw in raws.items() if len(raw)}
        check_validation(task.parts, "labels")
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: LabelledData) -> Self:
        data = labelled.remember_columns(data, saved.read_columns(document))
        return cls({}, load_inputs(document), saved.read_labels(document, "labels", least=2), data)

    def dump(self) -> dict[str, Any]:
        columns = {"text_column": self.data.text_column, "label_column": self.data.label_column}
        return {**self.inputs.dump(), "labels": self.labels, "columns": columns}

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "labels": f"{len(self.labels)}: {list_some(self.labels)}"}

    def target_columns(self) -> TargetColumns:
        return label_columns(self.data)

    def part(self, raw: Raw) -> ClassifiedPart:
        number = {label: place for place, label in enumerate(self.labels)}
        inputs, spellings = self.inputs.encode(raw, self.data.max_length), self.inputs.spell(raw)
        if raw.targets is None:
            return ClassifiedPart(inputs, None, raw, spellings)
        labels = np.array([number.get(target[0], UNSEEN) for target in raw.targets], np.int64)
        unseen = np.flatnonzero(labels == UNSEEN)
        if len(unseen):
            names = [str(raw.targets[index][0]) for index in unseen]
            warn_unseen("label", "examples", len(labels), names, raw.place(int(unseen[0])))
        return ClassifiedPart(inputs, labels, raw, spellings)

    def is_target(self, target: Any) -> bool:
        return isinstance(target, str | int | float | np.generic)

    def read_target(self, target: Any) -> tuple[Any, ...]:
        return (target,)

    def facts(self) -> DataFacts:
        lengths = self.parts["training"].lengths
        return DataFacts(len(lengths), int(np.median(lengths)), len(self.labels), self.inputs.unit)

    # ── the model ──

    def metrics(self, part: LabelledPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        assert part.targets is not None
        y_true, y_pred = part.targets[indices], np.stack(predictions).argmax(-1)
        unseen = int((y_true == UNSEEN).sum())
        if not unseen:
            return {"accuracy": accuracy(y_true, y_pred), "macro-F1": macro_f1(y_true, y_pred, len(self.labels))}
        y_true, classes = self._number_all(part, indices)
        right = {"accuracy": accuracy(y_true, y_pred), "macro-F1": macro_f1(y_true, y_pred, classes)}
        return {**right, "examples": len(y_true), "unseen labels": unseen}

    def _number_all(self, part: LabelledPart, indices: Indices) -> tuple[NDArray[np.int64], int]:
        """The labels of some examples as numbers, those that training never saw after all others; and how many are."""
        number = {label: place for place, label in enumerate(self.labels)}
        found = [number.setdefault(_label(part, int(index)), len(number)) for index in indices]
        return np.array(found, np.int64), len(number)

    def show(self, part: LabelledPart, index: int, prediction: Any) -> str:
        predicted, target = int(prediction.argmax()), _label(part, index)
        line = f"{labelled.shorten_input(part.raw, index)} → {self.labels[predicted]} {prediction[predicted]:.0%}"
        return f"✓ {line}" if self.labels[predicted] == target else f"✗ {line}, not {target}"

    def spell_choice(self, probabilities: NDArray[np.float64]) -> str:
        return self.labels[int(probabilities.argmax())]

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        if part not in self._baselines and part in self.parts:
            training, own, classes = self.parts["training"], self.parts[part], len(self.labels)
            found = {"majority class": majority(training.targets, classes, len(own.lengths))}
            if self.inputs.tokens is not None:
                known = training.inputs, training.targets
                found["3-gram of each label"] = by_ngrams(*known, classes, self.inputs.tokens, own.inputs)
            self._baselines[part] = {name: self._measure(own, probabilities) for name, probabilities in found.items()}
        return self._baselines.get(part, {})

    def _measure(self, part: LabelledPart, probabilities: Probabilities) -> dict[str, float]:
        """The loss and the metrics of any probabilities; no loss where training saw no label."""
        assert part.targets is not None
        metrics = self.metrics(part, np.arange(len(part.lengths)), list(probabilities))
        known = np.flatnonzero(part.targets != UNSEEN)
        if not len(known):
            return metrics
        loss = -np.log(np.maximum(probabilities[known, part.targets[known]], np.finfo(float).tiny)).mean()
        return {"loss": float(loss), **metrics}


def _label(part: LabelledPart, index: int) -> str:
    assert part.raw.targets is not None
    label: str = part.raw.targets[index][0]
    return label


def label_columns(data: LabelledData) -> TargetColumns:
    """Where labels are found."""
    named = [] if data.label_column is None else [data.label_column]
    return TargetColumns(named, LABEL_NAMES, "the labels", "label_column")
