"""Fixtures for the tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unspool.engine import build


@pytest.fixture
def compiling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the optimiser, where minutes matter: a kernel is there twice as soon, and what is emitted is the same."""
    build._load.cache_clear()
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    if request.node.get_closest_marker("long") is None:
        monkeypatch.setattr(build, "FLAGS", tuple("-O0" if flag == "-O2" else flag for flag in build.FLAGS))
    yield
    build._load.cache_clear()
