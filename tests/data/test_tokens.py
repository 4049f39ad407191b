"""Tokens in mapped files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from unspool.data.tokens import Ids, map_tokens, smallest_type, write_tokens


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
