"""Fixtures for the tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unspool.engine import build


@pytest.fixture
def quick_to_compile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the optimiser a kernel is there three times as soon; what is emitted is the same."""
    flags = tuple("-O0" if flag.startswith("-O") else flag for flag in build.FLAGS)
    build.load.cache_clear()
    monkeypatch.setattr(build, "FLAGS", flags)
    yield
    build.load.cache_clear()
