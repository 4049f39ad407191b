"""Fixtures for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["eager", pytest.param("kernel", marks=pytest.mark.long)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test by the eager loop and, where minutes of compiling do not matter, by kernels too."""
    chosen: str = request.param
    monkeypatch.setenv("UNSPOOL_ENGINE", "off" if chosen == "eager" else "on")
    return chosen
