"""Files that an export writes, all of them or none, without torch."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from unspool.errors import ArgumentError, StorageError


def check_free(paths: Mapping[Path, object] | list[Path], overwrite: bool) -> None:
    """Refuse targets that exist, unless `overwrite`; and in any case folders, devices, pipes and sockets.

    Raises:
        ArgumentError: One of them stands in the way.
        StorageError: There is no folder for one of them.
    """
    for path in paths:
        if not path.parent.is_dir():
            remedy = "Make it, or give another place"
            raise StorageError(f"{path} cannot be written: there is no folder {path.parent}. {remedy}.")
        if path.is_dir():
            raise ArgumentError.of("path", str(path), "is a folder", "Give the name of a file")
        if path.exists() and not path.is_file():
            raise ArgumentError.of("path", str(path), "is a device, a pipe or a socket", "Give the name of a file")
        if not overwrite and os.path.lexists(path):
            raise ArgumentError.of("path", str(path), "exists already", "Give another, or `overwrite=True`")


def check_distinct(paths: Iterable[Path]) -> None:
    """Refuse two files of one place, of which the second would replace the first.

    Raises:
        ArgumentError: Two of them are the same.

    Example:
        check_distinct([Path("model.c"), Path("model.h")])
    """
    taken: set[Path] = set()
    for path in paths:
        place = path.parent.resolve() / path.name
        if place in taken:
            raise ArgumentError.of("path", str(path), "stands for two files of this export", "Give each its own name")
        taken.add(place)


def write_files(contents: Mapping[Path, bytes], overwrite: bool = False) -> None:
    """Write files under other names, and rename them when all are on the disk.

    Args:
        contents: Each file's bytes.
        overwrite: Whether files that exist are replaced.

    Raises:
        ArgumentError: A file exists, or is no regular file; or two of them are the same.
        StorageError: One cannot be written; none of them is.

    Example:
        write_files({Path("model.onnx"): model, Path("model.json"): tokenizer})
    """
    check_distinct(contents)
    check_free(list(contents), overwrite)
    names = {path: path.with_name(f".{path.name}-{secrets.token_hex(4)}") for path in contents}
    previous = {path: name.with_name(f"{name.name}-old") for path, name in names.items()}
    try:
        for path, content in contents.items():
            with open(names[path], "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        _rename_all(names, previous)
    except OSError as error:
        said = error.strerror or error
        remedy = "Give a place that you may write to and that has room"
        raise StorageError(f"{next(iter(contents))} cannot be written: {said}. {remedy}.") from error
    finally:
        for name in names.values():
            with suppress(OSError):
                name.unlink(missing_ok=True)


def _rename_all(names: Mapping[Path, Path], previous: Mapping[Path, Path]) -> None:
    """Give files the names that they are for; where one cannot be renamed, all are as they were before."""
    done: list[Path] = []
    try:
        for path, name in names.items():
            if len(names) > 1 and os.path.lexists(path):
                _set_aside(path, previous[path])
            os.replace(name, path)
            done.append(path)
    except OSError:
        for path, old in previous.items():
            if os.path.lexists(old):
                os.replace(old, path)
                old.unlink(missing_ok=True)  # two names of one file both stay when it is renamed
            elif path in done:
                path.unlink(missing_ok=True)
        raise
    for old in previous.values():
        old.unlink(missing_ok=True)


def _set_aside(path: Path, name: Path) -> None:
    """Give a file a second name; where a file can have but one, its only one."""
    try:
        os.link(path, name, follow_symlinks=False)
    except (OSError, NotImplementedError):
        os.replace(path, name)
