"""Tagged text: what is read, what is refused and where, and that spans survive being written as tags."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data.tagged import Scheme, Sentence, Span, check_tags, guess_scheme, read_tagged, spans, transitions
from unspool.errors import ArgumentError, DataError, UnknownNameError
from unspool.tasks.metrics import span_f1

unhurried = settings(deadline=None)
MarkedText = tuple[list[Span], int]


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def sentence(*tags: str, line: int = 1) -> Sentence:
    return Sentence(tuple("w" for _ in tags), tags, line, Path("some.conll"))


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


class TestReading:
    def test_words_tags_and_places(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "\nJohn\tB-PER\nSmith\tI-PER\n\n \t\n\nruns\tO\n")
        assert read_tagged(file) == [
            Sentence(("John", "Smith"), ("B-PER", "I-PER"), 2, file),
            Sentence(("runs",), ("O",), 7, file),
        ]

    def test_blanks_columns_and_documents(self, tmp_path: Path) -> None:
        text = "-DOCSTART- -X- -X- O\n\nEU NNP  B-NP B-ORG \nrejects VBZ B-VP O\n-DOCSTART-\nPeter NNP B-NP B-PER"
        file = write(tmp_path / "a.conll", text)
        assert read_tagged(str(file)) == [
            Sentence(("EU", "rejects"), ("B-ORG", "O"), 3, file),
            Sentence(("Peter",), ("B-PER",), 6, file),
        ]

    def test_byte_order_mark_and_line_ends(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "\ufeffÉtat O\r\n\r\nRome B-LOC\r\n".encode())
        assert read_tagged(file) == [Sentence(("État",), ("O",), 1, file), Sentence(("Rome",), ("B-LOC",), 3, file)]

    def test_only_tabs_and_blanks_part_columns(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "New York\tB-LOC\n\u3000\tO\n \u00a0x\u2028\t O\n")
        assert read_tagged(file)[0].words == ("New York", "\u3000", "\u00a0x\u2028")
        assert read_tagged(file)[0].tags == ("B-LOC", "O", "O")
        assert read_tagged(write(tmp_path / "b.conll", "\u3000 O\n"))[0].words == ("\u3000",)

    def test_several_files_do_not_run_together(self, tmp_path: Path) -> None:
        a, b = write(tmp_path / "a.conll", "x O"), write(tmp_path / "b.conll", "y\tDET\tO")
        assert read_tagged([b, a]) == [Sentence(("y",), ("O",), 1, b), Sentence(("x",), ("O",), 1, a)]
        assert [one.file for one in read_tagged(tmp_path / "*.conll")] == [a, b]

    def test_words_alone(self, tmp_path: Path) -> None:
        words = write(tmp_path / "words.conll", "John\nruns\n\nso\n")
        tagged = write(tmp_path / "tagged.conll", "John B-PER\nruns O\n\nso O\n")
        for file in (words, tagged):
            expected = [Sentence(("John", "runs"), (), 1, file), Sentence(("so",), (), 4, file)]
            assert read_tagged(file, tags=False) == expected
        with pytest.raises(DataError, match=r"words\.conll, line 1: 'John' has no tag. Write the tag after"):
            read_tagged(words)

    @pytest.mark.parametrize(
        ("text", "tags", "message"),
        [
            ("a O\nb O\n\nc\n", True, r"a\.conll, line 4: 'c' has no tag"),
            ("a O\n\tO\n", True, r"a\.conll, line 2: the word before 'O' is empty"),
            ("a O\n O\n", True, r"a\.conll, line 2: the word before 'O' is empty"),
            ("a\tO\nb\t\n", True, r"a\.conll, line 2: the tag of 'b' is empty"),
            (
                "a O\nNew York B-LOC\n",
                True,
                r"a\.conll, line 2: there are 3 columns, and 2 in .* separate the columns by tabs",
            ),
            ("so it goes\nand on\n", False, r"a\.conll, line 2: there are 2 columns, and 3 in"),
            ("", True, r"a\.conll has no words"),
            ("\n \n-DOCSTART- O\n\n", True, r"a\.conll has no words"),
            (b"a O\nb\xff O\n", True, r"a\.conll is not UTF-8: byte 5 \(0xff\)"),
            (b"a O\0", True, r"a\.conll is not UTF-8: byte 3 is zero.* iconv -f utf-16 -t utf-8 "),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, text: str | bytes, tags: bool, message: str) -> None:
        with pytest.raises(DataError, match=message):
            read_tagged(write(tmp_path / "a.conll", text), tags=tags)


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
            # One slip does not change what all the others say; `check_tags` then names it.
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


class TestCheck:
    @unhurried
    @given(marked_text())
    def test_what_was_written_passes(self, text: MarkedText) -> None:
        for scheme in ("bio", "bioes", "io"):
            check_tags([sentence(*tags_of(*text, scheme))], scheme)

    @pytest.mark.parametrize(
        ("tags", "scheme", "message"),
        [
            ("O I-x", "bio", r"some\.conll, line 11: 'I-x' after 'O' continues no span of its kind. Start each"),
            ("I-x", "bio", "line 10: 'I-x' at the start of a sentence continues no"),
            ("B-x I-x I-y", "bio", "line 12: 'I-y' after 'I-x' continues no"),
            ("O E-x", "bioes", "line 11: 'E-x' after 'O' continues no"),
            ("S-x I-x", "bioes", "line 11: 'I-x' after 'S-x' continues no"),
            ("B-x E-x M-x", "bioes", "line 12: 'M-x' after 'E-x' continues no"),
            ("B-x O", "bioes", "line 10: 'B-x' before 'O' leaves its span open. End a span"),
            ("O B-x I-x", "bioes", "line 12: 'I-x' at the end of a sentence leaves its span open"),
            ("B-x B-x", "bioes", "line 10: 'B-x' before 'B-x' leaves"),
            ("B-x E-y", "bioes", "line 11: 'E-y' after 'B-x' continues no"),
            ("O LOC", "bio", "line 11: 'LOC' is no tag of the scheme bio. Give O, or one of B, I with a kind"),
            ("O S-x", "bio", "line 11: 'S-x' is no tag of the scheme bio"),
        ],
    )
    def test_the_first_misfit_is_named(self, tags: str, scheme: Scheme, message: str) -> None:
        good = sentence("O", "O")
        with pytest.raises(DataError, match=message):
            check_tags([good, sentence(*tags.split(), line=10), sentence("I-z", line=90)], scheme)

    def test_lines_are_those_of_the_file(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "-DOCSTART- O\n\na O\n\n\nb B-x\nc I-x\nd I-y\n")
        with pytest.raises(DataError, match=r"a\.conll, line 8: 'I-y' after 'I-x'"):
            check_tags(read_tagged(file), "bio")

    def test_words_without_tags(self) -> None:
        with pytest.raises(DataError, match=r"line 5: a sentence of 2 words has 0 tags. Give each word a tag"):
            check_tags([Sentence(("a", "b"), (), 5, Path("x"))], "bio")

    def test_an_unknown_scheme(self) -> None:
        with pytest.raises(UnknownNameError, match="`scheme`.*Known: bio, bioes, io"):
            check_tags([], "iob")  # type: ignore[arg-type]


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
    def test_permit_exactly_the_sentences_that_pass_the_check(self, scheme: Scheme, tags: str) -> None:
        several = tags.split()
        start, between, end = transitions(several, scheme)
        assert start.dtype == between.dtype == end.dtype == np.bool_
        for length in (1, 2, 3):
            for path in product(range(len(several)), repeat=length):
                permitted = start[path[0]] and all(between[i, j] for i, j in pairwise(path)) and end[path[-1]]
                written = [several[i] for i in path]
                assert permitted == passes(written, scheme), written

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


def passes(tags: list[str], scheme: Scheme) -> bool:
    try:
        check_tags([sentence(*tags)], scheme)
    except DataError:
        return False
    return True
