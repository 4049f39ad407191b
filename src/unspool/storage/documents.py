"""Text documents of a run folder, which may come from anywhere: read within limits, sealed, or refused."""

from __future__ import annotations

import hashlib
import json
import math
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unspool.errors import DataError

#: The longest config and the longest other document, in bytes: far more than any run writes.
LONGEST_CONFIG, LONGEST = 1 << 22, 1 << 28
#: The entry of a sealed document that is a digest of all others.
SEAL = "digest"
#: What a name may stand for that is not a regular file.
KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


def describe_kind(mode: int) -> str:
    """What a name stands for, from its `st_mode`; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    return next((words for is_kind, words in KINDS if is_kind(mode)), "a device")


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file before it is opened: a pipe may block for ever, a device may never end.

    Raises:
        ValueError: It is a pipe, a socket, a folder or a device; a link to a regular file is one.
        OSError: It is not there, or cannot be reached.
    """
    if kind := describe_kind(path.stat().st_mode):
        raise ValueError(f"it is {kind}, not a file")


def read_text(path: Path, longest: int = LONGEST) -> str:
    """The text of a regular file of at most `longest` bytes."""
    check_regular(path)
    with path.open("rb") as stream:
        content = stream.read(longest + 1)
    if len(content) > longest:
        raise ValueError(f"it has more than {longest:,} bytes")
    return content.decode("utf-8")


def read_toml(path: Path, remedy: str) -> dict[str, Any]:
    """Read a TOML document.

    Args:
        path: The file.
        remedy: What to do where it cannot be read, for the error.

    Returns:
        The document.

    Raises:
        DataError: It is not there, not a regular file, too long, nested too deeply or not TOML.

    Example:
        read_toml(Path("runs/book/config.toml"), "Correct it")["task"]
    """
    return _read(path, lambda: tomllib.loads(read_text(path, LONGEST_CONFIG)), remedy)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON document that is an object; arguments, errors and use are those of `read_toml`."""
    return _read(path, lambda: json.loads(read_text(path)), remedy)


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a task keeps beside the weights, with a digest: other labels, or another order, give wrong predictions."""
    return {**document, SEAL: digest(document)}


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON document that `seal` gave, without its digest; one that was changed or has no digest is refused."""
    document = read_json(path, remedy)
    kept = document.pop(SEAL, None)
    if kept is None:
        raise DataError(f"{path} cannot be read: it has no {SEAL!r}. {remedy}.")
    if kept != digest(document):
        raise DataError(f"{path} cannot be read: it was changed since the run wrote it. {remedy}.")
    return document


def digest(document: Mapping[str, Any]) -> str:
    """Of a document's content, whatever the order of its entries."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()


def finite(value: Any) -> Any:
    """The value with None for every number that JSON does not have: NaN and ∞."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(path: Path, read: Callable[[], Any], remedy: str) -> dict[str, Any]:
    try:
        found = read()
    except RecursionError as error:
        raise DataError(f"{path} cannot be read: it is nested too deeply. {remedy}.") from error
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
        raise DataError(f"{path} cannot be read: {said}. {remedy}.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} cannot be read: it has no entries by name. {remedy}.")
    return found
