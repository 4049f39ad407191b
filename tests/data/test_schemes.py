"""Schemes of tags: spans survive being written as tags, and tags that violate a scheme mark what conlleval says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data.schemes import (
    Scheme,
    Span,
    find_letters,
    find_violations,
    guess_scheme,
    mend_tags,
    spans,
    transitions,
)
from unspool.errors import ArgumentError, UnknownNameError
from unspool.tasks.metrics import span_f1

unhurried = settings(deadline=None)
MarkedText = tuple[list[Span], int]


def tags_of(marked: Sequence[Span], length: int, scheme: Scheme, letters: str = "BIES") -> list[str]:
    """Spans written as tags; `letters` are those for the beginning, the inside, the end and a single word."""
    begin, inside, end, single = tuple(letters)
    tags = ["O"] * length
    for kind, first, after in marked:
        marks = [begin] + [inside] * (after - first - 1)
        if scheme == "bioes":
            marks = [begin] + [inside] * (after - first - 2) + [end] if after - first > 1 else [single]
        if scheme == "io":
            marks = ["I"] * (after - first)
        tags[first:after] = [f"{mark}-{kind}" if kind else mark for mark in marks]
    return tags


@st.composite
def marked_text(draw: st.DrawFn, kinds: Sequence[str] = ("PER", "LOC", "a-b"), apart: int = 0) -> MarkedText:
    """Spans in order, at least `apart` words between them, and the length of their text."""
    found, at = [], 0
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        first = at + draw(st.integers(apart, 3))
        at = first + draw(st.integers(1, 4))
        found.append(Span(kind, first, at))
    return found, at + draw(st.integers(0, 2))


class TestSpans:
    @unhurried
    @given(marked_text())
    def test_round_trip_in_bio_and_bioes(self, text: MarkedText) -> None:
        marked, length = text
        assert spans(tags_of(marked, length, "bio"), "bio") == marked
        for letters in ("BIES", "BMES", "BILU"):
            assert spans(tags_of(marked, length, "bioes", letters), "bioes") == marked

    @unhurried
    @given(marked_text(apart=1))
    def test_round_trip_in_io(self, text: MarkedText) -> None:
        marked, length = text
        tags = tags_of(marked, length, "io")
        assert spans(tags, "io") == spans([tag.removeprefix("I-") for tag in tags], "io") == marked

    @unhurried
    @given(marked_text(kinds=[""]))
    def test_round_trip_without_kinds(self, text: MarkedText) -> None:
        marked, length = text
        assert spans(tags_of(marked, length, "bio"), "bio") == marked
        assert spans(tags_of(marked, length, "bioes", "BMES"), "bioes") == marked

    @pytest.mark.parametrize(
        ("tags", "scheme", "expected"),
        [
            ("I-x I-x O", "bio", [("x", 0, 2)]),
            ("O I-x I-y B-y I-y", "bio", [("x", 1, 2), ("y", 2, 3), ("y", 3, 5)]),
            ("B-x I-y I-y", "bio", [("x", 0, 1), ("y", 1, 3)]),
            ("B-x O E-x E-x", "bioes", [("x", 0, 1), ("x", 2, 3), ("x", 3, 4)]),
            ("S-x I-x E-x I-x", "bioes", [("x", 0, 1), ("x", 1, 3), ("x", 3, 4)]),
            ("B-x S-x I-x B-x I-x", "bioes", [("x", 0, 1), ("x", 1, 2), ("x", 2, 3), ("x", 3, 5)]),
            ("I-x E-y", "bioes", [("x", 0, 1), ("y", 1, 2)]),
            ("DET NOUN NOUN O NOUN", "io", [("DET", 0, 1), ("NOUN", 1, 3), ("NOUN", 4, 5)]),
            ("", "bio", []),
        ],
    )
    def test_broken_tags_as_conlleval_reads_them(self, tags: str, scheme: Scheme, expected: list[Any]) -> None:
        assert spans(tags.split(), scheme) == expected

    def test_score_of_tags_by_hand(self) -> None:
        truth = spans(["B-PER", "I-PER", "O", "B-LOC"], "bio")
        said = spans(["B-PER", "I-PER", "O", "I-LOC"], "bio")
        cut = spans(["B-PER", "O", "O", "B-LOC"], "bio")
        assert span_f1([truth], [said]) == (1, 1, 1)
        assert span_f1([truth], [cut]) == (0.5, 0.5, 0.5)

    def test_what_is_refused(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"`tags\[1\]` \(='E-x'\) is no tag of the scheme bio. Give O, or one of B"
        ):
            spans(["O", "E-x"], "bio")
        for tag in ("", "B-", "X-y", "NOUN", 3):
            with pytest.raises(ArgumentError, match="is no tag of the scheme bioes"):
                spans([tag], "bioes")  # type: ignore[list-item]
        with pytest.raises(ArgumentError, match="is no tag of the scheme io. Give a tag"):
            spans(["I-"], "io")
        with pytest.raises(UnknownNameError, match="Did you mean 'bioes'"):
            spans(["O"], "bioe")  # type: ignore[arg-type]


class TestGuess:
    @pytest.mark.parametrize(
        ("tags", "scheme"),
        [
            ("O B-x I-x", "bio"),
            ("B I O", "bio"),
            ("O B-x I-x E-x S-x", "bioes"),
            ("B M E S", "bioes"),
            ("O B-x L-x U-y", "bioes"),
            ("S", "bioes"),
            ("O I-x I-y", "io"),
            ("O PER LOC", "io"),
            ("N S E W", "io"),
            ("H E C", "io"),
            ("NOUN VERB -LRB- S-TPC", "io"),
            ("O", "io"),
            # One slip does not change what all the others say; `mend_sentences` then names it.
            ("O B-x I-x LOC", "bio"),
        ],
    )
    def test_by_letters(self, tags: str, scheme: str) -> None:
        assert guess_scheme(tags.split()) == scheme

    @unhurried
    @given(marked_text())
    def test_what_was_written_is_guessed(self, text: MarkedText) -> None:
        marked, length = text
        if marked:
            assert guess_scheme(tags_of(marked, length, "bio")) == "bio"
            assert guess_scheme(tags_of([*marked, Span("x", length, length + 1)], length + 1, "bioes")) == "bioes"

    def test_no_tags(self) -> None:
        with pytest.raises(ArgumentError, match="`tags`.*is empty"):
            guess_scheme([])


class TestMending:
    @unhurried
    @given(marked_text())
    def test_what_was_written_is_left_alone(self, text: MarkedText) -> None:
        for scheme in ("bio", "bioes", "io"):
            tags = tags_of(*text, scheme)
            assert find_violations(tags, scheme) == []
            assert mend_tags(tags, scheme, find_letters(tags)) == tags

    @pytest.mark.parametrize("scheme", ["bio", "bioes"])
    def test_any_tags_are_mended_to_those_of_the_same_spans(self, scheme: Scheme) -> None:
        several = ["O", "B-x", "I-x", "I-y"] + (["E-x", "S-x"] if scheme == "bioes" else [])
        for tags in product(several, repeat=4):
            mended = mend_tags(tags, scheme, find_letters(several))
            assert mended == tags_of(spans(tags, scheme), 4, scheme)
            assert find_violations(mended, scheme) == []
            assert bool(find_violations(tags, scheme)) == (mended != list(tags))

    @pytest.mark.parametrize(
        ("tags", "scheme", "place", "problem"),
        [
            ("O I-x", "bio", 1, "'I-x' after 'O' continues no span of its kind"),
            ("I-x", "bio", 0, "'I-x' at the start of a sentence continues no span of its kind"),
            ("B-x I-x I-y", "bio", 2, "'I-y' after 'I-x' continues no span of its kind"),
            ("O E-x", "bioes", 1, "'E-x' after 'O' continues no span of its kind"),
            ("S-x E-x", "bioes", 1, "'E-x' after 'S-x' continues no span of its kind"),
            ("B-x E-x E-x", "bioes", 2, "'E-x' after 'E-x' continues no span of its kind"),
            ("B-x O", "bioes", 0, "'B-x' before 'O' leaves its span open"),
            ("O B-x I-x", "bioes", 2, "'I-x' at the end of a sentence leaves its span open"),
            ("B-x S-x", "bioes", 0, "'B-x' before 'S-x' leaves its span open"),
        ],
    )
    def test_what_is_wrong_is_said(self, tags: str, scheme: Scheme, place: int, problem: str) -> None:
        assert find_violations(tags.split(), scheme) == [(place, problem)]

    @pytest.mark.parametrize(
        ("tags", "scheme", "mended"),
        [
            ("O I-x I-x I-y", "bio", "O B-x I-x B-y"),
            ("I O I", "bio", "B O B"),
            ("B-x O B-x I-x B-y E-y", "bioes", "S-x O B-x E-x B-y E-y"),
            ("B-NAME M-NAME O M-ORG", "bioes", "B-NAME E-NAME O S-ORG"),
            ("B-x M-x M-x O", "bioes", "B-x M-x E-x O"),
            ("M-x M-x E-x", "bioes", "B-x M-x E-x"),
            ("B-x O L-y U-z", "bioes", "U-x O U-y U-z"),
        ],
    )
    def test_by_hand(self, tags: str, scheme: Scheme, mended: str) -> None:
        assert mend_tags(tags.split(), scheme, find_letters(tags.split())) == mended.split()

    def test_an_unknown_scheme(self) -> None:
        with pytest.raises(UnknownNameError, match="`scheme`.*Known: bio, bioes, io"):
            find_violations([], "iob")  # type: ignore[arg-type]


class TestTransitions:
    @pytest.mark.parametrize(
        ("scheme", "tags"),
        [
            ("bio", "O B-x I-x B-y I-y"),
            ("bioes", "O B-x I-x E-x S-x E-y S-y"),
            ("bioes", "B M E S"),
            ("io", "O I-x y"),
        ],
    )
    def test_permit_exactly_the_sentences_without_violations(self, scheme: Scheme, tags: str) -> None:
        several = tags.split()
        start, between, end = transitions(several, scheme)
        assert start.dtype == between.dtype == end.dtype == np.bool_
        for length in (1, 2, 3):
            for path in product(range(len(several)), repeat=length):
                permitted = start[path[0]] and all(between[i, j] for i, j in pairwise(path)) and end[path[-1]]
                written = [several[i] for i in path]
                assert permitted == (find_violations(written, scheme) == []), written

    @pytest.mark.parametrize("scheme", ["bio", "bioes"])
    def test_permit_exactly_what_spans_can_write(self, scheme: Scheme) -> None:
        several = ["O", "B-x", "I-x", "B-y", "I-y"] + (["E-x", "S-x"] if scheme == "bioes" else [])
        start, between, end = transitions(several, scheme)
        for path in product(range(len(several)), repeat=4):
            written = [several[i] for i in path]
            same = tags_of(spans(written, scheme), 4, scheme) == written
            steps = between[path[:-1], path[1:]]
            assert bool(start[path[0]] and steps.all() and end[path[-1]]) == same, written

    def test_bio_by_hand(self) -> None:
        start, between, end = transitions(["O", "B-x", "I-x", "I-y"], "bio")
        assert start.tolist() == [True, True, False, False]
        assert between.tolist() == [
            [True, True, False, False],
            [True, True, True, False],
            [True, True, True, False],
            [True, True, False, True],
        ]
        assert end.all()

    def test_what_is_refused(self) -> None:
        with pytest.raises(ArgumentError, match="`tags`.*is empty"):
            transitions([], "bio")
        with pytest.raises(ArgumentError, match=r"`tags\[0\]` \(='S-x'\) is no tag"):
            transitions(["S-x"], "bio")
