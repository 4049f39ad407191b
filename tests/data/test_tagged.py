"""Tagged text: what is read, what is refused and where, and what is read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.tagged import Sentence, mend_sentences, read_tagged
from unspool.errors import DataError, DataWarning, UnknownNameError


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def sentence(*tags: str, line: int = 1) -> Sentence:
    return Sentence(tuple("w" for _ in tags), tags, line, Path("some.conll"))


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

    @pytest.mark.parametrize("blank", ["\tO", " \tO", " O", "  O"])
    def test_a_tag_without_a_word_is_that_of_a_blank(self, tmp_path: Path, blank: str) -> None:
        file = write(tmp_path / "a.conll", f"a B-x\n{blank}\nb I-x\n\n{blank}\n")
        assert read_tagged(file) == [
            Sentence(("a", " ", "b"), ("B-x", "O", "I-x"), 1, file),
            Sentence((" ",), ("O",), 5, file),
        ]
        assert [one.words for one in read_tagged(file, tags=False)] == [("a", " ", "b"), (" ",)]

    def test_without_tags_other_columns_are_only_said(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "so it goes\nand on\n")
        with pytest.warns(DataWarning, match=r"only the first column is read\. .*line 2: there are 2 columns"):
            assert read_tagged(file, tags=False)[0].words == ("so", "and")

    def test_a_space_before_a_word_is_no_blank(self, tmp_path: Path) -> None:
        assert read_tagged(write(tmp_path / "a.conll", "a\n b\n"), tags=False)[0].words == ("a", "b")

    def test_all_problems_are_said_at_once(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "a O\n" * 30 + "\n" + "b\n" * 8 + "c d O\n" * 8)
        with pytest.raises(DataError) as caught:
            read_tagged(file)
        lines = str(caught.value).split("\n")
        assert lines[0] == "16 problems:"
        assert [line.split(":")[0] for line in lines[1:11]] == [f"  {file}, line {number}" for number in range(32, 42)]
        assert lines[11:] == ["  … and 6 more."]

    @pytest.mark.parametrize(
        ("text", "tags", "message"),
        [
            ("a O\nb O\n\nc\n", True, r"a\.conll, line 4: 'c' has no tag"),
            ("a\tO\nb\t\n", True, r"a\.conll, line 2: the tag of 'b' is empty"),
            (
                "a O\nNew York B-LOC\n",
                True,
                r"a\.conll, line 2: there are 3 columns, and most lines have 2.* separate the columns by tabs",
            ),
            ("", True, r"a\.conll has no words"),
            ("\n \n-DOCSTART- O\n\n", True, r"a\.conll has no words"),
            (b"a O\0", True, r"a\.conll is not text: byte 3 is zero"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, text: str | bytes, tags: bool, message: str) -> None:
        with pytest.raises(DataError, match=message):
            read_tagged(write(tmp_path / "a.conll", text), tags=tags)


class TestMending:
    def test_nothing_is_said_of_good_tags(self) -> None:
        several = [sentence("O", "B-x", "I-x"), sentence("B-y")]
        assert mend_sentences(several, "bio") == several

    def test_violations_are_counted_with_their_lines(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.conll", "-DOCSTART- O\n\na O\nb I-x\n\n\nc B-x\nd I-x\ne I-y\n")
        message = r"read as conlleval reads them\. 2 problems:\n.*a\.conll, line 4: 'I-x' after 'O'.*\n.*line 9: 'I-y'"
        with pytest.warns(DataWarning, match=message):
            mended = mend_sentences(read_tagged(file), "bio")
        assert [one.tags for one in mended] == [("O", "B-x"), ("B-x", "I-x", "B-y")]

    def test_letters_are_those_of_the_file(self) -> None:
        with pytest.warns(DataWarning, match="line 3: 'M-x' before 'O' leaves"):
            mended = mend_sentences([sentence("B-x", "M-x", "E-x"), sentence("B-x", "M-x", "M-x", "O")], "bioes")
        assert mended[1].tags == ("B-x", "M-x", "E-x", "O")

    def test_all_tags_that_a_scheme_has_not_are_refused(self) -> None:
        with pytest.raises(
            DataError, match=r"2 problems:\n.*line 2: 'LOC' is no tag of the scheme bio.*\n.*line 10: 'S-x'"
        ):
            mend_sentences([sentence("O", "LOC"), sentence("S-x", line=10)], "bio")

    def test_words_without_tags(self) -> None:
        with pytest.raises(DataError, match=r"line 5: a sentence of 2 words has 0 tags. Give each word a tag"):
            mend_sentences([Sentence(("a", "b"), (), 5, Path("x"))], "bio")

    def test_an_unknown_scheme(self) -> None:
        with pytest.raises(UnknownNameError, match="`scheme`.*Known: bio, bioes, io"):
            mend_sentences([], "iob")  # type: ignore[arg-type]
