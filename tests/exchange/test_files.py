"""Files of an export: all of them or none, whatever fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from unspool.errors import StorageError
from unspool.exchange.files import write_files


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("linked", [True, False])
def test_a_failure_leaves_everything_as_it_was(
    failing: int, linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first files have their names already, and where a file cannot have two."""
    paths = [tmp_path / name for name in ("new.c", "old.h", "old.bin")]
    for path in paths[1:]:
        path.write_bytes(b"before")
    replace = os.replace

    def fail(source: Any, target: Any) -> None:
        if Path(target) == paths[failing] and not str(source).endswith("-old"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        if not linked:
            patched.setattr(os, "link", refuse)
        with pytest.raises(StorageError, match="cannot be written: No space left"):
            write_files(dict.fromkeys(paths, b"after"), overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old.h": b"before", "old.bin": b"before"}
    write_files(dict.fromkeys(paths, b"after"), overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {path.name: b"after" for path in paths}


def test_one_file_that_fails_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError):
        write_files({path: b"after"}, overwrite=True)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"before"]
