"""Tapes' memory: it comes back when its tensor is gone, is handed out again, and is not hoarded."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from tests.engine.agreement import needs_compiler

import unspool
from unspool.nn import tapes

LIKE = torch.empty(0)
LARGE = tapes.LEAST // 4 + 100


@pytest.fixture(autouse=True)
def nothing_free() -> Iterator[None]:
    gc.collect()
    tapes._free.clear()
    yield
    tapes._free.clear()


def test_small_tapes_are_torchs_own() -> None:
    tape = tapes.take(LIKE, tapes.LEAST // 4 - 1)
    del tape
    assert not tapes._free


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_memory_comes_back_and_is_used_again(dtype: torch.dtype) -> None:
    tape = tapes.take(LIKE.to(dtype), LARGE)
    assert tape.shape == (LARGE,)
    assert tape.dtype == dtype
    part, at = tape[5:].view(-1), tape.data_ptr()
    del tape
    assert not tapes._free  # a view still needs it
    part.fill_(1)
    del part
    assert len(tapes._free) == 1
    again = tapes.take(LIKE.to(dtype), LARGE - 7)
    assert again.data_ptr() == at
    assert not tapes._free
    other = tapes.take(LIKE.to(dtype), LARGE)
    assert other.data_ptr() != at


def test_a_much_larger_piece_is_left_for_others() -> None:
    del_later = [tapes.take(LIKE, 3 * LARGE)]
    del_later.clear()
    small = tapes.take(LIKE, LARGE)
    assert small.untyped_storage().nbytes() == 4 * LARGE
    assert len(tapes._free) == 1


def test_no_more_is_kept_than_said() -> None:
    held = [tapes.take(LIKE, tapes.MOST // 16) for _ in range(6)]
    held.clear()
    assert sum(piece.nbytes for piece in tapes._free) <= tapes.MOST
    assert len(tapes._free) == 4


@needs_compiler
def test_a_step_after_the_other_uses_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    layer, x = unspool.nn.Recurrent("lstm", 8, 64), torch.randn(60, 32, 8)
    expected = torch.autograd.grad(layer(x)[0].sum(), list(layer.parameters()))
    assert len(tapes._free) == 1
    for _ in range(3):
        found = torch.autograd.grad(layer(x)[0].sum(), list(layer.parameters()))
        assert len(tapes._free) == 1
        assert all(map(torch.equal, found, expected))
