"""The Python language reference that is part of every Python: English text without a download, and pieces of it."""

from __future__ import annotations

import pydoc_data.topics

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Integers = NDArray[np.int64]


def python_reference() -> str:
    """The Python language reference, about 465,000 characters of English; it differs between Python versions.

    Returns:
        All topics of `pydoc_data.topics`, one after the other.

    Example:
        >>> "for" in python_reference()
        True
    """
    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))


def encode(text: str, alphabet: str | None = None) -> tuple[Integers, str]:
    """A text as numbers, one per character.

    Args:
        text: any text.
        alphabet: the characters by number; by default those of the text in order.

    Returns:
        Numbers (characters,), and the alphabet.

    Example:
        >>> encode("banana")[0].tolist(), encode("banana")[1]
        ([1, 0, 2, 0, 2, 0], 'abn')
    """
    alphabet = alphabet or "".join(sorted(set(text)))
    place = {character: number for number, character in enumerate(alphabet)}
    return np.array([place[character] for character in text], np.int64), alphabet


def windows(tokens: Integers, T: int, count: int, seed: int = 0) -> Integers:
    """Pieces of a long text from random places: T inputs and, one step later, their T targets.

    Args:
        tokens: the text, of more than T tokens.
        T: steps.
        count: pieces.
        seed: of the places.

    Returns:
        Tokens (T + 1, count): all but the last are inputs, all but the first are targets.

    Example:
        >>> windows(np.arange(100), 3, 2).shape
        (4, 2)
    """
    check_sizes(T=T, count=count)
    starts = np.random.default_rng(seed).integers(0, len(tokens) - T, count)
    found: Integers = tokens[starts + np.arange(T + 1)[:, None]]
    return found
