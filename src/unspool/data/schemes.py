"""Schemes of tags: how tags mark spans, which tag may follow which, and how tags that violate a scheme are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError, UnknownNameError

#: How tags mark spans.
#:
#:   bio    B-x starts a span of kind x, I-x continues it, O is outside.
#:   bioes  also E-x ends a span of several words, and S-x is one of a single word. M is another letter for I (BMES), L
#:          for E and U for S (BILOU).
#:   io     a run of equal tags other than O is a span; I-x is the same as x. Plain tags, as of parts of speech, too.
#:
#: The first two may have no kinds: B, M, E and S alone mark the words of a text without spaces.
Scheme = Literal["bio", "bioes", "io"]

OUTSIDE = "O"
#: By scheme, the letters that tags may start with, and which of B, I, E and S each of them means.
LETTERS = {"bio": {"B": "B", "I": "I"}, "bioes": dict(zip("BIMELSU", "BIIEESS", strict=True))}


class Span(NamedTuple):
    """Words from `first` up to, and without, `last_exclusive`, of one `kind`."""

    kind: str
    first: int
    last_exclusive: int


class Transitions(NamedTuple):
    """What a scheme permits: tags that may start (K), [i, j] where j may follow i (K, K), tags that may end (K)."""

    start: NDArray[np.bool_]
    between: NDArray[np.bool_]
    end: NDArray[np.bool_]


class _Form(NamedTuple):
    """The meaning of a tag, however it is spelled."""

    letter: str
    kind: str


_NOTHING = _Form(OUTSIDE, "")


def _form(tag: object, scheme: Scheme) -> _Form | None:
    """None if the scheme has no such tag."""
    return _form_of_text(tag, scheme) if isinstance(tag, str) else None


@cache
def _form_of_text(tag: str, scheme: Scheme) -> _Form | None:
    if tag == OUTSIDE:
        return _NOTHING
    if scheme == "io":
        kind = tag.removeprefix("I-")
        return _Form("I", kind) if kind else None
    letter, dash, kind = tag.partition("-")
    if letter not in LETTERS[scheme] or (dash and not kind):
        return None
    return _Form(LETTERS[scheme][letter], kind)


def _goes_on(before: _Form, after: _Form) -> bool:
    return before.letter in "BI" and after.letter in "IE" and before.kind == after.kind


def _may_follow(before: _Form, after: _Form, scheme: Scheme) -> bool:
    if scheme == "io":
        return True
    if after.letter in "IE":
        return _goes_on(before, after)
    return scheme == "bio" or before.letter not in "BI"


class Violation(NamedTuple):
    """A tag that violates its scheme: its place among the tags, and what is wrong."""

    place: int
    problem: str


def guess_scheme(tags: Iterable[str]) -> Scheme:
    """The scheme of tags, by their letters: one of spans if there is a B-x, or if all tags fit one.

    Example:
        guess_scheme(["O", "B-name", "I-name"])  # "bio"
    """
    several = {*tags}
    if not several:
        raise ArgumentError.of("tags", [], "is empty", "Give the tags of some sentences")
    fitting = {tag for tag in several if _form(tag, "bioes")}
    letters = {tag.partition("-")[0] for tag in fitting}
    begun = any(tag.startswith("B-") for tag in fitting)
    if not begun and not (fitting == several and letters & {"B", "S", "U"}):
        return "io"
    return "bioes" if letters - {"B", "I", OUTSIDE} else "bio"


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The spans that tags mark, in order, even where the tags violate the scheme, as those of a model may.

    As in conlleval, a tag that continues nothing starts a span, and a span without an end ends where the next tag
    does not continue it.

    Example:
        spans(["B-name", "I-name", "O"], "bio")  # [Span("name", 0, 2)]
    """
    found: list[Span] = []
    first = 0
    for place, (before, after) in enumerate(pairwise((_NOTHING, *_forms(tags, scheme), _NOTHING))):
        if not _goes_on(before, after):
            if before != _NOTHING:
                found.append(Span(before.kind, first, place))
            first = place
    return found


