"""Processes of one start agree on a name, whatever those of earlier starts have left in the store."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]  # documented

from unspool.learning.meeting import NAME, agree, find_store

COUNT = 3


@pytest.fixture
def store() -> Store:
    """A store as torchrun keeps it over restarts."""
    made = HashStore()
    made.set_timeout(timedelta(seconds=20))
    return made


def start(pool: ThreadPoolExecutor, store: Store, ranks: list[int]) -> list[Future[str]]:
    return [pool.submit(agree, store, rank, COUNT) for rank in ranks]


def test_each_start_has_a_name_of_its_own(store: Store) -> None:
    with ThreadPoolExecutor(COUNT) as pool:
        starts = [{one.result(20) for one in start(pool, store, [2, 0, 1])} for _ in range(3)]
    assert [len(names) for names in starts] == [1, 1, 1]
    assert len(set.union(*starts)) == 3


def test_who_comes_first_does_not_take_the_name_of_the_last_start(store: Store) -> None:
    with ThreadPoolExecutor(COUNT) as pool:
        before = {one.result(20) for one in start(pool, store, [0, 1, 2])}
        early = start(pool, store, [1, 2])
        threading.Event().wait(0.3)
        assert not any(one.done() for one in early)
        (first,) = start(pool, store, [0])
        assert {one.result(20) for one in early} == {first.result(20)} != before


def test_a_start_of_which_some_died_on_the_way_is_forgotten(store: Store) -> None:
    store.set(NAME, "dead")  # the first had drawn a name, another had called, and they were killed
    store.set(f"{NAME}/dead/1", "caller")
    store.set(f"{NAME}/dead/1/heard", "caller")
    with ThreadPoolExecutor(COUNT) as pool:
        names = {one.result(20) for one in start(pool, store, [1, 2, 0])}
    assert len(names) == 1
    assert "dead" not in names


def test_only_torchrun_has_such_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    assert find_store(timedelta(seconds=1)) is None
