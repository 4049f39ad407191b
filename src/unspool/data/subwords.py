"""Subwords: words as hashed character n-grams, so that a word that was never seen resembles those spelled alike."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.sequences import Indices, Sequences

#: Characters per n-gram. Shorter ones tell little; longer ones are rarely shared by two words.
SIZES = (3, 4, 5)


def hash_ngrams(word: str) -> list[int]:
    """The CRC-32 of each n-gram of a word in lower case, with < before it and > after it.

    A word always has n-grams: marked, even a single character has three characters.

    Args:
        word: The word.

    Returns:
        Numbers from 0 to below 2³², the shortest n-grams first.

    Example:
        >>> len(hash_ngrams("cat"))  # <ca cat at> <cat cat> <cat>
        6
    """
    marked = f"<{word.lower()}>"
    return [
        zlib.crc32(marked[first : first + size].encode("utf-8", "surrogatepass"))
        for size in SIZES
        for first in range(len(marked) - size + 1)
    ]


@dataclass(frozen=True)
class Spellings:
    """The word forms of sequences, and the n-grams of each form, which are found once, if anything reads them.

    Example:
        Spellings.of([["a", "cat"], ["cat"]]).batch(np.array([1]))  # one form, with the n-grams of "cat"
    """

    forms: Sequences  # of each sequence, the numbers of its forms
    words: tuple[str, ...]  # of each form

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> Self:
        """From the words of each text."""
        numbers: dict[str, int] = {}
        forms = [np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64) for words in texts]
        return cls(Sequences.of(forms), tuple(numbers))

    @cached_property
    def ngrams(self) -> Sequences:
        """The hashes of each form."""
        return Sequences.of(np.array(hash_ngrams(word), np.int64) for word in self.words)

    def batch(self, indices: Indices) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The n-grams of some sequences.

        Returns:
            Which of the batch's forms each step has, (time, batch); the n-grams of all these forms, one form after the
            other; and where those of each form start.
        """
        forms = self.forms.padded(indices)
        distinct, places = np.unique(forms, return_inverse=True)
        chosen = self.ngrams.take(distinct)
        return places.reshape(forms.shape), chosen.values, chosen.starts
