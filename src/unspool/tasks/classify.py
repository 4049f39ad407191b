"""Classification: which of some labels a text, or a sequence of numbers, has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor
from torch.nn import functional

from unspool.data.inputs import Inputs, fit_inputs, load_inputs
from unspool.data.labelled import LABEL_NAMES, Raw
from unspool.data.metrics import accuracy, macro_f1
from unspool.data.sequences import Rows
from unspool.data.text import Source
from unspool.errors import DataError
from unspool.tasks.counted import Probabilities, by_ngrams, commonest
from unspool.tasks.examples import Batch, ExampleTask, digest_files, read_divided
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


class LabelledData(SequenceData):
    """Labelled text, or labelled sequences of numbers in long form (id_column, time_column, features)."""

    label_column: str | None = None
    """the labels; guessed from the names if not said"""


class Classifier(PooledModel):
    """log P(label | sequence)."""

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(scores, batch.targets, reduction="sum")

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.double().softmax(-1).numpy())


class Classification(ExampleTask):
    """Learning which label a sequence has. An answer is the probabilities of all labels."""

    name = "classify"
    Data = LabelledData
    Model = PooledSettings
    chosen_by, more_is_better = "accuracy", True

    def __init__(
        self, parts: Mapping[str, LabelledPart], inputs: Inputs, labels: Sequence[str], data: Any, **of: Any
    ) -> None:
        super().__init__(parts, **of)
        self.inputs, self.labels, self.data = inputs, list(labels), data
        self._baselines: dict[str, dict[str, float]] = {}

    @classmethod
    def prepare(cls, data: LabelledData, seed: int) -> Self:
        raws = read_divided(data, lambda _, source: read_raw(data, source, answer_columns(data)))
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(raws, data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: LabelledData, **of: Any) -> Self:
        """From sequences that are in memory."""
        training = raws["training"]
        columns = {"text_column": text_column(training), "label_column": next(iter(training.answer_columns), None)}
        data = remember_columns(data, columns)
        inputs = fit_inputs(training, data.tokens, data.vocabulary, data.lowercase, data.features)
        labels = sorted({answer[0] for answer in training.answers or ()}, key=str)
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
        return cls({}, load_inputs(document), document["labels"], remember_columns(data, dict(document["columns"])))

    def dump(self) -> dict[str, Any]:
        columns = {"text_column": self.data.text_column, "label_column": self.data.label_column}
        return {**self.inputs.dump(), "labels": self.labels, "columns": columns}

    def make_learner(self, settings: PooledSettings) -> Classifier:
        return Classifier(settings, self.inputs, len(self.labels))

    def describe(self) -> Mapping[str, str]:
        return {
            "data": describe_parts(self.parts, self.inputs),
            "labels": f"{len(self.labels)}: {', '.join(map(str, self.labels[:8]))}{', …' * (len(self.labels) > 8)}",
        }

    def read(self, source: Source, *, answers: bool = True) -> LabelledPart:
        return self.part(read_raw(self.data, source, answer_columns(self.data), known=answers, inputs=self.inputs))

    def part(self, raw: Raw) -> LabelledPart:
        """Raw sequences in the terms of the training data."""
        number = {label: place for place, label in enumerate(self.labels)}
        for row, answer in enumerate(raw.answers or ()):
            if answer[0] not in number:
                raise DataError(
                    f"{raw.place(row)}: the label {answer[0]!r} does not occur in the training data. Correct it, leave "
                    "the row out, or train with examples of it."
                )
        labels = None if raw.answers is None else np.array([number[answer[0]] for answer in raw.answers], np.int64)
        return LabelledPart(self.inputs.encode(raw, self.data.longest), labels, raw)

    def figures(self, part: LabelledPart, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        assert part.answers is not None
        truth, said = part.answers[rows], np.stack(answers).argmax(-1)
        return {"accuracy": accuracy(truth, said), "macro-F1": macro_f1(truth, said, len(self.labels))}

    def show(self, part: LabelledPart, row: int, answer: Any) -> str:
        assert part.answers is not None
        said = int(answer.argmax())
        right = said == part.answers[row]
        truth = "" if right else f", not {self.labels[part.answers[row]]}"
        return f"{'✓' if right else '✗'} {shown(part.raw, row)} → {self.labels[said]} {answer[said]:.0%}{truth}"

    def record(self, part: LabelledPart, row: int, answer: Any) -> dict[str, Any]:
        said = int(answer.argmax())
        probabilities = {f"p({label})": float(p) for label, p in zip(self.labels, answer, strict=True)}
        return {**named(part.raw, row), "label": self.labels[said], **probabilities}

    def baselines(self) -> dict[str, dict[str, float]]:
        if not self._baselines:
            training, part, classes = self.parts["training"], self.parts["validation"], len(self.labels)
            found = {"commonest label": commonest(training.answers, classes, len(part.lengths))}
            if self.inputs.tokens is not None:
                rows = training.inputs, training.answers
                found["3-gram of each label"] = by_ngrams(*rows, classes, self.inputs.tokens, part.inputs)
            self._baselines = {name: self._judge(part, said) for name, said in found.items()}
        return self._baselines

    def _judge(self, part: LabelledPart, said: Probabilities) -> dict[str, float]:
        assert part.answers is not None
        rows = np.arange(len(part.lengths))
        loss = -np.log(np.maximum(said[rows, part.answers], np.finfo(float).tiny)).mean()
        return {"loss": float(loss), **self.figures(part, rows, list(said))}


def answer_columns(data: LabelledData) -> AnswerColumns:
    """Where labels are found."""
    said = [] if data.label_column is None else [data.label_column]
    return AnswerColumns(said, LABEL_NAMES, "the labels", "--label-column")
