"""Where the cache lies, and who may write to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unspool.cache import cache_folder, is_open_to_others


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSPOOL_CACHE", "mine")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("UNSPOOL_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_folder() == tmp_path / "xdg" / "unspool"
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert cache_folder() == tmp_path / "home" / ".cache" / "unspool"
    assert not list(tmp_path.iterdir())


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("UNSPOOL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(RuntimeError, match="home"):
        cache_folder()


@pytest.mark.parametrize(("mode", "found"), [(0o700, False), (0o755, False), (0o770, True), (0o707, True)], ids=oct)
def test_who_else_may_write(mode: int, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(mode)
    assert is_open_to_others(tmp_path) == found
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert is_open_to_others(tmp_path)
    monkeypatch.delattr(os, "getuid")
    assert not is_open_to_others(tmp_path)
