"""Names of files and folders: which part of the data they stand for, and which are about the data and none of it."""

from __future__ import annotations

import re
from pathlib import Path

#: Part of the data → words that stand for it in names, in lower case.
PARTS = {
    "training": ("train", "training"),
    "validation": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing"),
}
#: Word → part of the data.
PART_NAMES = {name: part for part, names in PARTS.items() for name in names}
#: Names of files that come with data and are none, in lower case.
ABOUT = ("license", "licence", "readme", "source", "sources", "notice", "copying", "citation", "changelog", "authors")


def is_about(file: Path) -> bool:
    """Whether a file is hidden, or about the data and none of it.

    Example:
        is_about(Path("README.md"))  # True
    """
    return file.name[0] == "." or file.stem.lower() in ABOUT or file.suffix.lower() == ".md"


def find_part(file: Path) -> str | None:
    """The part of the data that a word in a name stands for; None if there is no such word, or several.

    Example:
        find_part(Path("wnut17train.conll"))  # "training"
    """
    found = {PART_NAMES[word] for word in re.findall("[a-z]+", file.stem.lower()) if word in PART_NAMES}
    return found.pop() if len(found) == 1 else None
