"""The words and characters of tagged sentences, and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.sequences import Sequences
from unspool.data.tagged import Sentence

#: Characters of a word that are read; of a longer one the middle is left out, as its start and its end tell most.
SPELLED = 40


@dataclass(frozen=True)
class Lexicon:
    """The words and the characters that have ids of their own, from 1 up; all others share 0.

    Those that occur once in the training data share it too, so that the unknown is learned from the rare.
    """

    words: tuple[str, ...]
    characters: tuple[str, ...]
    lowercase: bool

    @classmethod
    def fit(cls, sentences: Iterable[Sentence], lowercase: bool) -> Self:
        """The lexicon of training data."""
        counts = Counter(word for sentence in sentences for word in sentence.words)
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for word, count in counts.items():
            words[word.lower() if lowercase else word] += count
            for character in spelled(word):
                characters[character] += count
        return cls(_repeated(words), _repeated(characters), lowercase)

    def encode(self, forms: Sequence[str]) -> tuple[NDArray[np.int64], Sequences]:
        """The ids of words, and the ids of the characters of each."""
        known = [form.lower() for form in forms] if self.lowercase else forms
        characters = _number(self.characters)
        letters = (_encode(spelled(form), characters) for form in forms)
        return _encode(known, _number(self.words)), Sequences.of(letters)


def _number(known: Iterable[str]) -> dict[str, int]:
    return {form: number for number, form in enumerate(known, 1)}


def _encode(forms: Iterable[str], numbers: Mapping[str, int]) -> NDArray[np.int64]:
    """The numbers of words or characters; 0 for those that are not known."""
    return np.array([numbers.get(form, 0) for form in forms], np.int64)


def spelled(word: str) -> str:
    """The characters of a word that are read."""
    half = SPELLED // 2
    return word if len(word) <= SPELLED else word[:half] + word[-half:]


def _repeated(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(entry for entry, count in counts.items() if count > 1))