def find_violations(tags: Sequence[str], scheme: Scheme) -> list[Violation]:
    """The tags that continue nothing, and those that leave their span open.

    Example:
        find_violations(["O", "I-name"], "bio")  # [Violation(1, "'I-name' after 'O' continues no span of its kind")]
    """
    forms = (_NOTHING, *_forms(tags, scheme), _NOTHING)
    return [
        _violation(tags, place, after)
        for place, (before, after) in enumerate(pairwise(forms))
        if not _may_follow(before, after, scheme)
    ]


def _violation(tags: Sequence[str], place: int, after: _Form) -> Violation:
    """What is wrong at a tag, or at the one before it if its span should have continued."""
    if after.letter in "IE":
        where = f"after {tags[place - 1]!r}" if place else "at the start of a sentence"
        return Violation(place, f"{tags[place]!r} {where} continues no span of its kind")
    where = f"before {tags[place]!r}" if place < len(tags) else "at the end of a sentence"
    return Violation(place - 1, f"{tags[place - 1]!r} {where} leaves its span open")


def mend_tags(tags: Sequence[str], scheme: Scheme, letters: Mapping[str, str]) -> list[str]:
    """Tags that mark the same spans and obey the scheme; tags that do are returned as they are.

    Args:
        tags: The tags of a sentence.
        scheme: Their scheme.
        letters: How B, I, E and S are spelled, as `find_letters` says.

    Example:
        mend_tags(["O", "I-name"], "bio", find_letters([]))  # ["O", "B-name"]
    """
    mended = list(tags)
    if scheme == "io":
        return mended
    for kind, first, last_exclusive in spans(tags, scheme):
        for place in range(first, last_exclusive):
            wanted = _Form(_letter_at(place - first, last_exclusive - first, scheme), kind)
            if _form(tags[place], scheme) != wanted:
                mended[place] = f"{letters[wanted.letter]}-{kind}" if kind else letters[wanted.letter]
    return mended


def _letter_at(place: int, length: int, scheme: Scheme) -> str:
    """The letter of a word within a span."""
    if scheme == "bio":
        return "I" if place else "B"
    if length == 1:
        return "S"
    return "B" if not place else "E" if place == length - 1 else "I"


def find_letters(tags: Iterable[str]) -> dict[str, str]:
    """How tags spell B, I, E and S: BMES has M for I, and BILOU has L for E and U for S."""
    used = {tag.partition("-")[0] for tag in tags}
    last, single = ("L", "U") if used & {"L", "U"} else ("E", "S")
    return {"B": "B", "I": "M" if "M" in used else "I", "E": last, "S": single}


def is_tag(tag: str, scheme: Scheme) -> bool:
    """Whether the scheme has such a tag."""
    return _form(tag, scheme) is not None


def transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """Which of K tags may start a sentence, follow each other and end one, in the order of `tags`."""
    forms = _forms(tags, scheme)
    if not forms:
        raise ArgumentError.of("tags", tags, "is empty", "Give the tags of some sentences")
    return Transitions(
        np.array([_may_follow(_NOTHING, after, scheme) for after in forms]),
        np.array([[_may_follow(before, after, scheme) for after in forms] for before in forms]),
        np.array([_may_follow(before, _NOTHING, scheme) for before in forms]),
    )


def _forms(tags: Sequence[str], scheme: Scheme) -> list[_Form]:
    check_scheme(scheme)
    forms = []
    for place, tag in enumerate(tags):
        form = _form(tag, scheme)
        if form is None:
            raise ArgumentError.of(f"tags[{place}]", tag, f"is no tag of the scheme {scheme}", tag_remedy(scheme))
        forms.append(form)
    return forms


def check_scheme(scheme: Scheme) -> None:
    """Refuse a name that is no scheme's."""
    if scheme not in get_args(Scheme):
        raise UnknownNameError.among("scheme", scheme, get_args(Scheme))


def tag_remedy(scheme: Scheme) -> str:
    """What to write where a tag is none of the scheme."""
    if scheme == "io":
        return "Give a tag, such as PER, I-PER or O"
    return f"Give O, or one of {', '.join(LETTERS[scheme])} with a kind, such as B-PER, or read plain tags as io"
