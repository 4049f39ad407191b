"""Text files: what is found, how pieces join, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.data.text import find_files, read_pieces, split_lines, whole_lines
from unspool.errors import DataError, DataWarning


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


class TestFiles:
    def test_files_folders_and_patterns(self, tmp_path: Path) -> None:
        b, a, c = (write(tmp_path / name, "x") for name in ("b.txt", "a.txt", "deep/c.txt"))
        other = write(tmp_path / "d.md", "x")
        assert find_files(b) == [b]
        assert find_files(str(tmp_path)) == [a, b, c]
        assert find_files(str(tmp_path / "*.txt")) == [a, b]
        assert find_files(tmp_path / "**" / "*.txt") == [a, b, c]
        assert find_files([other, tmp_path / "deep", b, b]) == [other, c, b]

    def test_patterns_below_the_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "deep/a.txt", "x")
        monkeypatch.chdir(tmp_path / "deep")
        assert find_files("*.txt") == [Path("a.txt")]
        assert find_files("../d*/a.tx?") == [Path("../deep/a.txt")]

    def test_a_name_that_looks_like_a_pattern(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a[1].txt", "x")
        assert find_files(file) == [file]

    def test_one_file_by_several_names_is_taken_once(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.txt", "x")
        (tmp_path / "b.txt").symlink_to(file)
        (tmp_path / "c.txt").hardlink_to(file)
        assert find_files([tmp_path, tmp_path / "c.txt", tmp_path / "*.txt"]) == [file]

    def test_hidden_files_are_taken_only_by_name(self, tmp_path: Path) -> None:
        shown = write(tmp_path / "a.txt", "x")
        hidden = write(tmp_path / "._a.txt", "x")
        deep = write(tmp_path / ".kept" / "b.txt", "x")
        assert find_files(tmp_path) == find_files(tmp_path / "**/*.txt") == [shown]
        assert find_files(hidden) == [hidden]
        assert find_files(tmp_path / ".kept") == find_files(tmp_path / ".kept/*.txt") == [deep]

    def test_links_in_circles(self, tmp_path: Path) -> None:
        file = write(tmp_path / "deep" / "a.txt", "x")
        for name in ("up", "up-again", "and-again"):
            (tmp_path / "deep" / name).symlink_to(tmp_path)
        (tmp_path / "self.txt").symlink_to(tmp_path / "self.txt")
        assert find_files(tmp_path) == find_files(tmp_path / "**/*.txt") == [file]
        with pytest.raises(DataError, match=r"no file .*self\.txt"):
            find_files(tmp_path / "self.txt")

    def test_files_about_the_data_are_left_out_of_folders(self, tmp_path: Path) -> None:
        about = [write(tmp_path / name, "x") for name in ("SOURCE.txt", "deep/README.txt", "LICENSE")]
        with pytest.raises(DataError, match=r"no \*\.txt file and no other data"):
            find_files(tmp_path)
        named = [write(tmp_path / name, "x") for name in ("polarity.all", "polarity.conll")]
        assert find_files(tmp_path) == named
        book = write(tmp_path / "deep/book.txt", "x")
        assert find_files(tmp_path) == [book]
        assert find_files(about[0]) == [about[0]]

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        write(tmp_path / "poems.txt", "x")
        with pytest.raises(DataError, match=r"no file .*poem\.txt.*has poems\.txt"):
            find_files(tmp_path / "poem.txt")
        with pytest.raises(DataError, match=r"no file .*\*\.text.*has poems\.txt"):
            find_files(tmp_path / "*.text")
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match=r"no \*\.txt file"):
            find_files(tmp_path / "empty")
        with pytest.raises(DataError, match="no file is named"):
            find_files([])

    @pytest.mark.parametrize("name", ["", "a\0b", "~nobody-of-this-name/a.txt", "**x**/a.txt", "x" * 5000])
    def test_what_is_no_name(self, name: str) -> None:
        with pytest.raises(DataError, match="name is empty|no file|not a pattern|File name too long"):
            find_files(name)

    def test_pipes_and_devices_do_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.txt")
        for name in (tmp_path / "pipe.txt", Path("/dev/zero"), Path("/dev/null")):
            with pytest.raises(DataError, match=f"{name} is a pipe or a device"):
                find_files(name)
        with pytest.raises(DataError, match=r"no \*\.txt file"):
            find_files(tmp_path)

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="/proc/self/mem cannot be read: Input/output error"):
            list(read_pieces(find_files("/proc/self/mem")))
        with pytest.raises(DataError, match="gone.txt cannot be read: No such file"):
            list(read_pieces([tmp_path / "gone.txt"]))

    @pytest.mark.skipif(os.getuid() == 0, reason="modes do not hold root back")
    def test_what_may_not_be_read(self, tmp_path: Path) -> None:
        file = write(tmp_path / "deep" / "secret.txt", "x")
        file.chmod(0)
        with pytest.raises(DataError, match="secret.txt cannot be read: Permission denied"):
            list(read_pieces([file]))
        file.parent.chmod(0)
        with pytest.raises(DataError, match="secret.txt cannot be read: Permission denied"):
            find_files(file)
        file.parent.chmod(0o700)


class TestPieces:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
    def test_they_join_to_the_text_whatever_their_size(self, tmp_path: Path, size: int) -> None:
        first = write(tmp_path / "1.txt", "\ufeffäöü 播放周杰伦\r\nthe end\r")
        second = write(tmp_path / "2.txt", "\r\nagain\n")
        assert "".join(read_pieces([first, second], size)) == "äöü 播放周杰伦\nthe end\n\nagain\n"

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    def test_only_the_first_mark_of_byte_order_is_one(self, tmp_path: Path, size: int) -> None:
        file = write(tmp_path / "a.txt", "\ufeff\ufeffa\ufeffbc\ufeff\n\ufeff")
        assert "".join(read_pieces([file], size)) == "\ufeffa\ufeffbc\ufeff\n\ufeff"

    @pytest.mark.parametrize("size", [1, 2, 1 << 20])
    @given(text=st.text(st.sampled_from("\r\na€🙂\u2028\x0b\x85"), max_size=20))
    def test_line_ends(self, tmp_path_factory: pytest.TempPathFactory, size: int, text: str) -> None:
        file = write(tmp_path_factory.getbasetemp() / "line-ends.txt", text)
        assert "".join(read_pieces([file], size)) == "\n".join(text.replace("\r\n", "\n").split("\r"))

    def test_files_do_not_run_into_each_other(self, tmp_path: Path) -> None:
        files = [write(tmp_path / f"{n}.txt", text) for n, text in enumerate(["one", "", "two\n", "\n", "three", ""])]
        assert "".join(read_pieces(files)) == "one\ntwo\n\nthree"

    @pytest.mark.parametrize("size", [1, 3, 1 << 20])
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "gb18030", "cp1252"])
    def test_another_encoding_is_decoded_whatever_the_size(self, tmp_path: Path, size: int, encoding: str) -> None:
        text = "Élan, café – déjà vu\r\n" * 3 if encoding == "cp1252" else "播放周杰伦的歌\r\n再来一首\r\n"
        file = write(tmp_path / "other.txt", text.encode(encoding))
        with pytest.warns(DataWarning, match=r"other\.txt is not UTF-8: it is read as "):
            assert "".join(read_pieces([file], size)) == text.replace("\r\n", "\n")
        assert "".join(read_pieces([file], size)) == text.replace("\r\n", "\n")  # said once

    @pytest.mark.parametrize("size", [1, 4, 1 << 20])
    def test_what_is_not_text(self, tmp_path: Path, size: int) -> None:
        file = write(tmp_path / "picture.txt", b"PNG\r\n" + bytes(10))
        with pytest.raises(DataError, match="is not text: byte 5 is zero"):
            list(read_pieces([file], size))


class TestLines:
    @given(st.lists(st.text("ab \n\r\u2028", max_size=8)), st.sampled_from([3, 10, float("inf")]))
    def test_pieces_end_where_lines_do_or_before_a_blank(self, pieces: list[str], longest: float) -> None:
        text, found = "".join(pieces), list(whole_lines(pieces, longest))
        assert "".join(found) == text
        at = 0
        for piece in found[:-1]:
            at += len(piece)
            if piece[-1] != "\n":
                assert text[at] == " " or text[at].isspace()
                assert not piece[-1].isspace()
                assert longest < 100

    def test_a_long_line_is_not_held_whole(self) -> None:
        pieces = ["word and " * 10] * 1000
        assert max(map(len, whole_lines(pieces, 500))) < 700
        assert max(map(len, whole_lines(pieces, float("inf")))) == 90_000

    @given(st.text("a\n\r\u2028\x0b\x85"))
    def test_only_line_ends_end_lines(self, text: str) -> None:
        lines = [f"{line}\n" for line in text.split("\n")]
        assert split_lines(text) == [*lines[:-1], *filter(None, [lines[-1][:-1]])]
