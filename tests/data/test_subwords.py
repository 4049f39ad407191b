"""Subwords: which n-grams a word has, and that they stay with their words in any batch."""

from __future__ import annotations

import zlib

import numpy as np

from unspool.data.inputs import fit_inputs
from unspool.data.labelled import Raw
from unspool.data.subwords import Spellings, hash_ngrams


def ngrams_of(*parts: str) -> list[int]:
    return [zlib.crc32(part.encode()) for part in parts]


def test_ngrams_of_a_word_counted_out_by_hand() -> None:
    assert hash_ngrams("Cat") == ngrams_of("<ca", "cat", "at>", "<cat", "cat>", "<cat>")
    assert hash_ngrams("a") == ngrams_of("<a>")
    assert len(hash_ngrams("")) == 0  # no tokenizer gives such a word


def test_words_spelled_alike_share_ngrams() -> None:
    shared = {*hash_ngrams("unspooling")} & {*hash_ngrams("unspooled")}
    assert len(shared) > len({*hash_ngrams("unspooling")} & {*hash_ngrams("banana")}) == 0


def test_a_batch_has_the_ngrams_of_each_step() -> None:
    texts = [["one", "two", "one"], ["three"], ["two", "four"]]
    spellings = Spellings.of(texts)
    chosen = np.array([2, 0])
    forms, values, starts = spellings.batch(chosen)
    assert forms.shape == (3, 2)
    ends = [*starts[1:], len(values)]
    for column, index in enumerate(chosen):
        for step, word in enumerate(texts[index]):
            form = forms[step, column]
            assert values[starts[form] : ends[form]].tolist() == hash_ngrams(word)
    assert len(starts) == 3  # one, two, four: the n-grams of each form are there once


def test_steps_of_words_are_those_of_ids() -> None:
    raw = Raw(["a cat", "two\nlines here", "Cat"], None, ["0", "1", "2"], str, None)
    inputs = fit_inputs(raw, "word")
    spellings = inputs.spell(raw)
    assert spellings is not None
    assert spellings.forms.lengths.tolist() == inputs.encode(raw, 10).lengths.tolist() == [2, 4, 1]


def test_characters_have_no_spelling() -> None:
    raw = Raw(["abc"], None, ["0"], str, None)
    assert fit_inputs(raw, "char").spell(raw) is None
    numbers = Raw(None, [np.zeros((2, 1))], ["0"], str, None)
    assert fit_inputs(numbers).spell(numbers) is None
