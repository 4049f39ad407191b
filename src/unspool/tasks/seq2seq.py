"""Sequence to sequence: a text in, another text out, such as a date in one form and in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unspool.data import saved
from unspool.data.columns import LABEL_NAMES, SOURCE_NAMES, TRANSLATION_NAMES, guess_column
from unspool.data.delimited import DELIMITED
from unspool.data.glance import Glance
from unspool.data.inputs import TextInputs, fit_inputs, load_inputs
from unspool.data.labelled import Raw, of_texts, read_texts
from unspool.data.memory import check_list, read_examples
from unspool.data.sequences import Indices, Sequences, sorted_batches
from unspool.data.sources import find_items
from unspool.data.tables import Table, read_table, require_columns
from unspool.data.text import Source
from unspool.data.units import common_unit
from unspool.decoding.sequences import Decoded
from unspool.errors import ArgumentTypeError, DataError, ShapeError
from unspool.tasks.batch import END, FIRST, Batch
from unspool.tasks.contract import Claim, PairModel, TrainingSequences, Usage, WholeSequence
from unspool.tasks.examples import TOGETHER, choose_examples, digest_files, read_divided
from unspool.tasks.labelled import SHOWN, remember_columns, shorten_input, show_input
from unspool.tasks.metrics import exact_match, mean_edit_distance
from unspool.tasks.plain_settings import with_changes
from unspool.tasks.tolerant import TolerantTask

if TYPE_CHECKING:
    from unspool.settings.data import PairedData

#: Words from which on both entries of a first line are taken for texts, and not for the names of columns.
SENTENCE = 3
#: Examples that are decoded at an evaluation during training, as decoding takes one step per token.
DECODED = 256


@dataclass(frozen=True)
class PairedPart:
    """Ids of sources and of targets, these with their end."""

    sources: Sequences
    targets: Sequences | None
    raw: Raw

    @property
    def lengths(self) -> Indices:
        return self.sources.lengths

    @property
    def counts(self) -> Indices:
        return np.ones(len(self.sources), np.int64) if self.targets is None else self.targets.lengths

    def batch(self, indices: Indices) -> Batch:
        targets = None if self.targets is None else self.targets.padded(indices)
        units = float(self.counts[indices].sum())
        return Batch(self.sources.padded(indices), self.lengths[indices], targets, units)


class Translation(TolerantTask):
    """Learning to write a text for each text. A prediction is the decoded tokens, without start and end.

    Example:
        task = Translation.prepare(PairedData(files=("dates.tsv",)), seed=0)
        model = make_learner(task, Seq2SeqSettings(hidden=64))
        task.evaluate(model, "validation")["exact match"]
    """

    name = "seq2seq"
    unit = "tokens"
    chosen_by = "edit distance"  # of decoded texts, as users will see them

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
        self.longest = longest  # steps of decoding, as many as the targets of training take, the end included
        self._copying: dict[str, dict[str, float]] = {}  # by part

    # ── data ──

    @classmethod
    def recognize(cls, glance: Glance) -> Claim | None:
        columns = {column.lower() for column in glance.columns}
        if columns in [{*pair} for pair in zip(SOURCE_NAMES, TRANSLATION_NAMES, strict=True)]:
            return Claim(40, f"{glance.name} has pairs of texts")
        texts = _find_two_texts(glance) if len(columns) == 2 else ()
        if len(texts) < 2:
            return None
        if glance.suffix == ".tsv":
            return Claim(40, f"{glance.name} has pairs of texts")
        if any(glance.roles.kinds[text] == "label" for text in texts):
            return None
        if all(len(text.split()) >= SENTENCE for text in texts):
            return Claim(40, f"{glance.name} has pairs of texts, and no header")
        settings = {"source_column": texts[0], "target_column": texts[1]}
        return Claim(40, f"{glance.name} has two columns of texts", settings)

    @classmethod
    def prepare(cls, data: PairedData, seed: int) -> Self:
        digest = digest_files(data.files, data.validation, data.test)
        return cls.of(read_divided(data, read_pairs), data, digest=digest, seed=seed)

    @classmethod
    def of(cls, raws: Mapping[str, Raw], data: PairedData, **of: Any) -> Self:
        """From texts in memory, by the part that they are for; each has one target."""
        training = raws["training"]
        if training.targets is None:
            raise DataError("the training examples have no targets. Give the text to write for each.")
        names = zip(("source_column", "target_column"), (*training.columns, *training.target_columns), strict=False)
        data = remember_columns(data, dict(names))
        task = cls({}, *_fit(training, _target_texts(training), data), 0, data, **of)
        task.parts = {name: task.part(raw) for name, raw in raws.items() if len(raw)}
        task.longest = int(task.parts["training"].counts.max())
        return task

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: PairedData) -> Self:
        try:
            source, target = (load_inputs(document[side]) for side in ("source", "target"))
            longest = saved.read_count(document, "longest")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the run's vocabulary.json is not one of pairs: {error!r}. Train again.") from error
        if not isinstance(source, TextInputs) or not isinstance(target, TextInputs):
            raise DataError("the run's vocabulary.json is of numbers, not of texts. Train again.")
        return cls({}, source, target, longest, remember_columns(data, saved.read_columns(document)))

    def dump(self) -> dict[str, Any]:
        columns = {name: getattr(self.data, name) for name in ("source_column", "target_column")}
        sides = {"source": self.source.dump(), "target": self.target.dump()}
        return {**sides, "longest": self.longest, "columns": columns}

    def embedded_tokens(self) -> Mapping[str, int]:
        return {token: FIRST + number for token, number in self.source.vocabulary.listed().items()}

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        training = self.parts["training"]
        read, written = (f"{steps.min()} to {steps.max()}" for steps in (training.lengths, training.counts - 1))
        columns = self.data.source_column, self.data.target_column
        unnamed = all(name is not None and name.isdigit() for name in columns)
        return {
            **({"columns": "without names: the first line is read as a pair"} if unnamed else {}),
            "data": f"{sizes} (pairs of {read} {self.source.unit} and {written} {self.target.unit})",
            "vocabulary": f"{self.source.tokens:,} {self.source.unit} to {self.target.tokens:,} {self.target.unit}",
        }

    def gather(self, source: Source, *, targets: bool = True) -> Raw:
        return read_pairs(self.data, source, targets)

    def gather_texts(self, texts: Sequence[str], place: Callable[[int], str]) -> Raw:
        return of_texts(texts, place)

    def part_of(self, examples: Any, targets: Any = None) -> PairedPart:
        """A part from texts.

        Args:
            examples: The sources.
            targets: The text to write for each; None where they are not known.
        """
        raw = read_examples(examples)
        return self.part(raw if targets is None else replace(raw, targets=_read_targets(targets, len(raw))))

    @property
    def input_columns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.data.source_column,)))

    def show_given(self, given: Raw, index: int) -> str:
        return show_input(given, index)

    def part(self, raw: Raw) -> PairedPart:
        """Raw pairs, encoded as the training data is."""
        longest = self.data.max_length
        read = self.source.encode(replace(raw, place=lambda index: f"{raw.place(index)}, source"), longest)
        sources = Sequences(read.values + FIRST, read.lengths)
        if raw.targets is None:
            return PairedPart(sources, None, raw)
        written = self.target.encode(_target_texts(raw), longest)
        return PairedPart(sources, Sequences.of(np.append(one + FIRST, END) for one in written), raw)

    def sequences(self) -> TrainingSequences:
        part = self.parts["training"]
        whole = WholeSequence("source", "target", "attention")
        sides = [list(part.sources), list(part.targets)]
        return TrainingSequences(common_unit(self.source.unit), sides, whole=whole)

    # ── the model ──

    def evaluate_part(self, learner: Any, part: Any, limit: int | None = None) -> dict[str, float]:
        indices = choose_examples(part, limit)
        loss, right = self.measure(learner, part, indices)
        decoded = indices[:DECODED] if limit else indices
        _, predictions = self.infer(learner, part, decoded)
        return {"loss": loss, "token accuracy": right, **self.metrics(part, decoded, predictions)}

    def measure(self, learner: PairModel, part: PairedPart, indices: Indices) -> tuple[float, float]:
        """The mean loss of target tokens, ends included, and their accuracy, each after the true ones."""
        total, right, units = 0.0, 0, 0.0
        for places in sorted_batches(part.lengths[indices], TOGETHER):
            batch = part.batch(indices[places])
            loss, likeliest = learner.measure(batch)
            total, right, units = total + loss, right + likeliest, units + batch.units
        return total / units, right / units

    def metrics(self, part: PairedPart, indices: Indices, predictions: Sequence[Any]) -> dict[str, float]:
        return self._compare(part, indices, [self.text(prediction) for prediction in predictions])

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        own = self.parts.get(part)
        if own is None:
            return {}
        if part not in self._copying:
            self._copying[part] = self._compare(own, np.arange(len(own.lengths)), own.raw.texts)
        return {"copying": self._copying[part]}

    def _compare(self, part: PairedPart, indices: Indices, texts: Sequence[str]) -> dict[str, float]:
        """Metrics of texts, not of ids: tokens that the model does not know are never right."""
        y_true = [self._normalize(_target(part.raw, int(index))) for index in indices]
        y_pred = [self._normalize(text) for text in texts]
        return {"exact match": exact_match(y_true, y_pred), "edit distance": mean_edit_distance(y_true, y_pred)}

    def _normalize(self, text: str) -> str:
        """Where tokens are words, the number of spaces between them is not known."""
        return " ".join(text.split()) if self.target.unit == "words" else text

    def text(self, prediction: Decoded) -> str:
        """The decoded text."""
        return self.target.vocabulary.decode([token - FIRST for token in prediction.tokens])

    def show(self, part: PairedPart, index: int, prediction: Any) -> str:
        predicted, target = self._normalize(self.text(prediction)), self._normalize(_target(part.raw, index))
        line = f"{shorten_input(part.raw, index)} → {predicted[:SHOWN]}"
        return f"✓ {line}" if predicted == target else f"✗ {line}, not {target[:SHOWN]}"

    def usage(self) -> Usage:
        return Usage("text", self.source.unit)

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        return ("source", "target", "log-probability")

    def record(self, part: PairedPart, index: int, prediction: Any) -> dict[str, Any]:
        assert part.raw.texts is not None
        values = [part.raw.texts[index], self.text(prediction), prediction.log_probability]
        return dict(zip(self.prediction_columns, values, strict=True))


def _find_two_texts(glance: Glance) -> Sequence[str]:
    return glance.roles.of_kind("text", "label") if glance.find(LABEL_NAMES) is None else ()


def read_pairs(data: PairedData, source: Source, targets: bool = True) -> Raw:
    """Read pairs from files.

    Where no column is named, CSV and TSV are read without a header, unless the first line has well-known names.

    Args:
        data: The settings, with the columns that are named.
        source: Files, folders and patterns.
        targets: Whether targets are read; without them one column is enough, and rows that cannot be read are noted.
    """
    named = [name for name in (data.source_column, data.target_column) if name is not None]
    table = _read_table(source, named, tolerant=not targets)
    _check_columns(table, data, named, targets)
    target = _find_target(table, data) if targets else None
    column = data.source_column
    if column is None:
        taken = [*TRANSLATION_NAMES, target or data.target_column or ""]
        column = guess_column(table, SOURCE_NAMES, "the sources", "source_column", taken)
    return read_texts(table, column, [] if target is None else [target])


def _find_target(table: Table, data: PairedData) -> str:
    """The column of targets, by a guess where it is not named."""
    if data.target_column is not None:
        return data.target_column
    return guess_column(table, TRANSLATION_NAMES, "the targets", "target_column", [data.source_column or ""])


def _check_columns(table: Table, data: PairedData, named: Sequence[str], targets: bool) -> None:
    """Refuse a table in which pairs cannot be found."""
    if targets and len(table.columns) < 2:
        raise DataError(
            f"{table.files[0]} has one column only, and a pair is a source and a target. Put a tab between them in a "
            ".tsv file, or a comma in a .csv file."
        )
    if not named and len(table.columns) > 2 and not _is_header(table.columns):
        raise DataError(
            f"{table.files[0]} has {len(table.columns)} columns, and a pair has two: {', '.join(table.columns)}. Name "
            "them with `source_column` and `target_column`; a column without a name has its number."
        )
    if data.source_column:
        require_columns(table.columns, [data.source_column], table.files[0])


def _read_table(source: Source, named: Sequence[str], tolerant: bool) -> Table:
    if not all(item.path.suffix.lower() in DELIMITED for item in find_items(source)):
        return read_table(source, tolerant=tolerant)
    if named:
        return read_table(source, header=not all(name.isdigit() for name in named), tolerant=tolerant)
    bare = read_table(source, header=False, tolerant=tolerant)
    return read_table(source, header=True, tolerant=tolerant) if _is_header(bare.frame.row(0)) else bare


def _is_header(entries: Sequence[str]) -> bool:
    """Whether both columns have well-known names, or the only one has; numbers are no names."""
    names = {entry.strip().lower() for entry in entries if entry and not entry.strip().isdigit()}
    return bool(names & {*SOURCE_NAMES}) and (len(entries) == 1 or bool(names & {*TRANSLATION_NAMES}))


def _read_targets(targets: Any, count: int) -> list[tuple[str]]:
    found = list(check_list(targets, "targets", "Give a list with a text for each example"))
    if len(found) != count:
        problem = f"are not as many as the {count} examples"
        raise ShapeError.of("targets", len(found), problem, "Give one for each")
    for place, target in enumerate(found):
        if not isinstance(target, str):
            raise ArgumentTypeError.of(f"targets[{place}]", target, "is not a text", "Give a string")
    return [(str(target),) for target in found]


def _target(raw: Raw, index: int) -> str:
    assert raw.targets is not None
    return str(raw.targets[index][0])


def _target_texts(raw: Raw) -> Raw:
    """The targets, as texts of their own."""
    for index, target in enumerate(raw.targets or ()):
        if not isinstance(target[0], str):
            raise DataError(f"{raw.place(index)}: the target is {target[0]!r}, not a text. Give a string.")
    texts = [_target(raw, index) for index in range(len(raw))]
    return Raw(texts, None, raw.names, lambda index: f"{raw.place(index)}, target", None, raw.target_columns)


def _fit(sources: Raw, targets: Raw, data: PairedData) -> tuple[TextInputs, TextInputs]:
    source, target = (fit_inputs(side, data.tokenizer, data.vocab_size) for side in (sources, targets))
    if not isinstance(source, TextInputs) or not isinstance(target, TextInputs):
        raise DataError("the sources are numbers, and this task reads texts. Give strings.")
    if source.unit != target.unit:  # "auto" found words on one side: characters do for both
        return _fit(sources, targets, with_changes(data, {"tokenizer": "char"}))
    return source, target
