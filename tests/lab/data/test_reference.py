"""The text that is part of Python."""

from __future__ import annotations

from pydoc_data.topics import topics

import numpy as np

from unspool.lab.data import encode, python_reference, windows


def test_every_topic_is_in_the_text() -> None:
    text = python_reference()
    assert all(topic in text for topic in topics.values())
    assert len(text) == sum(map(len, topics.values())) + len(topics) - 1


def test_numbers_stand_for_characters() -> None:
    text = "banana tree"
    tokens, alphabet = encode(text)
    assert alphabet == " abenrt"
    assert "".join(alphabet[token] for token in tokens) == text
    assert encode("tan", alphabet)[0].tolist() == [alphabet.index(character) for character in "tan"]


def test_windows_are_pieces_of_the_text() -> None:
    tokens = np.arange(20) * 10
    pieces = windows(tokens, 4, 500, seed=1)
    assert (np.diff(pieces, axis=0) == 10).all()
    assert set(pieces[0]) == set(tokens[:16]), "every place is drawn, the last one too"
    assert not np.array_equal(pieces, windows(tokens, 4, 500, seed=2))
