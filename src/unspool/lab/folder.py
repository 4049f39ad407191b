"""The folder of a lab: one JSON file per finished chapter, and the page that shows them."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from unspool import __version__
from unspool.errors import DataError, DataWarning
from unspool.lab.catalogue import find_chapter
from unspool.lab.chapter import Found, Study
from unspool.storage.documents import read_json
from unspool.storage.files import write_file

#: Format of the files; another one is measured again.
FORMAT = 1
REMEDY = "Delete it to measure the chapter again"


@dataclass(frozen=True)
class Record:
    """A finished chapter: what was measured, and how.

    Attributes:
        name: of the chapter.
        quick: whether the cheap form was run.
        count: seeds.
        first: the first seed.
        seconds: that it took.
        date: when it ended, in UTC.
        machine: processor and system.
        version: of unspool.
        found: the numbers.
    """

    name: str
    quick: bool
    count: int
    first: int
    seconds: float
    found: Found
    date: str = ""
    machine: str = ""
    version: str = __version__
    format: int = FORMAT


def make_record(name: str, study: Study, seconds: float, found: Found) -> Record:
    """The record of a chapter that has just ended here."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.machine()}, {platform.system()}"
    return Record(name, study.quick, study.number, study.first, seconds, found, date, machine)


def can_be_shown(record: Record) -> bool:
    """Whether the chapter can judge and show these numbers; those of another version may be others."""
    try:
        chapter = find_chapter(record.name)
        chapter.judge(record.found)
        chapter.show(record.found)
    except Exception:  # numbers of unknown origin may fail in any way
        return False
    return True


class Folder:
    """Finished chapters in a folder.

    Args:
        path: the folder; it is made when the first chapter is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Where a chapter's numbers are."""
        return self.path / "chapters" / f"{name}.json"

    @property
    def page(self) -> Path:
        """The page with all chapters."""
        return self.path / "index.html"

    def write(self, record: Record) -> None:
        """Keep a finished chapter; the file is complete or not there."""
        target = self.file(record.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, json.dumps(asdict(record), ensure_ascii=False, indent=1).encode("utf-8"))

    def read(self, name: str) -> Record | None:
        """A finished chapter; None if there is none, or one of another format."""
        file = self.file(name)
        if not file.exists():
            return None
        entries = read_json(file, REMEDY)
        if entries.get("format") != FORMAT:
            return None
        try:
            record = Record(**entries)
        except TypeError as error:
            raise DataError(f"{file} is not a chapter's file: {error}. {REMEDY}.") from None
        if not can_be_shown(record):
            warnings.warn(f"{file} has not the numbers of this chapter and is left out.", DataWarning, stacklevel=2)
            return None
        return record

    def read_all(self, names: Iterable[str]) -> list[Record]:
        """The finished chapters among these."""
        return [record for name in names if (record := self.read(name)) is not None]
