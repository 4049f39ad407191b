"""Inputs: how raw sequences become what a model reads, fitted on training data alone and kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unspool.data.labelled import Raw
from unspool.data.scale import Scale
from unspool.data.sequences import Sequences
from unspool.data.vocabulary import Vocabulary, find_kind, load_vocabulary
from unspool.errors import DataError

#: Share of blanks among characters from which on a text has words: English has 0.17, Chinese and formulas none.
BLANKS = 0.03


@dataclass(frozen=True)
class TextInputs:
    """Texts as ids of a vocabulary."""

    vocabulary: Vocabulary
    lowercase: bool = False

    features = 0

    @property
    def tokens(self) -> int:
        """How many there are."""
        return len(self.vocabulary)

    @property
    def unit(self) -> str:
        """What a step is."""
        return self.vocabulary.kind

    def encode(self, raw: Raw, longest: int) -> Sequences:
        """The texts' ids; an empty one, or one longer than `longest`, is refused."""
        if raw.texts is None:
            raise DataError("the model reads texts, and these are numbers. Give the data that it was made for.")
        texts = (text.lower() if self.lowercase else text for text in raw.texts)
        found = [np.array(self.vocabulary.ids(text), np.int64) for text in texts]
        check_lengths([len(one) for one in found], longest, raw)
        return Sequences.of(found)

    def dump(self) -> dict[str, Any]:
        return {"inputs": "text", "lowercase": self.lowercase, "vocabulary": self.vocabulary.dump()}


@dataclass(frozen=True)
class NumberInputs:
    """Numbers, each feature with mean 0 and deviation 1 over the training data."""

    names: tuple[str, ...]
    scale: Scale

    tokens = None
    unit = "steps"

    @property
    def features(self) -> int:
        """How many there are."""
        return len(self.names)

    def encode(self, raw: Raw, longest: int) -> Sequences:
        """The scaled numbers; an empty sequence, a longer one than `longest`, or another width is refused."""
        if raw.series is None:
            raise DataError("the model reads numbers, and these are texts. Give the data that it was made for.")
        if raw.columns and raw.columns != self.names:
            read, wanted = ", ".join(raw.columns), ", ".join(self.names)
            raise DataError(
                f"{raw.place(0)}: the features are {read}, and the model reads {wanted}. Name them: `features`."
            )
        check_lengths([len(one) for one in raw.series], longest, raw)
        for row, one in enumerate(raw.series):
            check_width(one, self.features, raw.place(row))
        return Sequences.of(self.scale.apply(one) for one in raw.series)

    def dump(self) -> dict[str, Any]:
        return {"inputs": "numbers", "names": list(self.names), **self.scale.dump()}


Inputs = TextInputs | NumberInputs


def fit_inputs(
    raw: Raw, tokens: str = "auto", limit: int | None = None, lowercase: bool = False, names: Sequence[str] = ()
) -> Inputs:
    """The inputs of training data.

    `tokens` "auto" are smiles in a column of that name, words where texts have blanks, else characters. `names` are the
    features', where the data does not say them.
    """
    if raw.series is not None:
        for row, one in enumerate(raw.series):
            check_width(one, raw.series[0].shape[1], raw.place(row))
        values = np.concatenate(raw.series)
        named = raw.columns or tuple(names) or tuple(str(place) for place in range(values.shape[1]))
        return NumberInputs(named, Scale.of(values))
    assert raw.texts is not None
    texts = [text.lower() for text in raw.texts] if lowercase else raw.texts
    if tokens == "auto" and [name.lower() for name in raw.columns] == ["smiles"]:
        tokens = "smiles"
    elif tokens == "auto":
        count = sum(map(len, texts))
        blanks = sum(character.isspace() for text in texts for character in text)
        tokens = "words" if blanks > BLANKS * count else "characters"
    return TextInputs(find_kind(tokens).fit([text + "\n" for text in texts], limit), lowercase)


def load_inputs(document: Mapping[str, Any]) -> Inputs:
    """What `dump` gave."""
    try:
        if document["inputs"] == "numbers":
            names = tuple(document["names"])
            return NumberInputs(names, Scale.load(document, len(names)))
        return TextInputs(load_vocabulary(document["vocabulary"]), bool(document["lowercase"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the run's vocabulary.json does not say how to read data: {error!r}. Train again.") from error


class Placed(Protocol):
    """Sequences that know where they are from."""

    def place(self, row: int, /) -> str:
        """The file and line of a sequence."""


def check_lengths(lengths: Sequence[int], longest: int, raw: Placed) -> None:
    """Refuse sequences without steps, and those for which memory may not be enough."""
    for row, length in enumerate(lengths):
        if not length:
            raise DataError(f"{raw.place(row)}: the sequence is empty. Leave it out, or give it at least one step.")
        if length > longest:
            raise DataError(
                f"{raw.place(row)}: the sequence has {length:,} steps, more than `longest` (={longest:,}). Cut it into "
                f"parts, or, if there is memory for it, train with --set longest={length}."
            )


def check_width(series: NDArray[np.float64], features: int, place: str) -> None:
    """Refuse a sequence of other features than the model reads, and numbers that are none."""
    if series.ndim != 2 or series.shape[1] != features:
        raise DataError(f"{place}: the sequence has shape {series.shape}, not (steps, {features}). Give all features.")
    bad = np.argwhere(~np.isfinite(series))
    if len(bad):
        step, feature = bad[0]
        raise DataError(f"{place}: step {step}, feature {feature} is {series[step, feature]}. Fill it in.")
