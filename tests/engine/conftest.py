"""Fixtures for the tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unspool.engine import build


@pytest.fixture
def compiling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With threads however little there is to do. And without the optimizer, where minutes matter: a kernel is there
    twice as soon, and what is emitted is the same."""
    build._load.cache_clear()
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    flags: tuple[str, ...] = (*build.FLAGS, "-DUNSPOOL_WORTH_A_THREAD=0", "-DUNSPOOL_WORTH_A_MEETING=0")
    if request.node.get_closest_marker("long") is None:
        flags = tuple("-O0" if flag == "-O2" else flag for flag in flags)
    monkeypatch.setattr(build, "FLAGS", flags)
    yield
    build._load.cache_clear()
