"""Encodings: each is found by its bytes alone, what is damaged is said, and what is no text is refused."""

from __future__ import annotations

import codecs
import warnings
from pathlib import Path

import pytest

from unspool.data.encodings import Encoding, find_encoding
from unspool.errors import DataError, DataWarning

CHINESE = "播放周杰伦的歌。\n今天北京天气怎么样?\n把灯 turn off 关掉\n" * 5
FRENCH = "L'été où j'étais à Besançon, il a plu – “tout” le temps…\nDéjà vu, naïveté et cœur.\n" * 5


def write(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("text", ["", "plain\n", CHINESE, FRENCH, "é"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_nothing_is_said_of_utf_8(tmp_path: Path, text: str, mark: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_encoding(write(tmp_path / "a.txt", mark + text.encode())) == Encoding("utf-8", len(mark))


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (CHINESE, "utf-16", Encoding("utf-16-le", 2)),
        (FRENCH, "utf-16", Encoding("utf-16-le", 2)),
        (CHINESE, "utf-16-le", Encoding("utf-16-le")),
        (CHINESE, "utf-16-be", Encoding("utf-16-be")),
        (FRENCH, "utf-16-le", Encoding("utf-16-le")),
        (FRENCH, "utf-16-be", Encoding("utf-16-be")),
        (CHINESE, "utf-32", Encoding("utf-32-le", 4)),
        (CHINESE, "gbk", Encoding("gb18030")),
        (CHINESE + "𠮷", "gb18030", Encoding("gb18030")),
        (FRENCH, "cp1252", Encoding("cp1252")),
        ("caf\xe9\n", "latin-1", Encoding("cp1252")),  # the same where both have a character
        ("caf\xe9 \x81\n", "latin-1", Encoding("latin-1")),
    ],
)
def test_another_encoding_is_found_and_said(tmp_path: Path, text: str, encoding: str, found: Encoding) -> None:
    raw = text.encode(encoding)
    file = write(tmp_path / "a.txt", raw)
    with pytest.warns(DataWarning, match=rf"a\.txt is not UTF-8: it is read as {found.name.upper()}\."):
        assert find_encoding(file) == found
    assert raw[found.skip :].decode(found.name) == text


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("周杰伦的歌".encode() + b"\xff" + "好听".encode(), "has 1 wrong characters, the first at byte 15"),
        ("abc€".encode()[:-1], "ends within a character"),
        (CHINESE.encode()[:50], "ends within a character"),
    ],
)
def test_damaged_utf_8_is_said(tmp_path: Path, raw: bytes, message: str) -> None:
    with pytest.warns(DataWarning, match=rf"a\.txt is UTF-8 that {message}"):
        assert find_encoding(write(tmp_path / "a.txt", raw)) == Encoding("utf-8")


@pytest.mark.parametrize("raw", [b"\x89PN\r\n" + bytes(10), b"a O\0", bytes(range(256)) * 4, b"\xff\xfe\0"])
def test_what_is_no_text_is_refused(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.txt is not text: byte \d+ is zero\. Text is read in UTF-8"):
        find_encoding(write(tmp_path / "a.txt", raw))


def test_a_file_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", b"plain")
    assert find_encoding(file).name == "utf-8"
    write(file, "déjà vu".encode("cp1252"))
    with pytest.warns(DataWarning):
        assert find_encoding(file).name == "cp1252"
