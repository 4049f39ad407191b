"""Sequence to sequence: a text in, another out, such as a date in one form and in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch

from unspool.data.inputs import TextInputs, fit_inputs, load_inputs
from unspool.data.labelled import Raw, guess_column, read_texts
from unspool.data.metrics import exact_match, mean_edit_distance
from unspool.data.sequences import Rows, Sequences, sorted_batches
from unspool.data.tables import Table, read_table, require_columns
from unspool.data.text import Source, find_files
from unspool.data.vocabulary import KINDS
from unspool.errors import DataError
from unspool.learning.settings import Size
from unspool.nn.seq2seq import Decoded
from unspool.tasks.examples import TOGETHER, Batch, ExampleData, ExampleTask, digest_files, read_divided, some_rows
from unspool.tasks.labelled import SHOWN, remember_columns, shown
from unspool.tasks.translator import END, FIRST, PADDING, Translator, TranslatorSettings

#: Examples that are written out at an evaluation on the way, as writing takes a step a token.
WRITTEN = 256
#: Names of columns that are taken for what they say, if none is given; without a header, columns are numbered.
SOURCE_NAMES = ("source", "src", "input", "1")
TARGET_NAMES = ("target", "tgt", "output", "2")


class PairedData(ExampleData):
    """Pairs of texts: two columns without a header, or named columns of any table."""

    source_column: str | None = None
    """the texts that are read; in a file without a header, its number"""
    target_column: str | None = None
    """the texts that are written; in a file without a header, its number"""
    tokens: Literal[("auto", *KINDS)] = "auto"  # type: ignore[valid-type]
    """what a step is, on both sides; auto: words where the texts of both have blanks, else characters"""
    vocabulary: Size | None = None
    """most frequent tokens that are kept on each side; all if not said"""


@dataclass(frozen=True)
class PairedPart:
    """Ids of sources and of targets, these with their end."""

    sources: Sequences
    targets: Sequences | None
    raw: Raw

    @property
    def lengths(self) -> Rows:
        return self.sources.lengths

    @property
    def counts(self) -> Rows:
        return np.ones(len(self.sources), np.int64) if self.targets is None else self.targets.lengths

    def batch(self, rows: Rows) -> Batch:
        targets = None if self.targets is None else torch.from_numpy(self.targets.padded(rows))
        lengths = torch.from_numpy(self.lengths[rows])
        return Batch(torch.from_numpy(self.sources.padded(rows)), lengths, targets, float(self.counts[rows].sum()))


class Translation(ExampleTask):
    """Learning to write a text for each that is read. An answer is what was decoded, without start and end."""

    name = "seq2seq"
    Data = PairedData
    Model = TranslatorSettings
    unit = "tokens"
    chosen_by = "edit distance"  # of what it writes by itself, as those who use it will see it

    def __init__(
        self,
        parts: Mapping[str, PairedPart],
        source: TextInputs,
        target: TextInputs,
        longest: int,
        data: PairedData,
        **of: Any,
    ) -> None:
        super().__init__(parts, **of)
        self.source, self.target, self.data = source, target, data
        self.longest = longest  # steps of decoding, the one to the end included: as many as training's targets take
        self._copying: dict[str, float] = {}

    @classmethod
    def prepare(cls, data: PairedData, seed: int) -> Self:
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(read_divided(data, read_pairs), data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: PairedData, **of: Any) -> Self:
        """From texts that are in memory; the only answer of each is its target."""
        training = raws["training"]
        if training.answers is None:
            raise DataError("the training examples have no targets. Give the text to write for each.")
        names = zip(("source_column", "target_column"), (*training.columns, *training.answer_columns), strict=False)
        data = remember_columns(data, dict(names))
        task = cls({}, *_fit(training, _targets(training), data), 0, data, **of)
        task.parts = {name: task.part(raw) for name, raw in raws.items() if len(raw)}
        task.longest = int(task.parts["training"].counts.max())
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: PairedData) -> Self:
        try:
            source, target = (load_inputs(document[side]) for side in ("source", "target"))
            longest = int(document["longest"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the run's vocabulary.json is not that of pairs: {error!r}. Train again.") from error
        if not isinstance(source, TextInputs) or not isinstance(target, TextInputs):
            raise DataError("the run's vocabulary.json is of numbers, not of texts. Train again.")
        return cls({}, source, target, longest, remember_columns(data, dict(document["columns"])))

    def dump(self) -> dict[str, Any]:
        columns = {name: getattr(self.data, name) for name in ("source_column", "target_column")}
        sides = {"source": self.source.dump(), "target": self.target.dump()}
        return {**sides, "longest": self.longest, "columns": columns}

    def make_learner(self, settings: TranslatorSettings) -> Translator:
        return Translator(settings, FIRST + self.source.tokens, FIRST + self.target.tokens, self.longest)

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        training = self.parts["training"]
        read, written = (f"{steps.min()} to {steps.max()}" for steps in (training.lengths, training.counts - 1))
        columns = self.data.source_column, self.data.target_column
        unnamed = all(name is not None and name.isdigit() for name in columns)
        return {
            **({"columns": "without names: the first line is taken for a pair"} if unnamed else {}),
            "data": f"{sizes} (pairs of {read} {self.source.unit} and {written} {self.target.unit})",
            "vocabulary": f"{self.source.tokens:,} {self.source.unit} to {self.target.tokens:,} {self.target.unit}",
        }

    def read(self, source: Source, *, answers: bool = True) -> PairedPart:
        return self.part(read_pairs(self.data, source, answers))

    def part(self, raw: Raw) -> PairedPart:
        """Raw pairs in the terms of the training data."""
        longest = self.data.longest
        read = self.source.encode(replace(raw, place=lambda row: f"{raw.place(row)}, source"), longest)
        sources = Sequences(read.values + FIRST, read.lengths)
        if raw.answers is None:
            return PairedPart(sources, None, raw)
        written = self.target.encode(_targets(raw), longest)
        return PairedPart(sources, Sequences.of(np.append(one + FIRST, END) for one in written), raw)

    def assess(self, learner: Any, part: Any, limit: int | None = None) -> dict[str, float]:
        rows = some_rows(part, limit)
        loss, right = self.measure(learner, part, rows)
        written = rows[:WRITTEN] if limit else rows
        _, answers = self.ask(learner, part, written)
        return {"loss": loss, "token accuracy": right, **self.figures(part, written, answers)}

    @torch.no_grad()
    def measure(self, learner: Translator, part: PairedPart, rows: Rows) -> tuple[float, float]:
        """The mean loss of target tokens, ends included, and the share that is likeliest, after the true ones."""
        was = learner.training
        learner.eval()
        total, right, units = 0.0, 0, 0.0
        for places in sorted_batches(part.lengths[rows], TOGETHER):
            batch = part.batch(rows[places])
            logits = learner.score(batch).levels[-1]
            total, units = total + float(learner.total(logits, batch)), units + batch.units
            right += int(((logits.argmax(-1) == batch.targets) & (batch.targets != PADDING)).sum())
        learner.train(was)
        return total / units, right / units

    def figures(self, part: PairedPart, rows: Rows, answers: Sequence[Any]) -> dict[str, float]:
        return self._compare(part, rows, [self.text(answer) for answer in answers])

    def baselines(self) -> dict[str, dict[str, float]]:
        part = self.parts.get("validation")
        if part is None:
            return {}
        self._copying = self._copying or self._compare(part, np.arange(len(part.lengths)), part.raw.texts)
        return {"copying": self._copying}

    def _compare(self, part: PairedPart, rows: Rows, said: Sequence[str]) -> dict[str, float]:
        """As texts, not as ids: tokens that the model does not know are never right."""
        truth = [self._plain(_target(part.raw, int(row))) for row in rows]
        said = [self._plain(text) for text in said]
        return {"exact match": exact_match(truth, said), "edit distance": mean_edit_distance(truth, said)}

    def _plain(self, text: str) -> str:
        """Words do not know how many blanks are between them."""
        return " ".join(text.split()) if self.target.unit == "words" else text

    def text(self, answer: Decoded) -> str:
        """What was written."""
        return self.target.vocabulary.decode([token - FIRST for token in answer.tokens])

    def show(self, part: PairedPart, row: int, answer: Any) -> str:
        said, truth = self._plain(self.text(answer)), self._plain(_target(part.raw, row))
        line = f"{shown(part.raw, row)} → {said[:SHOWN]}"
        return f"✓ {line}" if said == truth else f"✗ {line}, not {truth[:SHOWN]}"

    def record(self, part: PairedPart, row: int, answer: Any) -> dict[str, Any]:
        assert part.raw.texts is not None
        return {
            "source": part.raw.texts[row],
            "target": self.text(answer),
            "log-probability": answer.log_probability,
        }


def read_pairs(data: PairedData, source: Source, answers: bool = True) -> Raw:
    """Pairs from files, or, without `answers`, sources alone.

    Where no column is named, CSV and TSV are read without a header, unless the first line is one of well-known names.
    """
    given = [name for name in (data.source_column, data.target_column) if name is not None]
    table = _read_table(source, given)
    if answers and len(table.columns) < 2:
        raise DataError(
            f"{table.files[0]} has one column only, and a pair is a source and a target. Put a tab between them in a "
            ".tsv file, or a comma in a .csv file."
        )
    if not given and len(table.columns) > 2 and not _is_header(table.columns):
        raise DataError(
            f"{table.files[0]} has {len(table.columns)} columns, and a pair has two: {', '.join(table.columns)}. Say "
            "which: --set source_column=NAME --set target_column=NAME; a column without a name has its number."
        )
    require_columns(table.columns, [data.source_column] if data.source_column else [], table.files[0])
    target = data.target_column
    if answers and target is None:
        target = guess_column(table, TARGET_NAMES, "the targets", "--set target_column=", [data.source_column or ""])
    others = [*TARGET_NAMES, target or ""]
    column = data.source_column or guess_column(table, SOURCE_NAMES, "the sources", "--set source_column=", others)
    return read_texts(table, column, [target] if answers and target is not None else [])


def _read_table(source: Source, given: Sequence[str]) -> Table:
    if not all(file.suffix.lower() in (".csv", ".tsv") for file in find_files(source)):
        return read_table(source)
    if given:
        return read_table(source, header=not all(name.isdigit() for name in given))
    bare = read_table(source, header=False)
    return read_table(source, header=True) if _is_header(bare.frame.row(0)) else bare


def _is_header(entries: Sequence[str]) -> bool:
    """Whether both columns are among well-known names, or the only one is; numbers are no names."""
    small = {entry.strip().lower() for entry in entries if not entry.strip().isdigit()}
    return bool(small & {*SOURCE_NAMES}) and (len(entries) == 1 or bool(small & {*TARGET_NAMES}))


def _target(raw: Raw, row: int) -> str:
    assert raw.answers is not None
    return str(raw.answers[row][0])


def _targets(raw: Raw) -> Raw:
    """The targets, as texts of their own."""
    for row, answer in enumerate(raw.answers or ()):
        if not isinstance(answer[0], str):
            raise DataError(f"{raw.place(row)}: the target is {answer[0]!r}, not a text. Give a string.")
    texts = [_target(raw, row) for row in range(len(raw))]
    return Raw(texts, None, raw.names, lambda row: f"{raw.place(row)}, target", None, raw.answer_columns)


def _fit(sources: Raw, targets: Raw, data: PairedData) -> tuple[TextInputs, TextInputs]:
    source, target = (fit_inputs(side, data.tokens, data.vocabulary) for side in (sources, targets))
    if not isinstance(source, TextInputs) or not isinstance(target, TextInputs):
        raise DataError("the sources are numbers, and this task reads texts. Give strings.")
    if source.unit != target.unit:  # of words and characters, which "auto" found, what does for both
        return _fit(sources, targets, data.model_copy(update={"tokens": "characters"}))
    return source, target
