"""Classification: which of some labels a text, or a sequence of numbers, has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from unspool.data.inputs import Inputs, fit_inputs, load_inputs
from unspool.data.labelled import LABEL_NAMES, TEXT_NAMES, Raw, guess_column, read_steps, read_texts
from unspool.data.metrics import accuracy, macro_f1
from unspool.data.sequences import Rows, Sequences, divide
from unspool.data.tables import read_table
from unspool.data.text import Source
from unspool.data.vocabulary import KINDS
from unspool.errors import DataError
from unspool.learning.settings import Size
from unspool.tasks.examples import Batch, ExampleData, ExampleTask, digest_files
from unspool.tasks.pooled import PooledModel, PooledSettings

#: Characters of a text that a line of a sample shows.
SHOWN = 60


class LabelledData(ExampleData):
    """Labelled text, or labelled sequences of numbers in long form (id_column, time_column, features)."""

    text_column: str | None = None
    """the texts; guessed from the names if not said"""
    label_column: str | None = None
    """the labels; guessed from the names if not said"""
    tokens: Literal[("auto", *KINDS)] = "auto"  # type: ignore[valid-type]
    """what a step is; auto: words where texts have blanks, else characters"""
    vocabulary: Size | None = None
    """most frequent tokens that are kept; all if not said"""
    lowercase: bool = False
    """texts are read in small letters"""
    id_column: str | None = None
    """of numbers in long form: which sequence a row is a step of"""
    time_column: str | None = None
    """of numbers in long form: when; rows must be in its order"""
    features: tuple[str, ...] = ()
    """of numbers in long form: the columns that are read; all others if not said"""


@dataclass(frozen=True)
class LabelledPart:
    """Sequences and the numbers of their labels."""

    inputs: Sequences
    labels: NDArray[np.int64] | None
    raw: Raw

    @property
    def lengths(self) -> Rows:
        return self.inputs.lengths

    @property
    def counts(self) -> Rows:
        return np.ones(len(self.inputs), np.int64)

    def batch(self, rows: Rows) -> Batch:
        targets = None if self.labels is None else torch.from_numpy(self.labels[rows])
        lengths = torch.from_numpy(self.inputs.lengths[rows])
        return Batch(torch.from_numpy(self.inputs.padded(rows)), lengths, targets, len(rows))


class Classifier(PooledModel):
    """log P(label | sequence)."""

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(scores, batch.targets, reduction="sum")

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.softmax(-1).double().numpy())


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

    @classmethod
    def prepare(cls, data: LabelledData, seed: int) -> Self:
        raws = read_divided(data, read_raw)
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(raws, data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: LabelledData, **of: Any) -> Self:
        """From sequences that are in memory."""
        training = raws["training"]
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
        return cls({}, load_inputs(document), document["labels"], data)

    def dump(self) -> dict[str, Any]:
        return {**self.inputs.dump(), "labels": self.labels}

    def make_learner(self, settings: PooledSettings) -> Classifier:
        return Classifier(settings, self.inputs, len(self.labels))

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        steps = self.parts["training"].lengths
        width = f" of {self.inputs.features}" if self.inputs.tokens is None else ""
        return {
            "data": f"{sizes} (examples of {steps.min()} to {steps.max()} {self.inputs.unit}{width})",
            "labels": f"{len(self.labels)}: {', '.join(map(str, self.labels[:8]))}{', …' * (len(self.labels) > 8)}",
        }

    def read(self, source: Source, *, answers: bool = True) -> LabelledPart:
        return self.part(read_raw(self.data, source, answers))

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
        assert part.labels is not None
        truth, said = part.labels[rows], np.stack(answers).argmax(-1)
        return {"accuracy": accuracy(truth, said), "macro-F1": macro_f1(truth, said, len(self.labels))}

    def show(self, part: LabelledPart, row: int, answer: Any) -> str:
        assert part.labels is not None
        said = int(answer.argmax())
        text = part.raw.names[row] if part.raw.texts is None else " ".join(part.raw.texts[row].split())[:SHOWN]
        right = said == part.labels[row]
        truth = "" if right else f", not {self.labels[part.labels[row]]}"
        return f"{'✓' if right else '✗'} {text} → {self.labels[said]} {answer[said]:.0%}{truth}"

    def record(self, part: LabelledPart, row: int, answer: Any) -> dict[str, Any]:
        said = int(answer.argmax())
        probabilities = {f"p({label})": float(p) for label, p in zip(self.labels, answer, strict=True)}
        return {**named(part.raw, row), "label": self.labels[said], **probabilities}


def named(raw: Raw, row: int) -> dict[str, Any]:
    """The columns of a prediction that say which sequence it is for."""
    return {"id": raw.names[row]} if raw.texts is None else {"text": raw.texts[row]}


def read_raw(data: LabelledData, source: Source, answers: bool = True) -> Raw:
    """Labelled sequences from files."""
    table = read_table(source)
    label = data.label_column
    if answers and label is None:
        label = guess_column(table, LABEL_NAMES, "the labels", "--label-column", [data.text_column or ""])
    columns = [label] if answers and label is not None else []
    if data.id_column is not None:
        other = {data.id_column, data.time_column, label, *LABEL_NAMES}
        features = data.features or [column for column in table.columns if column not in other]
        return read_steps(table, data.id_column, data.time_column, features, columns)
    text = data.text_column or guess_column(table, TEXT_NAMES, "the texts", "--text-column", columns)
    return read_texts(table, text, columns)


def read_divided(data: Any, read: Any) -> dict[str, Raw]:
    """Training, validation and test: the examples of files of their own, and seeded draws of the others'."""
    whole: Raw = read(data, data.files)
    shares = [share if isinstance(share, float) else 0.0 for share in (data.validation, data.test)]
    rows = divide(len(whole), shares[0], shares[1], data.split_seed)
    found = {name: whole.take(own) for name, own in zip(("training", "validation", "test"), rows, strict=True)}
    for name in ("validation", "test"):
        given = getattr(data, name)
        if not isinstance(given, float):
            found[name] = read(data, given)
    if not len(found["validation"]):
        raise DataError("there is nothing to validate on. Give `validation`, a share above 0 or files.")
    return found
