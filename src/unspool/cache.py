"""The user's cache: the folder of everything that unspool can make again, such as kernels and tokens."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder() -> Path:
    """The folder that the environment variable UNSPOOL_CACHE names, else `unspool` in the user's cache.

    Returns:
        An absolute path; nothing is made there. The user's cache is where the operating system has it: `~/.cache`, or
        XDG_CACHE_HOME, on Linux, `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows.

    Raises:
        RuntimeError: The user has no home folder.
    """
    chosen = os.environ.get("UNSPOOL_CACHE")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs  # here, since a wheel is built without it

    found = platformdirs.user_cache_path("unspool", appauthor=False)
    if not found.is_absolute():  # as platformdirs once left a ~ without a home
        raise RuntimeError(f"the user has no home folder to keep {found} in")
    return found


def is_open_to_others(folder: Path) -> bool:
    """Whether another user owns a folder or may write into it, so that what lies there cannot be trusted."""
    status = folder.stat()
    if not hasattr(os, "getuid"):  # Windows, where a user's own folders are private
        return False
    return status.st_uid != os.getuid() or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
