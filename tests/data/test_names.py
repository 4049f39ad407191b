"""Names: words that stand for a part of the data, and files that are about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.names import are_numbered_classes, are_shards, find_part, is_about


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


@pytest.mark.parametrize(
    ("names", "shards"),
    [
        (["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"], True),
        (["train-00000-of-00002-a1b2c3d4e5f60718.parquet", "train-00001-of-00002-ffeeddcc00112233.parquet"], True),
        (["part-00000-c0ffee00-1234-4abc-9def-c000.csv", "part-00001-00112233-1234-4abc-9def-c000.csv"], True),
        (["train_1.csv", "train_12.csv"], True),
        (["book.txt"], True),
        (["train_1.csv", "train_2.tsv"], False),
        (["train_clean.csv", "train_other.csv"], False),
        (["arabic.txt", "czech.txt"], False),
    ],
)
def test_pieces_of_one_file(names: list[str], shards: bool) -> None:
    assert are_shards([Path(name) for name in names]) == shards


def test_numbers_may_name_classes() -> None:
    assert are_numbered_classes([Path("class1.txt"), Path("class2.txt")])
    assert are_numbered_classes([Path("0.txt"), Path("1.txt")])
    assert not are_numbered_classes([Path("part-1.txt"), Path("part-2.txt")])


def test_marks_of_programs_are_no_data() -> None:
    assert all(is_about(Path(name)) for name in ("_SUCCESS", "_common_metadata", "_started_12", ".part-0.crc"))
    assert not is_about(Path("_data.csv"))
