"""The build of the entry in C++: nobody waits for it, it fails without harm, and leaves nothing behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.engine.agreement import needs_compiler

from unspool.engine import build
from unspool.errors import UnspoolError
from unspool.nn import entry
from unspool.nn.entry import WORTH, Entry, Plan

pytestmark = [needs_compiler, pytest.mark.usefixtures("kernels_on")]


def test_many_small_calls_start_a_build_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    own = Entry()

    def load(self: Entry) -> None:
        begun.set()
        go.wait(60)
        self.call = lambda *_: ()

    monkeypatch.setattr(Entry, "_load", load)
    monkeypatch.setattr(entry, "DELAY", 0)
    for _ in range(WORTH - 1):
        own.notice()
    assert not begun.is_set()
    own.notice()
    assert begun.wait(60)
    assert own.call is None  # nobody waits
    go.set()
    assert own.prepare() is None
    assert own.call is not None


def test_no_compiler_is_started_in_a_short_program_or_without_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    compiled: list[str] = []
    monkeypatch.setattr(build, "compile_once", lambda *_: compiled.append("now"))
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr(entry, "free_memory", lambda: 300 << 20)
    own = Entry()
    own._prepare_later()
    assert waits == [entry.DELAY]
    assert not compiled
    assert "300 MiB are free" in str(own.prepare())


def test_the_memory_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(entry, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(entry, "CONTAINER", tmp_path)
    entry.MACHINE.write_text("MemTotal: 900 kB\nMemAvailable: 500 kB\nHugePages_Total: 0\n", "utf-8")
    assert entry.free_memory() == 500 * 1024
    for name, text in (("max", "300000"), ("current", "200000"), ("stat", "anon 7\ninactive_file 50000\n")):
        (tmp_path / f"memory.{name}").write_text(text, "utf-8")
    assert entry.free_memory() == 150_000
    (tmp_path / "memory.max").write_text("max\n", "utf-8")
    assert entry.free_memory() == 500 * 1024


def test_a_thread_that_cannot_start_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    own = Entry()
    for _ in range(2 * WORTH):
        own.notice()
    assert own.prepare() == "can't start new thread"


def test_whatever_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: Entry) -> None:
        raise RuntimeWarning("the cache cannot be written")  # as with warnings that are errors

    monkeypatch.setattr(Entry, "_load", load)
    assert Entry().prepare() == "the cache cannot be written"


def test_two_processes_that_need_it_compile_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, begun, go = tmp_path / "entry.so", threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with entry._taking_turns(path):
            begun.set()
            go.wait(60)
            order.append("first")

    def second() -> None:
        with entry._taking_turns(path):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[1].join(0.3)
    assert order == []
    go.set()
    for thread in threads:
        thread.join(60)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(entry, "PATIENCE", 0.1)
    with entry._taking_turns(path), entry._taking_turns(path):
        pass  # who waits for too long goes on


@pytest.mark.parametrize("content", ["", "int x;"])
def test_what_cannot_be_loaded_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    def compile_once(source: str, command: tuple[str, ...], path: Path, *libraries: str) -> None:
        path.touch()
        if content:
            build._compile(content, (command[0], "-shared", "-fPIC"), path)

    folder = tmp_path / "cache"
    monkeypatch.setenv("UNSPOOL_CACHE", str(folder))
    monkeypatch.setattr(build, "compile_once", compile_once)
    assert "cannot be loaded" in str(Entry().prepare())
    assert not list(folder.glob("*.so"))


def test_what_a_killed_build_left_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "build-old", tmp_path / "build-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "half.so").touch()
    os.utime(old, (0, 0))
    with build._making(tmp_path / "whole.so") as made:
        made.touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build-new", "whole.so"]


def test_without_a_compiler_calls_go_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    own = Entry()
    assert "no C++ compiler" in str(own.prepare())
    assert own.call is None
    for _ in range(2 * WORTH):
        own.notice()
    with pytest.raises(UnspoolError, match="not there"):
        own.add_chain([Plan((0, 0, 0), (4, 0, 1, 1), ((), (), ()), ())], stacked=True)


def test_a_compiler_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(entry, "FLAGS", ("-std=c++03",))
    own = Entry()
    assert "failed on" in str(own.prepare())
    assert own.call is None
    assert not list(tmp_path.rglob("*.so"))
