"""Fixtures for all tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from tests.runs.tiny_run import TinyRun, train_tiny

from unspool.engine import build
from unspool.nn.entry import ENTRY

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("busy", deadline=None)  # a machine may be slow at any moment
settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    """Where there is no compiler, that a cell runs eagerly is what is expected, and no mistake."""
    if build.find_compiler() is None:
        config.addinivalue_line("filterwarnings", "ignore:.* runs eagerly. no C.. compiler:RuntimeWarning")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests have measured, which is not lost with the output of those that pass."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session", autouse=True)
def entry() -> None:
    """Small calls take the same way from the first test on, as if the entry had been compiled before."""
    ENTRY.prepare()


@pytest.fixture
def without_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small calls go through Python, as where there is no compiler."""
    monkeypatch.setattr(ENTRY, "call", None)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """A finished run, trained once; look, do not touch."""
    return train_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens do not go into the user's cache."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def kernels_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run where they can, whatever the environment says."""
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)


@pytest.fixture(params=["eager", pytest.param("kernel", marks=pytest.mark.long)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test by the eager loop and, where minutes of compiling do not matter, by kernels too."""
    chosen: str = request.param
    monkeypatch.setenv("UNSPOOL_ENGINE", "off" if chosen == "eager" else "on")
    return chosen


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()
