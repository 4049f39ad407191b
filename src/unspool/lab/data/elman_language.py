"""A toy language after Elman (1990): classes of words that restrict each other, and roles that word order decides."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Tokens = NDArray[np.int64]

#: Words by class. A verb's class says what its subject and its object are: `animate-inanimate` verbs have animate
#: subjects and inanimate objects.
ELMAN_CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "opener": ("first", "second"),
        "animate": ("boy", "girl", "man", "woman", "cat", "dog", "lion", "mouse"),
        "inanimate": ("book", "glass", "rock", "plate", "car", "bread", "noise", "storm"),
        "animate-inanimate": ("eat", "break", "move", "buy"),
        "inanimate-animate": ("scare", "hurt", "please", "hide"),
        "animate-animate": ("chase", "see", "like", "meet"),
        "inanimate-inanimate": ("hit", "cover", "touch", "resemble"),
        "subject closer": ("boldly", "gladly"),
        "object closer": ("badly", "sadly"),
    }
)
#: The words in the order of their ids.
ELMAN_WORDS: tuple[str, ...] = tuple(word for words in ELMAN_CLASSES.values() for word in words)
#: Words per sentence.
ELMAN_SENTENCE = 5
#: What `roles` says of a word.
NO_ROLE, SUBJECT, OBJECT = 0, 1, 2

_IDS = {word: number for number, word in enumerate(ELMAN_WORDS)}
_NOUNS = np.array([[_IDS[word] for word in ELMAN_CLASSES[name]] for name in ("animate", "inanimate")])
_VERB_CLASSES = [name.split("-") for name in ELMAN_CLASSES if "-" in name]
_VERBS = np.array([[_IDS[word] for word in ELMAN_CLASSES["-".join(kinds)]] for kinds in _VERB_CLASSES])
_KINDS = np.array([[("animate", "inanimate").index(kind) for kind in kinds] for kinds in _VERB_CLASSES])
_CLOSERS = np.array([[_IDS[word] for word in ELMAN_CLASSES[name]] for name in ("subject closer", "object closer")])


class ElmanText(NamedTuple):
    """Sentences of the toy language.

    Attributes:
        tokens: ids of words, (time, batch).
        roles: `SUBJECT`, `OBJECT` or `NO_ROLE` of each word, (time, batch).
    """

    tokens: Tokens
    roles: Tokens


def elman_language(sentences: int, count: int, seed: int = 0) -> ElmanText:
    """Sentences in which no position tells the class of a word, and no previous word tells the role of a noun.

    Every sentence has five words: an opener; a subject, an object and a verb; a closer. The opener says which noun is
    named first: the subject after `first`, the object after `second`. The verb is before, between or behind the two
    nouns, with equal probability; so every one of the three places has a verb in 1/3 of the sentences, an animate noun
    in 1/3 and an inanimate noun in 1/3. The verb's class decides which nouns are animate. The closer agrees with the
    role of the last noun, so that predicting it needs the opener.

    Args:
        sentences: of each sequence.
        count: sequences.
        seed: of the random numbers.

    Returns:
        Tokens and roles, both of shape (5 · sentences, count). `ELMAN_WORDS` has the words of the ids, `ELMAN_CLASSES`
        their classes.

    Example:
        >>> text = elman_language(2, 1)
        >>> " ".join(ELMAN_WORDS[token] for token in text.tokens[:, 0])
        'first book touch book sadly first meet girl lion sadly'
    """
    check_sizes(sentences=sentences, count=count)
    chance = np.random.default_rng(seed)
    shape = (sentences, count)
    verb_class, verb_place, object_first = (chance.integers(0, most, shape) for most in (4, 3, 2))
    # the columns of `middle`: first noun, second noun, verb
    kinds = np.where(object_first[..., None], _KINDS[verb_class][..., ::-1], _KINDS[verb_class])
    nouns = _NOUNS[kinds, chance.integers(0, _NOUNS.shape[1], (*shape, 2))]
    verbs = _VERBS[verb_class, chance.integers(0, _VERBS.shape[1], shape)]
    middle = np.concatenate((nouns, verbs[..., None]), -1)
    first_role = np.where(object_first, OBJECT, SUBJECT)
    roles = np.stack((first_role, SUBJECT + OBJECT - first_role, np.full(shape, NO_ROLE)), -1)
    orders = np.array([[2, 0, 1], [0, 2, 1], [0, 1, 2]])[verb_place]
    closers = _CLOSERS[roles[..., 1] - SUBJECT, chance.integers(0, _CLOSERS.shape[1], shape)]
    words = (object_first[..., None], np.take_along_axis(middle, orders, -1), closers[..., None])
    none = np.full((*shape, 1), NO_ROLE)
    tokens = np.concatenate(words, -1)
    found = np.concatenate((none, np.take_along_axis(roles, orders, -1), none), -1)
    return ElmanText(_by_time(tokens), _by_time(found))


def _by_time(values: NDArray[np.int64]) -> Tokens:
    """(sentences, count, words) → (time, count)."""
    sentences, count, words = values.shape
    return values.transpose(0, 2, 1).reshape(sentences * words, count).astype(np.int64)
