"""How an X-ray uses cores, and what it calls stacks of layers."""

from __future__ import annotations

import pytest
import torch
from threadpoolctl import threadpool_info

from unspool.insight import xray as room
from unspool.insight.examination import examine
from unspool.insight.naming import name_stacks
from unspool.insight.one_thread import one_thread


def test_within_there_is_one_thread_and_then_as_many_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        with one_thread():
            assert torch.get_num_threads() == 1
            within = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert torch.get_num_threads() == 2
        assert blas
        assert within == [1] * len(blas)
        assert [pool for pool in threadpool_info() if pool["user_api"] == "blas"] == blas
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_measure_runs_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(room, "examine", lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        room.xray(torch.nn.GRU(2, 3), torch.randn(5, 2, 2))
    finally:
        torch.set_num_threads(before)
    assert seen == [1]
    assert hasattr(examine, "__wrapped__")


def test_stacks_are_called_by_the_last_part_of_their_path() -> None:
    assert name_stacks(["encoder", "decoders.0"]) == {"encoder": "encoder", "decoders.0": "decoder"}
    assert list(name_stacks(["decoders.0", "decoders.1"]).values()) == ["decoder 1", "decoder 2"]
    sides = ["network.encoder_side", "network.decoder_side"]
    assert list(name_stacks(sides).values()) == ["encoder", "decoder"]
    assert list(name_stacks(["a.rnn", "b.rnn"]).values()) == ["a.rnn", "b.rnn"]
