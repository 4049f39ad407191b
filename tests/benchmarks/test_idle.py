"""Threads that run are seen, and are waited for as long as they run, but not for ever."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from unspool.lab.bench import idle
from unspool.lab.bench.idle import others_run, wait_for_idle_threads

pytestmark = pytest.mark.skipif(not idle.THREADS.is_dir(), reason="only Linux tells about threads")


def test_a_thread_that_runs_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long hash is computed without Python's lock, so its thread runs all the time."""
    monkeypatch.setattr(idle, "MOST", 60.0)
    wait_for_idle_threads()  # for those of earlier tests
    begun, done = threading.Event(), threading.Event()

    def compute() -> None:
        begun.set()
        hashlib.sha256(bytes(2**27))
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    begun.wait()
    time.sleep(0.02)
    assert others_run() or done.is_set()
    wait_for_idle_threads()
    assert done.is_set()
    thread.join()
    assert not others_run()


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "others_run", lambda: True)
    begun = time.perf_counter()
    wait_for_idle_threads()
    assert idle.MOST <= time.perf_counter() - begun < idle.MOST + 5


def test_without_knowledge_a_moment_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "THREADS", idle.THREADS / "none")
    begun = time.perf_counter()
    wait_for_idle_threads()
    assert time.perf_counter() - begun >= idle.UNTOLD
