"""Inputs: how raw sequences are encoded for a model, fitted on training data alone and kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unspool.data import saved
from unspool.data.labelled import Raw
from unspool.data.problems import Problems
from unspool.data.scale import Scale
from unspool.data.sequences import Sequences
from unspool.data.subwords import Spellings
from unspool.data.vocabulary import Vocabulary, Words, find_tokenizer, load_vocabulary
from unspool.errors import DataError

#: Fraction of spaces in texts above which these are divided into words: English has 0.17, Chinese and formulas 0.
SPACES = 0.03


@dataclass(frozen=True)
class TextInputs:
    """Texts as token ids of a vocabulary."""

    vocabulary: Vocabulary
    lowercase: bool = False

    features = 0

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def unit(self) -> str:
        """What a step is, in the plural."""
        return self.vocabulary.unit

    def encode(self, raw: Raw, longest: int) -> Sequences:
        """The ids of the texts; an empty text, or one longer than `longest`, is refused."""
        if raw.texts is None:
            raise DataError("the model reads texts, and these are numbers. Give texts.")
        texts = (text.lower() if self.lowercase else text for text in raw.texts)
        found = [np.array(self.vocabulary.ids(text), np.int64) for text in texts]
        check_lengths([len(one) for one in found], longest, raw)
        return Sequences.of(found)

    def spell(self, raw: Raw) -> Spellings | None:
        """The words of the texts, step by step as `encode` numbers them; None where tokens are not words."""
        if raw.texts is None or not isinstance(self.vocabulary, Words):
            return None
        return Spellings.of(self.vocabulary.split(text) for text in raw.texts)

    def dump(self) -> dict[str, Any]:
        return {"inputs": "text", "lowercase": self.lowercase, "vocabulary": self.vocabulary.dump()}


@dataclass(frozen=True)
class NumberInputs:
    """Numbers, each feature with mean 0 and standard deviation 1 over the training data."""

    names: tuple[str, ...]
    scale: Scale

    tokens = None
    unit = "steps"

    @property
    def features(self) -> int:
        """How many features there are."""
        return len(self.names)

    def encode(self, raw: Raw, longest: int) -> Sequences:
        """The standardized numbers; an empty sequence, one longer than `longest`, or of another width is refused."""
        if raw.series is None:
            raise DataError("the model reads numbers, and these are texts. Give numbers, with `id_column`.")
        if raw.columns and raw.columns != self.names:
            read, wanted = ", ".join(raw.columns), ", ".join(self.names)
            raise DataError(
                f"{raw.place(0)}: the features are {read}, and the model reads {wanted}. Name them: `features`."
            )
        check_lengths([len(one) for one in raw.series], longest, raw)
        check_widths(raw.series, self.features, raw)
        scaled = [self.scale.apply(one) for one in raw.series]
        refuse_far(scaled, raw.series, raw)
        return Sequences.of(scaled)

    def spell(self, raw: Raw) -> None:
        """None: numbers have no words."""

    def dump(self) -> dict[str, Any]:
        return {"inputs": "numbers", "names": list(self.names), **self.scale.dump()}


Inputs = TextInputs | NumberInputs


def fit_inputs(
    raw: Raw, tokenizer: str = "auto", limit: int | None = None, lowercase: bool = False, names: Sequence[str] = ()
) -> Inputs:
    """Fit the inputs of training data.

    Args:
        raw: The training sequences.
        tokenizer: A tokenizer's name; "auto" is smiles in a column of that name, word where texts have spaces, else
            char.
        limit: The largest vocabulary.
        lowercase: Whether to lowercase texts.
        names: Names of the features, for numbers without column names.

    Returns:
        `TextInputs` or `NumberInputs`, by what the sequences are.
    """
    if raw.series is not None:
        return _fit_numbers(raw, raw.series, names)
    assert raw.texts is not None
    texts = [text.lower() for text in raw.texts] if lowercase else raw.texts
    if tokenizer == "auto":
        tokenizer = _guess_tokenizer(raw.columns, texts)
    return TextInputs(find_tokenizer(tokenizer).fit([text + "\n" for text in texts], limit), lowercase)


def _fit_numbers(raw: Raw, series: Sequence[NDArray[np.float64]], names: Sequence[str]) -> NumberInputs:
    check_widths(series, series[0].shape[1], raw)
    values = np.concatenate(series)
    named = raw.columns or tuple(names) or tuple(str(place) for place in range(values.shape[1]))
    return NumberInputs(named, Scale.of(values))


def _guess_tokenizer(columns: Sequence[str], texts: Sequence[str]) -> str:
    if [name.lower() for name in columns] == ["smiles"]:
        return "smiles"
    spaces = sum(character.isspace() for text in texts for character in text)
    return "word" if spaces > SPACES * sum(map(len, texts)) else "char"


def load_inputs(document: Mapping[str, Any]) -> Inputs:
    """What `dump` gave."""
    try:
        if document["inputs"] == "numbers":
            names = tuple(saved.read_names(document, "names"))
            return NumberInputs(names, Scale.load(document, len(names)))
        return TextInputs(load_vocabulary(document["vocabulary"]), saved.read_flag(document, "lowercase"))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the run's vocabulary.json does not say how to read data: {error!r}. Train again.") from error


class Placed(Protocol):
    """Sequences that know their origin."""

    def place(self, index: int, /) -> str:
        """The file and line of a sequence."""


def check_lengths(lengths: Sequence[int], longest: int, raw: Placed) -> None:
    """Refuse sequences without steps, and those longer than `longest`."""
    problems = Problems()
    for index, length in enumerate(lengths):
        if not length:
            problems.add(f"{raw.place(index)}: the sequence is empty. Leave it out, or give it at least one step.")
        if length > longest:
            problems.add(
                f"{raw.place(index)}: the sequence has {length:,} steps, more than `max_length` (={longest:,}). Cut it "
                f"into parts, or, if there is memory for it, train with `max_length={length}`."
            )
    problems.refuse()


def check_widths(several: Sequence[NDArray[np.float64]], features: int, raw: Placed) -> None:
    """Refuse sequences of another number of features, and numbers that are not finite, all at once."""
    problems = Problems()
    for index, one in enumerate(several):
        if one.ndim != 2 or one.shape[1] != features:
            found = f"the sequence has shape {one.shape}, not (steps, {features}). Give all features."
            problems.add(f"{raw.place(index)}: {found}")
            continue
        for step, feature in np.argwhere(~np.isfinite(one)):
            problems.add(f"{raw.place(index)}: step {step}, feature {feature} is {one[step, feature]}. Fill it in.")
    problems.refuse()


def refuse_far(scaled: Sequence[NDArray[np.float32]], given: Sequence[NDArray[np.float64]], raw: Placed) -> None:
    """Refuse numbers that are finite, and so far from those of training that they are infinite for the model."""
    problems = Problems()
    for index, (own, values) in enumerate(zip(scaled, given, strict=True)):
        for step, feature in np.argwhere(~np.isfinite(own)):
            what = f"step {step}, feature {feature} is {values[step, feature]:g}, too far from all training data"
            problems.add(f"{raw.place(index)}: {what}. Correct it, or leave the sequence out.")
    problems.refuse()
