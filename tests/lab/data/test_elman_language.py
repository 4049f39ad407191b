"""Elman's toy language: its sentences parse, its positions are balanced, and no previous word tells a role."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.lab.data import ELMAN_CLASSES, ELMAN_SENTENCE, ELMAN_WORDS, NO_ROLE, OBJECT, SUBJECT, elman_language

CLASS_OF = {word: name for name, words in ELMAN_CLASSES.items() for word in words}
TEXT = elman_language(50, 400, seed=3)
#: Sentence after sentence: words and roles.
SENTENCES = [
    ([ELMAN_WORDS[token] for token in TEXT.tokens[start : start + 5, row]], TEXT.roles[start : start + 5, row].tolist())
    for row in range(TEXT.tokens.shape[1])
    for start in range(0, len(TEXT.tokens), ELMAN_SENTENCE)
]


def test_every_word_has_one_class_and_one_id() -> None:
    assert len(set(ELMAN_WORDS)) == len(ELMAN_WORDS) == sum(map(len, ELMAN_CLASSES.values()))
    assert sorted(set(TEXT.tokens.ravel().tolist())) == list(range(len(ELMAN_WORDS)))


def test_sentences_follow_the_grammar() -> None:
    for words, roles in SENTENCES:
        kinds = [CLASS_OF[word] for word in words]
        assert kinds[0] == "opener"
        (verb,) = [place for place in (1, 2, 3) if "-" in kinds[place]]
        one, other = (place for place in (1, 2, 3) if place != verb)
        subject, object_ = (one, other) if words[0] == "first" else (other, one)
        assert kinds[verb] == f"{kinds[subject]}-{kinds[object_]}"
        assert [roles[subject], roles[object_]] == [SUBJECT, OBJECT]
        assert [roles[0], roles[verb], roles[4]] == [NO_ROLE] * 3
        assert kinds[4] == ("subject closer" if other == subject else "object closer")


@pytest.mark.parametrize("place", [1, 2, 3])
def test_no_place_tells_the_class(place: int) -> None:
    kinds = [CLASS_OF[words[place]] for words, _ in SENTENCES]
    shares = [np.mean(["-" in kind for kind in kinds]), *(np.mean([kind == one for kind in kinds]) for one in NOUNS)]
    assert np.allclose(shares, 1 / 3, atol=0.02)  # 20,000 sentences: a standard deviation of 0.0033


NOUNS = ("animate", "inanimate")


def test_the_word_before_a_last_noun_of_an_even_verb_does_not_tell_its_role() -> None:
    roles: dict[str, list[bool]] = {}
    for words, role in SENTENCES:
        last = 3 if role[3] else 2
        if any(CLASS_OF[word] == "animate-animate" for word in words):
            roles.setdefault(words[last - 1], []).append(role[last] == SUBJECT)
    assert len(roles) == 12  # verbs and animate nouns
    for each in roles.values():
        assert abs(np.mean(each) - 0.5) < 4 * 0.5 / np.sqrt(len(each))


def test_seeds_repeat_and_differ() -> None:
    one, same, other = (elman_language(3, 4, seed).tokens for seed in (5, 5, 6))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.shape == (15, 4)
    assert one.dtype == np.int64
