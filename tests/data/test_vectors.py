"""Word vectors: both text formats, the flaws that such files have, and the wanted rows alone."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data.vectors import LONGEST, SAMPLE, Coverage, Vectors, read_vectors, read_width
from unspool.errors import DataError

Write = Callable[[bytes | str], Path]
GLOVE = "the 0.1 -0.2 3e-1\ncat 1 2 3\n, 0.5 0.25 0.125\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of vectors and gives its path."""

    def write(content: bytes | str) -> Path:
        path = tmp_path / "vectors.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def check(found: Vectors, expected: dict[str, list[float]], *notes: str) -> None:
    """The tokens, their vectors bit for bit, and the notes."""
    assert found.tokens == tuple(expected)
    assert found.matrix.dtype == np.float32
    assert found.matrix.shape == (len(expected), found.dim)
    np.testing.assert_array_equal(found.matrix, np.array(list(expected.values()), np.float32).reshape(-1, found.dim))
    assert found.notes == notes


@pytest.mark.parametrize("header", ["", "3 3\n", "3 3 \r\n"], ids=["glove", "word2vec", "blanks"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_both_formats(write: Write, header: str, packed: bool) -> None:
    content = (header + GLOVE).encode()
    path = write(gzip.compress(content) if packed else content)
    expected = {",": [0.5, 0.25, 0.125], "the": [0.1, -0.2, 0.3]}
    check(read_vectors(path, [",", "the", "dog"]), expected)
    check(read_vectors(str(path), ["dog"]), {})
    assert read_vectors(path, []).dim == 3


def test_a_path_in_the_users_folder(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(write(GLOVE).parent))
    check(read_vectors("~/vectors.txt", ["cat"]), {"cat": [1, 2, 3]})


def test_wanted_more_than_once(write: Write) -> None:
    check(read_vectors(write(GLOVE), ["cat", "the", "cat"]), {"cat": [1, 2, 3], "the": [0.1, -0.2, 0.3]})


@pytest.mark.parametrize(
    "content",
    [
        "cat 1 2 3 \nthe 4 5 6 \n",  # word2vec's own program ends lines so
        "cat 1 2 3\r\nthe 4 5 6\r\n",
        "cat\t1\t2\t3\nthe\t4\t5\t6\n",
        "cat  1  2 3\nthe 4 5   6\n",
        "cat 1 2 3\n\n \nthe 4 5 6\n\n\n",
        "\ufeffcat 1 2 3\nthe 4 5 6",
        " cat 1 2 3\nthe 4 5 6",
    ],
    ids=["blank ends", "crlf", "tabs", "wide blanks", "blank lines", "mark", "indented"],
)
def test_blanks_of_all_kinds(write: Write, content: str) -> None:
    check(read_vectors(write(content), ["cat", "the"]), {"cat": [1, 2, 3], "the": [4, 5, 6]})


@pytest.mark.parametrize("header", ["", "5 2\n"])
def test_tokens_with_blanks(write: Write, header: str) -> None:
    """As in GloVe's 840B; the numbers are counted from the right."""
    path = write(header + ". . . 1 2\nat name@domain.com 3 4\n. 5 6\nthe\xa0cat 7 8\na\x85b\u2028 9 10\n")
    wanted = [". . .", "at name@domain.com", ".", "the\xa0cat", "a\x85b\u2028", "at"]
    expected = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]
    check(read_vectors(path, wanted), dict(zip(wanted[:5], expected, strict=True)))


def test_the_width_is_that_of_most_lines(write: Write) -> None:
    """The first token has blanks, so that the first line says nothing of the width."""
    path = write(". . . 1 2\na 3 4\nb 5 6\n")
    check(read_vectors(path, ["a", ". . ."]), {"a": [3, 4], ". . .": [1, 2]})


def test_of_a_repeated_token_the_first_is_kept(write: Write) -> None:
    path = write("cat 1 2\ncat 3 4\nthe 5 6\nthe 7 8\ncat 9 9\ndog 1 1\ndog 2 2\n")
    note = "3 repeated token(s), of which the first vector is kept"
    check(read_vectors(path, ["cat", "the"]), {"cat": [1, 2], "the": [5, 6]}, note)


def test_bytes_that_are_not_utf8(write: Write) -> None:
    path = write(b"caf\xe9 1 2\n\xff\xfe 3 4\nthe 5 6\n")
    note = "2 token(s) with bytes that are not UTF-8, which were replaced"
    check(read_vectors(path, ["the", "caf\ufffd"]), {"the": [5, 6], "caf\ufffd": [1, 2]}, note)


def test_a_line_without_a_token(write: Write) -> None:
    path = write("cat 1 2\ndog 1 2\n 3 4\nthe 5 6\n")
    check(read_vectors(path, ["the", ""]), {"the": [5, 6]}, "1 line(s) without a token, which were left out")


CUT = "1 damaged last line, which was left out"


@pytest.mark.parametrize(
    "last", ["dog 1", "dog", "dog 1 2 -", "dog 1 2 3e", "dog 1 2 3 4", "dog 1 2 nan", "d\n", "d \n\n"]
)
def test_a_damaged_last_line_is_left_out(write: Write, last: str) -> None:
    check(read_vectors(write(GLOVE + last), ["cat", "dog"]), {"cat": [1, 2, 3]}, CUT)


def test_a_header_that_announces_more(write: Write) -> None:
    note = "the header announces 5 vectors, and the file has 3"
    check(read_vectors(write("5 3\n" + GLOVE), ["cat"]), {"cat": [1, 2, 3]}, note)
    check(read_vectors(write("4 3\n" + GLOVE + "dog 1"), ["cat"]), {"cat": [1, 2, 3]}, CUT, note.replace("5", "4"))


def test_lower_case_takes_the_place_of_a_missing_form(write: Write) -> None:
    path = write("the 1 2\nparis 3 4\nParis 5 6\nNATO 7 8\n")
    wanted = ["The", "Paris", "THE", "the", "nato", "Rome"]
    note = "2 token(s) with the vector of their lower-case form"
    expected: dict[str, list[float]] = {"The": [1, 2], "Paris": [5, 6], "THE": [1, 2], "the": [1, 2]}
    check(read_vectors(path, wanted, lowercase=True), expected, note)
    check(read_vectors(path, wanted), {"Paris": [5, 6], "the": [1, 2]})


def test_vectors_of_one_number(write: Write) -> None:
    """A token that is a number looks like a header there, and is none."""
    check(read_vectors(write("7 5\n8 3\nthe 4\n9 9\n"), ["7", "the"]), {"7": [5], "the": [4]})
    check(read_vectors(write("2 1\n8 3\nthe 4\n"), ["2", "the"]), {"the": [4]})


def test_one_vector(write: Write) -> None:
    check(read_vectors(write("the 1 2 3"), ["the"]), {"the": [1, 2, 3]})
    check(read_vectors(write("1 3\nthe 1 2 3"), ["the"]), {"the": [1, 2, 3]})


def lines_with(line: str, at: int, count: int = SAMPLE + 50) -> str:
    """Many good lines, and one that is not, at line `at`."""
    lines = [f"word{number} 1 2 3" for number in range(1, count + 1)]
    lines[at - 1] = line
    return "\n".join(lines) + "\n"


WRONG: dict[str, tuple[bytes | str, str]] = {
    "too few": (lines_with("cat 1 2", 7), "line 7: 2 numbers where other lines have 3. Correct the line"),
    "too few, later": (lines_with("cat 1 2", 120), "line 120: 2 numbers where other lines have 3"),
    "too many": (lines_with("cat 1 2 3 4.5", 7), "line 7: more numbers than the 3 of other lines"),
    "a token alone": (lines_with("cat", 120), "line 120: 0 numbers where"),
    "a gap": (lines_with("cat  1 2", 120), "line 120: 2 numbers where"),
    "no number": (lines_with("cat 1 two 3", 120), r"line 120: the vector of 'cat' has an entry that is not a number"),
    "not finite": (lines_with("cat 1 inf 3", 120), "line 120: the vector of 'cat' has an entry that is not finite"),
    "nan": (lines_with("cat 1 nan 3", 120), "line 120: the vector of 'cat' has an entry that is not finite"),
    "too large": (lines_with("cat 1 1e39 3", 120), "line 120: the vector of 'cat' has an entry that is not finite"),
    "the last but one": (GLOVE + "dog 1\nthe 1 2 3\n", "line 4: 1 numbers where other lines have 3"),
    "blank lines count": ("\n\n" + GLOVE + "dog 1\nthe 1 2 3\n", "line 6: 1 numbers where"),
    "empty": ("", "is empty"),
    "blank": (" \n\n", "is empty"),
    "a header alone": ("400000 50\n", "has one line, b'400000 50', and no vectors"),
    "another width than announced": ("3 5\n" + GLOVE, "line 1: the header announces vectors of 5 numbers.* have 3"),
    "words": ("the\ncat\nsat\n", "line 1: a token without numbers"),
    "binary": (b"2 3\nthe \0\0\x80?\0\0\0@\0\0@@\ncat \0\0\x80?", "is not text: it has zero bytes.*binary format"),
    "a ZIP archive": (b"PK\3\4" + b"x" * 100, "is a ZIP archive. Unpack it"),
    "one long line": ("a " * LONGEST, "line 1: the line is longer than 1,048,576 bytes"),
    "half of a gzip file": (gzip.compress(GLOVE.encode() * 9)[:40], "is a damaged gzip file"),
    "noise in a gzip file": (gzip.compress(b"1 2\n" * 99)[:20] + b"\xff" * 40, "is a damaged gzip file"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_files_that_cannot_be_used(write: Write, content: bytes | str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(write(content), ["cat", "the"])
    assert "vectors.txt" in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.txt cannot be read: No such file"):
        read_vectors(tmp_path / "nothing.txt", [])
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_vectors(tmp_path, [])


def test_only_wanted_vectors_are_held(tmp_path: Path) -> None:
    """A file of 20 MB takes no more memory than what is kept of it, and the reader's buffers."""
    path = tmp_path / "large.txt"
    numbers = " ".join(["0.123456"] * 100)
    with path.open("w") as stream:
        for number in range(22_000):
            stream.write(f"word{number} {numbers}\n")
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        found = read_vectors(path, [f"word{number}" for number in range(0, 22_000, 220)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.matrix.shape == (100, 100)
    assert peak < 2_000_000


def test_coverage() -> None:
    found = Vectors(("the", "cat"), np.zeros((2, 3), np.float32))
    assert found.coverage(["the", "cat", "zyx", "wvu"]) == Coverage(0.5, None)
    assert found.coverage({"the": 6, "cat": 2, "zyx": 1, "wvu": 1}) == Coverage(0.5, 0.8)
    assert found.coverage([]) == Coverage(0.0, None)
    assert found.coverage({}) == Coverage(0.0, 0.0)


tokens = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zs", "Nd"]), min_size=1, max_size=5)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.data(), st.integers(2, 4), st.booleans())
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, dim: int, header: bool
) -> None:
    rows = data.draw(st.dictionaries(tokens, st.lists(numbers, min_size=dim, max_size=dim), min_size=1, max_size=6))
    path = tmp_path_factory.getbasetemp() / "written.txt"
    lines = [" ".join([token, *map(repr, row)]) + "\n" for token, row in rows.items()]
    path.write_text(f"{len(rows)} {dim}\n" * header + "".join(lines), encoding="utf-8", newline="\n")
    check(read_vectors(path, list(rows)), rows)


@pytest.mark.parametrize("header", ["", "900 3\n"])
def test_the_width_is_known_from_the_first_lines(header: str, write: Write) -> None:
    lines = "".join(f"word{number} 1 2 3\n" for number in range(SAMPLE + 5))
    assert read_width(write(header + lines + "a line that is no vector, and is not read\n")) == 3
