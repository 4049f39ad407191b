"""Tokens in mapped files, and windows over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from unspool.data.batches import Windows
from unspool.data.tokens import Ids, map_tokens, smallest_type, write_tokens
from unspool.errors import DataError


@pytest.mark.parametrize(("size", "width"), [(2, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_there_and_back(tmp_path: Path, size: int, width: int) -> None:
    ids = np.array([0, 1, size - 1, 0, size // 2])
    file = tmp_path / "new" / "tokens"
    write_tokens(file, [ids[:2], ids[2:2], ids[2:]], size)
    assert smallest_type(size).itemsize == width
    assert file.stat().st_size == 5 * width
    found = map_tokens(file, size)
    assert isinstance(found, np.memmap)
    assert found.tolist() == ids.tolist()


def test_nothing_is_half_written(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    write_tokens(file, [np.array([1, 2])], 10)

    def failing() -> Iterator[Ids]:
        yield np.array([3])
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        write_tokens(file, failing(), 10)
    assert map_tokens(file, 10).tolist() == [1, 2]
    assert list(tmp_path.iterdir()) == [file]


def test_no_tokens(tmp_path: Path) -> None:
    write_tokens(tmp_path / "none", [], 10)
    assert map_tokens(tmp_path / "none", 10).tolist() == []


@pytest.mark.parametrize(("count", "rows", "steps"), [(31, 3, 4), (30, 3, 4), (2, 1, 9), (101, 1, 10), (40, 7, 1)])
def test_every_token_is_a_target_once_and_rows_go_on(count: int, rows: int, steps: int) -> None:
    windows = Windows(np.arange(count), rows, steps)
    inputs = np.concatenate([x for x, _ in windows])
    targets = np.concatenate([y for _, y in windows])
    assert (targets == inputs + 1).all()
    assert inputs.shape == (windows.length, rows)
    assert (np.diff(inputs, axis=0) == 1).all()  # row i goes on where it stopped
    flat = np.sort(targets.ravel())
    assert flat.tolist() == list(range(1, 1 + windows.length * rows))
    assert count - 1 - windows.length * rows < rows
    lengths = [len(x) for x, _ in windows]
    assert len(lengths) == len(windows)
    assert lengths[:-1] == [steps] * (len(windows) - 1)
    assert inputs.dtype == np.int64


def test_any_window_by_its_number() -> None:
    windows = Windows(np.arange(50), 4, 5)
    for number, (x, y) in enumerate(itertools.islice(windows, 3)):
        assert (windows.window(number)[0] == x).all()
        assert (windows.window(number)[1] == y).all()


def test_too_few_tokens() -> None:
    with pytest.raises(DataError, match="3 tokens are too few for 8 rows"):
        Windows(np.arange(3), 8, 5)
