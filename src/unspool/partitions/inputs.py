"""Partitions: the files of a data set, and the file that the predictions for each are written to."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.data.text import expand, find_files, identity
from unspool.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import polars as pl

#: Suffix → format of the predictions for such a file; CSV for any other.
KEPT = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
#: Format → the suffixes that files of it may have; the first is added to a name that has none of them.
SUFFIXES = {"parquet": (".parquet",), "jsonl": (".jsonl", ".ndjson"), "csv": (".csv",)}
#: Bytes that are read at a time.
PIECE = 1 << 20


class Partition(NamedTuple):
    """A file of the input, and the name of its predictions."""

    path: Path
    name: str  # within the output folder, with "/" between folders
    form: str  # of the predictions: a key of `SUFFIXES`


def find_partitions(sources: Sequence[str | Path], form: str | None = None) -> list[Partition]:
    """The files that are meant, each once, and where their predictions go.

    A name is that of the file below the folder, or below what comes before the first `*` of the pattern, so that it
    does not depend on which other files there are. Where the format is another one its suffix is added.

    Args:
        sources: Files, folders and patterns.
        form: The format of all predictions, a key of `SUFFIXES`; None: that of each file where it can be written.

    Returns:
        Partitions in the order of the sources, sorted within each.

    Raises:
        DataError: There is no such file, or two files have the same name.

    Example:
        find_partitions(["data/*.parquet"])[0]  # Partition(Path("data/0.parquet"), "0.parquet", "parquet")
    """
    found: dict[tuple[int, int], Partition] = {}
    owners: dict[str, Path] = {}
    for source in sources:
        base = _base(expand(source))
        for path in find_files(source):
            if identity(path) in found:
                continue
            one = _name(path, base, form)
            if one.name in owners:
                raise DataError(
                    f"{owners[one.name]} and {path} would both be written to {one.name}. Give one pattern for both, "
                    "in quotation marks, such as 'data/*/*.parquet'."
                )
            owners[one.name], found[identity(path)] = path, one
    return list(found.values())


def _base(path: Path) -> Path:
    """The folder below which the files of a source have their names."""
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent
    plain = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        if glob.has_magic(part):
            break
        plain /= part
    return plain


def _name(path: Path, base: Path, form: str | None) -> Partition:
    chosen = form or KEPT.get(path.suffix.lower(), "csv")
    name = path.relative_to(base).as_posix()
    added = "" if path.suffix.lower() in SUFFIXES[chosen] else SUFFIXES[chosen][0]
    return Partition(path, name + added, chosen)


def check_apart(partitions: Sequence[Partition], out: Path) -> None:
    """Refuse an output folder in which predictions would take the place of the files that they are for."""
    for one in partitions:
        if os.path.realpath(out / one.name) == os.path.realpath(one.path):
            problem = "holds the input, which predictions would replace"
            raise ArgumentError.of("out", str(out), problem, "Give another folder")


def find_empty(path: Path) -> pl.DataFrame | None:
    """The table of a Parquet file without rows, which has columns only; None for any other file."""
    if path.suffix.lower() != ".parquet":
        return None
    import polars as pl

    with suppress(pl.exceptions.PolarsError, OSError):  # what is wrong with it is told when it is read
        found = pl.read_parquet(path, n_rows=1, glob=False)
        return found if found.is_empty() else None
    return None


# ── fingerprints ──


def read_stamp(path: Path) -> list[int]:
    """What changes when a file is written to: its size and its time."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def fingerprint(path: Path) -> dict[str, Any]:
    """The stamp and the checksum of a file."""
    return {"stamp": read_stamp(path), "sha256": _checksum(path)}


def is_same(path: Path, known: Any) -> bool:
    """Whether a file is the one of a fingerprint: one that was only copied or touched is compared by its content."""
    stamp, before = read_stamp(path), list(known["stamp"])
    return stamp == before or (stamp[0] == before[0] and _checksum(path) == str(known["sha256"]))


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            yield piece
