"""Tasks that predict labels or numbers from a whole text, or a whole sequence of numbers in long form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.data.columns import LABEL_NAMES, TEXT_NAMES, find_column, guess_column
from unspool.data.formats import find_format, has_columns
from unspool.data.glance import Glance
from unspool.data.inputs import Inputs, NumberInputs, TextInputs
from unspool.data.labelled import Raw, of_texts, read_array_items, read_steps, read_texts
from unspool.data.memory import check_list, read_examples
from unspool.data.problems import warn
from unspool.data.roles import Roles
from unspool.data.sequences import Indices, Sequences
from unspool.data.sources import find_folder_parts, find_items
from unspool.data.subwords import Spellings
from unspool.data.tables import Table, read_table
from unspool.data.text import Source
from unspool.data.units import common_unit
from unspool.errors import ArgumentError, ArgumentTypeError, DataError, ShapeError
from unspool.tasks.batch import Batch, SpelledWords
from unspool.tasks.contract import TrainingSequences, Usage, WholeSequence
from unspool.tasks.examples import read_divided
from unspool.tasks.plain_settings import with_changes
from unspool.tasks.tokens import Tokens, decode_steps
from unspool.tasks.tolerant import TolerantTask

if TYPE_CHECKING:
    from unspool.settings.data import SequenceData

#: Characters of a text that a line of a sample shows.
SHOWN = 60


@dataclass(frozen=True)
class TargetColumns:
    """Which columns hold the targets: those that are named, or one that is guessed by its name."""

    named: Sequence[str]
    well_known: Sequence[str]  # names to guess by
    what: str  # they hold, for error messages
    setting: str  # that names them
    numbers: bool = False  # whether they hold numbers, not words
    empty: bool = False  # whether a row may have none


@dataclass(frozen=True)
class LabelledPart:
    """Encoded sequences and their targets, as the loss takes them."""

    inputs: Sequences
    targets: NDArray[Any] | None
    raw: Raw
    spellings: Spellings | None = None  # where tokens are words

    @property
    def lengths(self) -> Indices:
        return self.inputs.lengths

    @property
    def counts(self) -> Indices:
        return np.ones(len(self.inputs), np.int64)

    def batch(self, indices: Indices) -> Batch:
        targets = None if self.targets is None else self.targets[indices]
        lengths, units = self.inputs.lengths[indices], float(self.counts[indices].sum())
        inputs: Any = self.inputs.padded(indices)
        if self.spellings is not None:
            inputs = SpelledWords(inputs, partial(self.spellings.batch, indices))
        return Batch(inputs, lengths, targets, units)


def read_raw(
    data: SequenceData, source: Source, targets: TargetColumns, *, known: bool = True, inputs: Inputs | None = None
) -> Raw:
    """Read sequences from files.

    Args:
        data: The settings, with the columns that are named.
        source: Files, folders and patterns.
        targets: The columns of targets.
        known: Whether the files have targets; of files without, rows that cannot be read are noted, and not refused.
        inputs: The inputs of a trained model: of numbers, only its features are read.
    """
    items = find_items(source)
    if all(find_format(item.path) == "arrays" for item in items):
        return read_array_items(items, known, targets.numbers)
    table = read_table(source, tolerant=not known)
    columns = _target_columns(data, table, targets) if known else list(targets.named)
    asked = columns if known else []
    if data.id_column is not None:
        features = _feature_columns(data, table, columns, inputs)
        return read_steps(table, data.id_column, data.time_column, features, asked, targets.numbers, targets.empty)
    text = data.text_column or _guess_text(table, columns)
    if text in asked:
        raise ArgumentError.of("text_column", text, "is also the column to predict", "Name another column")
    return read_texts(table, text, asked, targets.numbers, targets.empty)


def _target_columns(data: SequenceData, table: Table, targets: TargetColumns) -> list[str]:
    """The columns of targets, by a guess where none is named."""
    if targets.named:
        return list(targets.named)
    return [guess_column(table, targets.well_known, targets.what, targets.setting, _input_columns(data, table))]


def read_parts(data: SequenceData, targets: TargetColumns) -> dict[str, Raw]:
    """Read training, validation and test sequences, as `read_divided` does.

    A folder may have a test part without targets, as competitions publish it. It is left out with a warning.

    Args:
        data: The settings, with the columns that are named.
        targets: The columns of targets.

    Returns:
        Part → its sequences; those of the test part may be none.

    Example:
        read_parts(data, label_columns(data))["training"].texts
    """
    training: list[Raw] = []  # what is read first
    test = find_folder_parts(data.files).get("test")

    def read(_: SequenceData, source: Source) -> Raw:
        missing = _missing_columns(source, training[0].target_columns) if source == test else []
        if missing:
            warn(f"{source} has no column {missing[0]!r}, and is not used as test data. It can be given to `predict`.")
            return training[0].take(np.arange(0))
        training.append(read_raw(data, source, targets))
        return training[-1]

    return read_divided(data, read)


def _missing_columns(source: Source, columns: Sequence[str]) -> list[str]:
    if not columns or not all(has_columns(item.path) for item in find_items(source)):
        return []
    known = read_table(source, tolerant=True).columns
    return [column for column in columns if column not in known]


def _guess_text(table: Table, targets: Sequence[str]) -> str:
    """The column of texts; times are none, though they can be read as such."""
    roles = Roles(table)
    found = _find_text(roles, next(iter(targets), None))
    if found is None:
        found = guess_column(table, TEXT_NAMES, "the texts", "text_column", targets)
    if roles.kinds[found] == "time":
        raise DataError(
            f"{table.files[0]}: `{found}` holds times, not texts. Name the texts with `text_column`; to predict the "
            "next values of a series, give `task='forecast'`."
        )
    return found


def _input_columns(data: SequenceData, table: Table) -> list[str]:
    """Columns that are input, and so hold no targets."""
    if data.id_column is not None:
        return [name for name in (data.id_column, data.time_column, *data.features) if name]
    if data.text_column is not None:
        return [data.text_column]
    return [name for name in table.columns if name.lower() in TEXT_NAMES]


def _feature_columns(
    data: SequenceData, table: Table, targets: Sequence[str], inputs: Inputs | None
) -> tuple[str, ...]:
    """Those of a trained model, those that are named, or all that are nothing else."""
    features = inputs.names if isinstance(inputs, NumberInputs) else data.features
    other = {data.id_column, data.time_column, *targets}
    return features or tuple(column for column in table.columns if column not in other)


class Found(NamedTuple):
    """The column that is predicted from the others of a table, and the settings that name these."""

    target: str
    inputs: Mapping[str, Any]


def find_target(glance: Glance) -> Found | None:
    """The column of a table that is predicted from the others: a label or number beside a text, or beside an id."""
    if not glance.is_table:
        return None
    roles, given = glance.roles, glance.settings
    named = given.get("label_column") or find_column(roles.of_kind("label", "text", "number"), LABEL_NAMES)
    owner = given.get("id_column") or (roles.find_owner_of(named) if named else None)
    if named and owner:
        return Found(named, _name_steps(owner, given.get("time_column") or roles.find_time([named, owner])))
    return _find_beside_text(roles, named, given.get("text_column"))


def _name_steps(owner: str, time: str | None) -> dict[str, Any]:
    """The settings that name the columns of steps."""
    return {"id_column": owner, **({"time_column": time} if time else {})}


def _find_beside_text(roles: Roles, named: str | None, text: str | None) -> Found | None:
    """A label or number beside a text."""
    text = text or _find_text(roles, named)
    if text is None:
        return None
    target = named if named and named != text else _only_target(roles, text)
    return None if target is None else Found(target, {"text_column": text})


def _find_text(roles: Roles, label: str | None) -> str | None:
    """The column of texts: of a well-known name, the only one with long entries, or the only one beside a label."""
    words = [column for column in roles.of_kind("text", "label") if column != label]
    texts = [column for column in words if roles.kinds[column] == "text" and not roles.is_identity(column)]
    if len(roles.table.columns) == 2 and len(texts) != 1:
        texts = words
    return find_column(words, TEXT_NAMES) or (texts[0] if len(texts) == 1 else None)


def _only_target(roles: Roles, text: str) -> str | None:
    """The only column of labels or of numbers beside a text; ids do not count."""
    free = [one for one in roles.of_kind("label", "number") if one != text and not roles.is_identity(one)]
    return free[0] if len(free) == 1 else None


def remember_columns(data: Any, columns: Mapping[str, Any]) -> Any:
    """The settings with columns where none was named, so that later files of a run are read by the same ones."""
    return with_changes(data, {name: one for name, one in columns.items() if one and not getattr(data, name)})


def text_column(raw: Raw) -> str | None:
    """The column that texts came from."""
    return raw.columns[0] if raw.texts is not None and raw.columns else None


def show_input(raw: Raw, index: int) -> str:
    """A sequence as predictions name it: its text, or its id."""
    return raw.names[index] if raw.texts is None else raw.texts[index]


def shorten_input(raw: Raw, index: int) -> str:
    """A sequence in a few words."""
    return raw.names[index] if raw.texts is None else " ".join(raw.texts[index].split())[:SHOWN]


class LabelledTask(TolerantTask):
    """A task that predicts from a whole sequence. A subclass says what, and with which columns."""

    #: What is predicted, in the singular.
    predicted: ClassVar[str]
    inputs: Inputs
    data: Any

    @abstractmethod
    def target_columns(self) -> TargetColumns:
        """Where targets are found in other files."""

    @abstractmethod
    def part(self, raw: Raw) -> Any:
        """Raw sequences, encoded as the training data is."""

    def gather(self, source: Source, *, targets: bool = True) -> Raw:
        return read_raw(self.data, source, self.target_columns(), known=targets, inputs=self.inputs)

    def gather_texts(self, texts: Sequence[str], place: Callable[[int], str]) -> Raw:
        if self.inputs.tokens is None:
            raise DataError("the model reads sequences of numbers, and these are texts. Give a file with numbers.")
        return of_texts(texts, place)

    def part_of(self, examples: Any, targets: Any = None) -> Any:
        """A part from texts, or from sequences of numbers: arrays (steps, features) or (steps,), rows of a table.

        Args:
            examples: As `data.memory.read_examples` takes them.
            targets: One per example; None where they are not known.
        """
        raw = read_examples(examples)
        return self.part(raw if targets is None else replace(raw, targets=self.read_targets(targets, len(raw))))

    def usage(self) -> Usage:
        reads = "text" if isinstance(self.inputs, TextInputs) else "numbers"
        return Usage(reads, self.inputs.unit, self.output_names, getattr(self.inputs, "names", ()))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of what is predicted: labels, or numbers."""
        return ()

    def encode_steps(self, given: Any) -> Any:
        """The steps of one text, or of one sequence of numbers (steps, features); no step where it is empty."""
        if self._is_empty(given):
            return np.empty((0, 1), np.int64)
        if isinstance(self.inputs, TextInputs) and not isinstance(given, str):
            problem = f"is of type {type(given).__name__}, and the model reads texts"
            raise ArgumentTypeError.of("given", given, problem, "Give one text, not its tokens")
        return self.part_of([given]).batch(np.array([0])).inputs

    def _is_empty(self, given: Any) -> bool:
        """Whether there is nothing to read: no number, or a text without tokens."""
        if isinstance(given, str) and isinstance(self.inputs, TextInputs):
            return not given.strip() and not self.inputs.vocabulary.ids(given)
        listed = isinstance(given, str | list | tuple) or getattr(given, "ndim", 0) > 0
        return listed and not len(given)

    def encode_step(self, x: Any) -> Any:
        if isinstance(self.inputs, TextInputs):
            return x
        values = self._read_step(x)
        scaled = self.inputs.scale.apply(values)
        if not np.isfinite(scaled).all():
            problem = "has a number that is too far from all training data"
            raise ArgumentError.of("x", values.tolist(), problem, "Correct it, or leave the step out")
        return scaled

    def _read_step(self, x: Any) -> NDArray[np.float64]:
        """One number per feature."""
        try:
            given = np.asarray(x)
            if given.dtype.kind not in "biufO":  # digits and complex numbers would be converted
                raise TypeError(f"it has the type {given.dtype}")
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentTypeError.of("x", x, f"is not a list of numbers: {error}", "Give one per feature") from error
        if values.shape != (self.inputs.features,) or not np.isfinite(values).all():
            problem = f"is not {self.inputs.features} finite number(s)"
            raise ShapeError.of("x", np.shape(x), problem, "Give one per feature")
        return values

    def read_targets(self, targets: Any, count: int) -> list[tuple[Any, ...]]:
        """Targets in memory as entries of target columns, as many as there are examples."""
        found = list(check_list(targets, "targets", "Give a list with one per example"))
        if len(found) != count:
            raise ShapeError.of("targets", len(found), f"are not as many as the {count} examples", "Give one for each")
        for place, target in enumerate(found):
            if not self.is_target(target):
                problem = f"is of type {type(target).__name__}, and cannot be a {self.predicted}"
                raise ArgumentTypeError.of(f"targets[{place}]", target, problem, f"Give a {self.predicted} per example")
        return [self.read_target(target) for target in found]

    @abstractmethod
    def is_target(self, target: Any) -> bool:
        """Whether what is given as the target of an example is of a type that can be one."""

    @abstractmethod
    def read_target(self, target: Any) -> tuple[Any, ...]:
        """The target of an example as entries of target columns."""

    def show_given(self, given: Raw, index: int) -> str:
        return show_input(given, index)

    @property
    def input_columns(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.data.text_column, self.data.id_column)))

    def describe(self) -> Mapping[str, str]:
        sizes = ", ".join(f"{len(part.lengths):,} for {name}" for name, part in self.parts.items())
        steps = self.parts["training"].lengths
        width = f" of {self.inputs.features}" if self.inputs.tokens is None else ""
        column = getattr(self.data, "text_column", None)
        read = f", read from the column {column!r}" if column and self.inputs.tokens is not None else ""
        return {"data": f"{sizes} (examples of {steps.min()} to {steps.max()} {self.inputs.unit}{width}{read})"}

    def embedded_tokens(self) -> Mapping[str, int]:
        return self.inputs.vocabulary.listed() if isinstance(self.inputs, TextInputs) else {}

    def sequences(self) -> TrainingSequences:
        whole = WholeSequence("sequence", self.predicted, "pooling over all steps")
        return TrainingSequences(common_unit(self.inputs.unit), [list(self.parts["training"].inputs)], whole=whole)

    def tokens(self, part: LabelledPart, batch: Batch, indices: Indices) -> Tokens | None:  # noqa: ARG002
        if not isinstance(self.inputs, TextInputs):
            return None
        ids = batch.inputs.ids if isinstance(batch.inputs, SpelledWords) else batch.inputs
        return decode_steps(ids, self.inputs.vocabulary)

    @property
    def input_column(self) -> str:
        """The column of predictions that says which sequence a row is for."""
        return "id" if self.inputs.tokens is None else "text"
