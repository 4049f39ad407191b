"""A lock on a folder: one holder at a time, gone with its process, and never left behind as an obstacle."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import pytest

from unspool.learning.lock import LOCK_NAME, NO_LOCKS, FolderLock

HOLD = """
import sys
from pathlib import Path
from unspool.learning.lock import FolderLock

lock = FolderLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
lock.release()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Another process that takes the lock, and holds it until its input ends."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def test_one_process_has_it_at_a_time(tmp_path: Path) -> None:
    with hold(tmp_path) as process:
        assert not FolderLock(tmp_path).acquire()
        assert (tmp_path / LOCK_NAME).exists()
        process.communicate()
    assert list(tmp_path.iterdir()) == []
    mine = FolderLock(tmp_path)
    assert mine.acquire()
    assert not FolderLock(tmp_path).acquire()
    mine.release()
    mine.release()  # once more does no harm
    assert FolderLock(tmp_path).acquire()


def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    with hold(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / LOCK_NAME).exists()  # nobody could remove it
        lock = FolderLock(tmp_path)
        assert lock.acquire()
        lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder removes the file after another process has opened it: that one holds nothing."""
    lock_descriptor = filelock._unix._lock_fd_nonblocking

    def remove_first(descriptor: int) -> bool:
        (tmp_path / LOCK_NAME).unlink()
        return lock_descriptor(descriptor)

    lock = FolderLock(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(filelock._unix, "_lock_fd_nonblocking", remove_first)
        assert not lock.acquire()
    assert lock.acquire()
    assert not FolderLock(tmp_path).acquire()
    lock.release()


def test_without_locks_in_the_file_system_nobody_is_refused_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(number: int) -> Any:
        def lock(descriptor: int) -> bool:
            raise OSError(number, os.strerror(number))

        return lock

    for number in NO_LOCKS:
        monkeypatch.setattr(filelock._unix, "_lock_fd_nonblocking", refuse(number))
        lock = FolderLock(tmp_path)
        assert lock.acquire()
        lock.release()
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(filelock._unix, "_lock_fd_nonblocking", refuse(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        FolderLock(tmp_path).acquire()


def test_a_folder_that_is_not_to_be_written_into_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="File exists|[Dd]irectory"):
        FolderLock(tmp_path / "file").acquire()
