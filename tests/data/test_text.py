"""Text files: what is found, how pieces join, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.text import find_files, read_pieces
from unspool.errors import DataError


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    b, a, c = (write(tmp_path / name, "x") for name in ("b.txt", "a.txt", "deep/c.txt"))
    other = write(tmp_path / "d.md", "x")
    assert find_files(b) == [b]
    assert find_files(str(tmp_path)) == [a, b, c]
    assert find_files(str(tmp_path / "*.txt")) == [a, b]
    assert find_files([other, tmp_path / "deep", b, b]) == [other, c, b]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_pieces_join_to_the_text_whatever_their_size(tmp_path: Path, size: int) -> None:
    first = write(tmp_path / "1.txt", "\ufeffäöü 播放周杰伦\r\nthe end\r")
    second = write(tmp_path / "2.txt", "\r\nagain\n")
    assert "".join(read_pieces([first, second], size)) == "äöü 播放周杰伦\nthe end\n\nagain\n"


@pytest.mark.parametrize("size", [1, 4, 1 << 20])
def test_what_is_not_utf_8_is_named_with_its_place(tmp_path: Path, size: int) -> None:
    file = write(tmp_path / "latin.txt", "é".encode() + b"abc\xe9 more text")
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8: byte 5 \(0xe9\)"):
        list(read_pieces([file], size))
    cut = write(tmp_path / "cut.txt", "abc€".encode()[:-1])
    with pytest.raises(DataError, match="ends within a character"):
        list(read_pieces([cut], size))


def test_what_is_not_text(tmp_path: Path) -> None:
    file = write(tmp_path / "picture.txt", b"PNG" + bytes(10))
    with pytest.raises(DataError, match="byte 3 is zero"):
        list(read_pieces([file]))


def test_what_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "poems.txt", "x")
    with pytest.raises(DataError, match=r"no file .*poem\.txt.*has poems\.txt"):
        find_files(tmp_path / "poem.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no \\*.txt file"):
        find_files(tmp_path / "empty")
    with pytest.raises(DataError, match="no file is named"):
        find_files([])
