"""Text in Parquet shards: the same corpus as the same text in files, whichever shards and rows it is in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unspool.data import parquet_text
from unspool.data.corpus import Division, prepare
from unspool.errors import DataError

LINES = [f"line {number} of {'abc' * (number % 5)}" for number in range(40)]


@pytest.mark.parametrize("split", ["tail", "lines"])
def test_the_corpus_is_that_of_plain_text(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_text, "ROWS", 7)
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "book.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (tmp_path / "shards").mkdir()
    for number, first in enumerate((0, 15)):
        rows = {"id": [str(one) for one in range(first, first + 25)], "text": [*LINES[first : first + 25]]}
        rows = {name: column[: 15 if number == 0 else 25] for name, column in rows.items()}
        pl.DataFrame(rows).write_parquet(tmp_path / "shards" / f"shard-{number}.parquet")
    division = Division(split, 0.2)
    expected, found = (prepare(tmp_path / name, division) for name in ("book.txt", "shards"))
    assert found.digest == expected.digest
    for part in ("training", "validation"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


def test_files_without_a_text_column_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": ["x"], "b": ["y"]}).write_parquet(tmp_path / "two.parquet")
    with pytest.raises(DataError, match="of text are a, b"):
        list(parquet_text.read_parquet_text(tmp_path / "two.parquet"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(parquet_text.read_parquet_text(tmp_path / "bad.parquet"))
