"""Names: words that stand for a part of the data, and files that are about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.names import find_part, is_about


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("train.txt", "training"),
        ("TREC.train.all", "training"),
        ("wnut17train.conll", "training"),
        ("emerging.dev.conll", "validation"),
        ("emerging.test.annotated", "test"),
        ("train-00000-of-00001.parquet", "training"),
        ("training_test.csv", None),
        ("trainer.csv", None),
        ("book.train", None),
    ],
)
def test_parts(name: str, part: str | None) -> None:
    assert find_part(Path(name)) == part


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "notes.md", "SOURCE.txt", ".DS_Store"])
def test_files_about_the_data(name: str) -> None:
    assert is_about(Path(name))
    assert not is_about(Path(f"my{name}").with_suffix(".csv"))
