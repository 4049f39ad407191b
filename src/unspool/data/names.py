"""Names of files and folders: which part of the data they stand for, and which are about the data and none of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

#: Part of the data → words that stand for it in names, in lower case.
PARTS = {
    "training": ("train", "training"),
    "validation": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing"),
}
#: Word → part of the data.
PART_NAMES = {name: part for part, names in PARTS.items() for name in names}
#: Numbers in names, and what programs add to them so that no two are the same.
NUMBER = re.compile(r"\d+")
HASH = re.compile(r"(?<![0-9a-z])(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*(?![0-9a-z])")
#: Names of files that come with data and are none, in lower case.
ABOUT = ("license", "licence", "readme", "source", "sources", "notice", "copying", "citation", "changelog", "authors")

#: How files begin with which Spark and Parquet mark a folder.
MARKS = ("_success", "_metadata", "_common_metadata", "_committed_", "_started_")
#: Words for which a number stands in the names of files that are classes: class1.txt, or 1.txt.
CLASS_WORDS = ("", "class", "label", "category", "topic", "intent", "cluster", "type")


def is_about(file: Path) -> bool:
    """Whether a file is hidden, or about the data and none of it.

    Example:
        is_about(Path("README.md"))  # True
    """
    hidden = file.name[0] == "." or file.name.lower().startswith(MARKS)
    return hidden or file.stem.lower() in ABOUT or file.suffix.lower() == ".md"


def are_shards(files: Sequence[Path]) -> bool:
    """Whether files are pieces of one, by their names, which differ in numbers alone; or there is but one file.

    Such are train-00000-of-00002.parquet and train-00001-of-00002.parquet, or book1.txt and book2.txt.

    Example:
        are_shards([Path("train-00000.csv"), Path("train-00001.csv")])  # True
    """
    return len({(NUMBER.sub("0", HASH.sub("", file.stem.lower())), file.suffix.lower()) for file in files}) <= 1


def are_numbered_classes(files: Sequence[Path]) -> bool:
    """Whether names that differ in numbers alone name classes nevertheless.

    Example:
        are_numbered_classes([Path("class1.txt"), Path("class2.txt")])  # True
    """
    return all("".join(re.findall("[a-z]+", file.stem.lower())) in CLASS_WORDS for file in files)


def find_part(file: Path) -> str | None:
    """The part of the data that a word in a name stands for; None if there is no such word, or several.

    Example:
        find_part(Path("wnut17train.conll"))  # "training"
    """
    found = {PART_NAMES[word] for word in re.findall("[a-z]+", file.stem.lower()) if word in PART_NAMES}
    return found.pop() if len(found) == 1 else None
