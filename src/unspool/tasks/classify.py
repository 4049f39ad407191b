"""Classification: which of several labels a text, or a sequence of numbers, has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from unspool.data import saved
from unspool.data.columns import LABEL_NAMES
from unspool.data.glance import Glance
from unspool.data.inputs import Inputs, fit_inputs, load_inputs
from unspool.data.labelled import Raw
from unspool.data.sequences import Indices
from unspool.errors import DataError
from unspool.learning.contract import Claim
from unspool.models.baselines.counting import Probabilities, by_ngrams, majority
from unspool.models.pooled import Classifier
from unspool.settings.data import LabelledData
from unspool.settings.model import PooledSettings
from unspool.tasks import labelled
from unspool.tasks.examples import digest_files, read_divided
from unspool.tasks.labelled import LabelledPart, LabelledTask, TargetColumns
from unspool.tasks.metrics import accuracy, macro_f1

#: Labels that a description lists.
LISTED = 8


class Classification(LabelledTask):
    """Learning which label a sequence has. A prediction is the probabilities of all labels.

    Example:
        task = Classification.prepare(LabelledData(files=("intents.csv",)), seed=0)
        model = task.make_learner(PooledSettings(hidden=64))
        task.evaluate(model, "validation")["accuracy"]
    """

    name = "classify"
    predicted = "label"
    chosen_by, more_is_better = "accuracy", True

    def __init__(
        self, parts: Mapping[str, LabelledPart], inputs: Inputs, labels: Sequence[str], data: Any, **of: Any
    ) -> None:
        super().__init__(parts, **of)
        self.inputs, self.labels, self.data = inputs, list(labels), data
        self._baselines: dict[str, dict[str, float]] = {}

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        label = labelled.find_target(glance)
        if label is None or glance.is_measured(label):
            return None
        return Claim(20, f"`{label}` of {glance.name} holds labels")

    @classmethod
    def prepare(cls, data: LabelledData, seed: int) -> Self:
        raws = read_divided(data, lambda _, source: labelled.read_raw(data, source, label_columns(data)))
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
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: LabelledData) -> Self:
        data = labelled.remember_columns(data, saved.read_columns(document))
        return cls({}, load_inputs(document), saved.read_labels(document, "labels", least=2), data)

    def dump(self) -> dict[str, Any]:
        columns = {"text_column": self.data.text_column, "label_column": self.data.label_column}
        return {**self.inputs.dump(), "labels": self.labels, "columns": columns}

    def describe(self) -> Mapping[str, str]:
        listed = ", ".join(map(str, self.labels[:LISTED])) + ", …" * (len(self.labels) > LISTED)
        return {**super().describe(), "labels": f"{len(self.labels)}: {listed}"}

    def target_columns(self) -> TargetColumns:
        return label_columns(self.data)

    def part(self, raw: Raw) -> LabelledPart:
        number = {label: place for place, label in enumerate(self.labels)}
        for index, target in enumerate(raw.targets or ()):
            if target[0] not in number:
                raise DataError(
                    f"{raw.place(index)}: the label {target[0]!r} does not occur in the training data. Correct it, "
                    "leave the row out, or train with examples of it."
                )
        labels = None if raw.targets is None else np.array([number[target[0]] for target in raw.targets], np.int64)
        return LabelledPart(self.inputs.encode(raw, self.data.max_length), labels, raw)

    # ── the model ──

    def make_learner(self, settings: PooledSettings) -> Classifier:
        return Classifier(settings, self.inputs, len(self.labels))

    def metrics(self, part: LabelledPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        assert part.targets is not None
        y_true, y_pred = part.targets[indices], np.stack(predictions).argmax(-1)
        return {"accuracy": accuracy(y_true, y_pred), "macro-F1": macro_f1(y_true, y_pred, len(self.labels))}

    def show(self, part: LabelledPart, index: int, prediction: Any) -> str:
        assert part.targets is not None
        predicted, target = int(prediction.argmax()), part.targets[index]
        line = f"{labelled.shorten_input(part.raw, index)} → {self.labels[predicted]} {prediction[predicted]:.0%}"
        return f"✓ {line}" if predicted == target else f"✗ {line}, not {self.labels[target]}"

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        return (self.input_column, "label", *(f"p({label})" for label in self.labels))

    def record(self, part: LabelledPart, index: int, prediction: Any) -> dict[str, Any]:
        values = [labelled.show_input(part.raw, index), self.labels[int(prediction.argmax())], *map(float, prediction)]
        return dict(zip(self.prediction_columns, values, strict=True))

    def baselines(self) -> dict[str, dict[str, float]]:
        if not self._baselines:
            training, part, classes = self.parts["training"], self.parts["validation"], len(self.labels)
            found = {"majority class": majority(training.targets, classes, len(part.lengths))}
            if self.inputs.tokens is not None:
                known = training.inputs, training.targets
                found["3-gram of each label"] = by_ngrams(*known, classes, self.inputs.tokens, part.inputs)
            self._baselines = {name: self._measure(part, probabilities) for name, probabilities in found.items()}
        return self._baselines

    def _measure(self, part: LabelledPart, probabilities: Probabilities) -> dict[str, float]:
        """The loss and the metrics of any probabilities."""
        assert part.targets is not None
        indices = np.arange(len(part.lengths))
        loss = -np.log(np.maximum(probabilities[indices, part.targets], np.finfo(float).tiny)).mean()
        return {"loss": float(loss), **self.metrics(part, indices, list(probabilities))}


def label_columns(data: LabelledData) -> TargetColumns:
    """Where labels are found."""
    named = [] if data.label_column is None else [data.label_column]
    return TargetColumns(named, LABEL_NAMES, "the labels", "label_column")
