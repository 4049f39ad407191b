"""Sequences of which something is said, text or numbers in long form: settings, reading, parts, words about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.data.inputs import Inputs, NumberInputs
from unspool.data.labelled import TEXT_NAMES, Raw, guess_column, read_steps, read_texts
from unspool.data.sequences import Rows, Sequences
from unspool.data.tables import read_table
from unspool.data.text import Source
from unspool.data.vocabulary import KINDS
from unspool.errors import ArgumentError
from unspool.learning.settings import Effect, Size
from unspool.tasks.examples import Batch, ExampleData

#: Characters of a text that a line of a sample shows.
SHOWN = 60


class SequenceData(ExampleData):
    """Text, or sequences of numbers in long form (id_column, time_column, features)."""

    effects = (
        Effect(("time_column", "features"), "id_column", (None,), among=False),
        Effect(("text_column", "tokens", "vocabulary", "lowercase"), "id_column", (None,)),
    )

    text_column: str | None = None
    """the texts; guessed from the names if not said"""
    tokens: Literal[("auto", *KINDS)] = "auto"  # type: ignore[valid-type]
    """what a step is; auto: smiles in a column of that name, words where texts have blanks, else characters"""
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
class AnswerColumns:
    """Which columns say what is right: `said`, or one that is guessed by its name."""

    said: Sequence[str]
    names: Sequence[str]  # well-known ones
    what: str
    option: str
    numbers: bool = False


@dataclass(frozen=True)
class LabelledPart:
    """Sequences, and what is said of each, as the loss takes it."""

    inputs: Sequences
    answers: NDArray[Any] | None
    raw: Raw

    @property
    def lengths(self) -> Rows:
        return self.inputs.lengths

    @property
    def counts(self) -> Rows:
        return np.ones(len(self.inputs), np.int64)

    def batch(self, rows: Rows) -> Batch:
        targets = None if self.answers is None else torch.from_numpy(self.answers[rows])
        lengths = torch.from_numpy(self.inputs.lengths[rows])
        return Batch(torch.from_numpy(self.inputs.padded(rows)), lengths, targets, len(rows))


def read_raw(
    data: SequenceData, source: Source, answers: AnswerColumns, *, known: bool = True, inputs: Inputs | None = None
) -> Raw:
    """Sequences from files, with their answers if those are `known`; of numbers, the features that `inputs` reads."""
    table = read_table(source)
    columns = list(answers.said)
    if known and not columns:
        texts = [data.text_column] if data.text_column else [one for one in table.columns if one.lower() in TEXT_NAMES]
        taken = [data.id_column, data.time_column, *data.features] if data.id_column else texts
        columns = [guess_column(table, answers.names, answers.what, answers.option, [one for one in taken if one])]
    asked = columns if known else []
    if data.id_column is not None:
        other = {data.id_column, data.time_column, *columns}
        features = inputs.names if isinstance(inputs, NumberInputs) else data.features
        features = features or tuple(column for column in table.columns if column not in other)
        return read_steps(table, data.id_column, data.time_column, features, asked, answers.numbers)
    text = data.text_column or guess_column(table, TEXT_NAMES, "the texts", "--text-column", columns)
    if text in asked:
        raise ArgumentError.of("text_column", text, "is also what is to be learned", "Name another column")
    return read_texts(table, text, asked, answers.numbers)


def remember_columns(data: Any, columns: Mapping[str, Any]) -> Any:
    """The settings with columns where none was said: later files of a run are read by what was guessed at first."""
    return data.model_copy(update={name: one for name, one in columns.items() if one and not getattr(data, name)})


def text_column(raw: Raw) -> str | None:
    """The column that texts came from."""
    return raw.columns[0] if raw.texts is not None and raw.columns else None


def describe_parts(parts: Mapping[str, LabelledPart], inputs: Inputs) -> str:
    """How many examples there are, and of what."""
    sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in parts.items())
    steps = parts["training"].lengths
    width = f" of {inputs.features}" if inputs.tokens is None else ""
    return f"{sizes} (examples of {steps.min()} to {steps.max()} {inputs.unit}{width})"


def named(raw: Raw, row: int) -> dict[str, Any]:
    """The columns of a prediction that say which sequence it is for."""
    return {"id": raw.names[row]} if raw.texts is None else {"text": raw.texts[row]}


def shown(raw: Raw, row: int) -> str:
    """A sequence in a few words."""
    return raw.names[row] if raw.texts is None else " ".join(raw.texts[row].split())[:SHOWN]
