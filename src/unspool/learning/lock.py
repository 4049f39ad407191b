"""A lock on a folder: one process writes there at a time, and the lock ends with the process, however that ends."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

#: The file that is locked. It may be left behind by a crash; what counts is the system's lock on it, not the file.
LOCK_NAME = ".lock"
#: What file systems without locks answer.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class FolderLock:
    """The lock of one folder, not reentrant.

    Example:
        lock = FolderLock(Path("runs/book"))
        if lock.acquire():
            ...
            lock.release()
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK_NAME
        # A soft lock, which filelock would fall back to, is a file that a crash leaves locked for ever.
        self._lock = FileLock(self._file, blocking=False, thread_local=False, fallback_to_soft=False)

    def acquire(self) -> bool:
        """Take the lock, without waiting; False if another process has it. Where there are no locks, all may have it.

        Raises:
            OSError: The lock file cannot be made.
        """
        try:
            self._lock.acquire()
        except Timeout:
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            self._file.unlink(missing_ok=True)
        return True

    def release(self) -> None:
        """Give the lock up, and remove its file."""
        if not self._lock.is_locked:
            return
        if os.name == "nt":  # an open file cannot be removed there, nor can one that another process has opened since
            self._lock.release()
            self._remove()
        else:  # while it is locked: who opened it before finds that it has no name, and tries again
            self._remove()
            self._lock.release()

    def _remove(self) -> None:
        with suppress(OSError):
            self._file.unlink()
