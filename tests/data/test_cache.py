"""The cache of prepared corpora: used again, never seen in part, mended when damaged, at worst done without."""

from __future__ import annotations

import gc
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unspool.data import cache as cache_module
from unspool.data.cache import CHECKSUMS, DAY, USED, made_once
from unspool.data.corpus import PARTS, Division, prepare
from unspool.data.vocabulary import Characters
from unspool.errors import DataError, MissingPackageError

TEXT = "".join(f"line {n} of the text\n" for n in range(300))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an entry for every time that a vocabulary of characters was fitted."""
    times: list[int] = []
    fit = Characters.fit.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Characters], pieces: object, limit: int | None = None) -> Characters:
        times.append(1)
        return fit(cls, pieces, limit)  # type: ignore[no-any-return]

    monkeypatch.setattr(Characters, "fit", classmethod(counted))
    return times


def entries(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


def read(file: Path) -> str:
    corpus = prepare(file, Division())
    return "".join(corpus.vocabulary.decode(getattr(corpus, part)) for part in PARTS)


def test_the_same_content_is_prepared_once(cache: Path, file: Path, fitted: list[int]) -> None:
    first = prepare(file, Division())
    file.rename(file.with_name("other.txt"))
    again = prepare(file.with_name("other.txt"), Division())
    assert len(fitted) == 1
    assert first.digest == again.digest
    assert all((getattr(first, part) == getattr(again, part)).all() for part in PARTS)
    assert first.vocabulary.dump() == again.vocabulary.dump()


def test_other_content_and_other_settings_are_prepared_anew(cache: Path, file: Path, fitted: list[int]) -> None:
    divisions = [Division(), Division(validation=0.2), Division(test=0.1), Division("lines"), Division("lines", seed=1)]
    for division in divisions:
        prepare(file, division)
    prepare(file, Division(), limit=5)
    assert len(fitted) == 6
    file.write_text(TEXT.replace("300", "301"), encoding="utf-8")
    prepare(file, Division())
    file.write_text(TEXT[:-2] + "T\n", encoding="utf-8")  # as long as before
    assert read(file) == TEXT[:-2] + "\ufffd\n"  # and not in the training text
    assert len(fitted) == 7
    prepare(file, Division(), "byte")
    prepare(file, Division(), vocabulary=Characters(["<unk>", "a"]))
    assert len(fitted) == 7
    assert len(entries(cache)) == 9


def test_folders_are_private(cache: Path, file: Path) -> None:
    umask = os.umask(0o002)
    try:
        prepare(file, Division())
    finally:
        os.umask(umask)
    for folder in (cache.parent, cache):  # kernels are kept in the first, and are refused where others can write
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "scrambled": lambda path: path.write_bytes(b'{"kind": "char", "tokens": [3]}'),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["training", "validation", "vocabulary.json", CHECKSUMS])
def test_a_damaged_entry_is_made_anew(cache: Path, file: Path, fitted: list[int], name: str, damage: str) -> None:
    assert read(file) == TEXT
    (entry,) = entries(cache)
    DAMAGES[damage](entry / name)
    assert read(file) == TEXT
    assert read(file) == TEXT
    assert len(fitted) == 2
    assert entries(cache) == [entry]


def test_an_entry_that_is_a_file(cache: Path, file: Path) -> None:
    read(file)
    (entry,) = entries(cache)
    entry.rename(cache.parent / "aside")
    entry.write_bytes(b"?")
    assert read(file) == TEXT
    assert entry.is_dir()


@pytest.mark.parametrize("failure", [DataError("?"), KeyboardInterrupt(), MemoryError()], ids=repr)
def test_what_fails_is_never_seen(cache: Path, failure: BaseException) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        assert [entry.name[:8] for entry in entries(cache)] == [".making-"]
        raise failure

    with pytest.raises(type(failure)):
        made_once("tokens", "key", make, Path.read_bytes)
    assert entries(cache) == []


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow beyond a size: the kernel fails the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("split", ["tail", "lines"])
@pytest.mark.parametrize("size", [0, 100, 300, 4000])
def test_a_full_disk(cache: Path, file: Path, size: int, split: str) -> None:
    with (
        files_of_at_most(size),
        pytest.raises(DataError, match=r"cache.tokens cannot keep .*: File too large\. Set UNSPOOL_CACHE"),
    ):
        prepare(file, Division(split))
    assert entries(cache) == []
    prepare(file, Division(split))
    assert len(entries(cache)) == 1


def test_two_processes_at_once(cache: Path, file: Path) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            os._exit(0 if all(read(file) == TEXT for _ in range(5)) else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert read(file) == TEXT
    assert [entry.name[0] == "." for entry in entries(cache)] == [False]


def test_another_process_makes_the_same_meanwhile(cache: Path) -> None:
    def make(folder: Path, depth: int = 0) -> None:
        (folder / "made").write_bytes(b"same")
        if not depth:
            made_once("tokens", "key", lambda inner: make(inner, 1), lambda inner: None)

    assert made_once("tokens", "key", make, lambda folder: (folder / "made").read_bytes()) == b"same"
    assert [entry.name for entry in entries(cache)] == ["key"]


def test_what_killed_processes_left_is_swept_away(cache: Path, file: Path) -> None:
    read(file)
    old, recent = cache / ".making-old", cache / ".making-recent"
    for folder in (old, recent):
        folder.mkdir()
        (folder / "half").write_bytes(b"half")
    os.utime(old, (time.time() - 2 * DAY,) * 2)
    read(file)
    assert recent.exists()
    assert not old.exists()


class TestRoom:
    """Beyond the limit, what was not used for longest goes; never what is in use or was used within an hour."""

    @pytest.fixture(autouse=True)
    def _small(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cache_module, "LIMIT", 2500)

    def use(self, key: str, size: int = 1000) -> bytes:
        def make(folder: Path) -> None:
            (folder / "content").write_bytes(bytes(size))

        return made_once("tokens", key, make, lambda folder: (folder / "content").read_bytes())

    def age(self, cache: Path, **hours: float) -> None:
        for key, since in hours.items():
            os.utime(cache / key / USED, (time.time() - since * 3600,) * 2)

    def test_the_oldest_goes(self, cache: Path) -> None:
        for key in ("a", "b"):
            self.use(key)
        self.age(cache, a=2, b=3)
        self.use("c")
        assert [entry.name for entry in entries(cache)] == ["a", "c"]

    def test_reading_is_use(self, cache: Path) -> None:
        for key in ("a", "b"):
            self.use(key)
        self.age(cache, a=3, b=2)
        self.use("a")
        self.use("c")
        assert [entry.name for entry in entries(cache)] == ["a", "c"]

    def test_only_as_many_go_as_must(self, cache: Path) -> None:
        for key in ("a", "b", "c", "d"):
            self.use(key, 500)
        self.age(cache, a=5, b=4, c=3, d=2)
        self.use("e", 1000)
        assert [entry.name for entry in entries(cache)] == ["c", "d", "e"]

    def test_what_was_used_within_the_hour_stays(self, cache: Path) -> None:
        for key in ("a", "b", "c", "d"):
            self.use(key)
        assert [entry.name for entry in entries(cache)] == ["a", "b", "c", "d"]

    def test_an_entry_without_a_mark_is_as_old_as_its_content(self, cache: Path) -> None:
        self.use("a")
        (cache / "a" / USED).unlink()
        os.utime(cache / "a" / CHECKSUMS, (time.time() - 2 * 3600,) * 2)
        self.use("b", 2000)
        assert [entry.name for entry in entries(cache)] == ["b"]

    def test_what_is_in_use_stays_until_it_is_not(self, cache: Path, file: Path) -> None:
        corpora = [prepare(file, Division()) for _ in range(2)]  # made, and read
        (key,) = (entry.name for entry in entries(cache))
        for name in ("b", "c"):
            self.age(cache, **{key: 5})
            self.use(name, 3000)
            assert (cache / key).is_dir()
            corpora.pop()
            gc.collect()
        self.use("d", 3000)
        assert not (cache / key).exists()

    def test_what_another_process_uses_stays(self, cache: Path) -> None:
        self.use("a")
        code = (
            "import sys; from pathlib import Path; from unspool.data.cache import _use\n"
            "marks = [_use(Path(sys.argv[1])) for _ in range(2)]; marks.pop(0).close(); print(); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(cache / "a")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            self.age(cache, a=5)
            self.use("b", 3000)
            assert (cache / "a").is_dir()
            other.communicate()
        self.age(cache, b=0.5)
        self.use("c", 3000)
        assert not (cache / "a").exists()


class TestWithout:
    """Without a cache the corpus is made each time, with one warning, and nothing is left behind."""

    @pytest.fixture(autouse=True)
    def _temporary(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        yield
        assert list((tmp_path / "temporary").iterdir()) == []

    def check(self, file: Path, fitted: list[int], why: str) -> None:
        for number in (1, 2):
            with pytest.warns(RuntimeWarning, match=f"{why}.*is not kept. Set UNSPOOL_CACHE") as caught:
                assert read(file) == TEXT
            assert len(caught) == 1
            assert len(fitted) == number

    def test_no_folder_can_be_made(self, file: Path, fitted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("UNSPOOL_CACHE", str(file / "cache"))
        self.check(file, fitted, "Not a directory")

    def test_it_cannot_be_written(
        self, cache: Path, file: Path, fitted: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)  # modes do not hold root back
        self.check(file, fitted, "tokens cannot be written")
        assert entries(cache) == []

    def test_others_can_write_to_it(self, cache: Path, file: Path, fitted: list[int]) -> None:
        cache.mkdir(parents=True)
        cache.chmod(0o777)
        self.check(file, fitted, "tokens can be written by others")
        assert entries(cache) == []

    def test_a_user_without_a_home(self, file: Path, fitted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("UNSPOOL_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
        self.check(file, fitted, "home")


def test_a_missing_package_is_said_even_where_the_tokens_are_there(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(file, Division(), "bpe", limit=300)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingPackageError, match=r"this tokenizer needs tokenizers: pip install 'unspool\[text\]'"):
        prepare(file, Division(), "bpe", limit=300)
