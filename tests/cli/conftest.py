"""A tiny run, trained once for all tests of commands."""

from __future__ import annotations

import pytest
from tests.tasks.tiny_run import TinyRun, train_tiny


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """A finished run; look, do not touch."""
    return train_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens do not go into the user's cache."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
