"""The lab's page: every figure is drawn, everything fits, in both languages and both colors."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser import fits, opened, wait_until_drawn, worst_contrast

from unspool.cli.lab import command
from unspool.lab.chapter import Study
from unspool.lab.folder import Folder, Record, make_record
from unspool.lab.page import render_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("adding", "depth", "attenuation")


def records() -> list[Record]:
    found = {name: importlib.import_module(f"tests.lab.cases.{name}").HOLDS for name in NAMES}
    return [make_record(name, Study(quick=True), 12.0, numbers) for name, numbers in found.items()]


@pytest.mark.parametrize(("width", "scheme", "language"), [(1280, "light", "en"), (390, "dark", "zh")])
def test_the_page_in_a_browser(browser: Browser, tmp_path: Path, width: int, scheme: str, language: str) -> None:
    text = render_page(records(), language)
    with opened(browser, tmp_path, text, width=width, scheme=scheme) as page:
        wait_until_drawn(page, page.locator(".plot[data-figure]").count())
        assert page.locator(".plot[data-figure]").count() >= len(NAMES)
        assert fits(page)
        assert worst_contrast(page) > 4.4
        assert page.locator("html").get_attribute("lang") == language
        assert page.locator("section.chapter").count() == len(NAMES)
        verdict = page.locator("#adding .verdict h3").inner_text()
        assert verdict == ("holds" if language == "en" else "成立")


def test_contents_are_by_verdict_and_by_heading() -> None:
    text = render_page(records(), "en")
    assert '<a href="#adding">' in text
    assert "Long short-term memory (LSTM) (长短时记忆网络（LSTM）)" in text
    assert "find_chapter(&#34;adding&#34;).measure(Study(quick=True, count=3, first=0))" in text
    assert "<code>unspool lab kalman</code>" in text  # not run yet


def test_the_command_line_writes_its_own_command() -> None:
    text = render_page(records(), "en", command)
    assert "unspool lab adding --quick --seeds 3 --seed 0 --again" in text


def test_a_damaged_chapter_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    record = records()[0]
    folder.write(record)
    assert folder.read("adding") == record
    file = folder.file("adding")
    file.write_text(file.read_text(encoding="utf-8").replace('"format": 1', '"format": 99'), encoding="utf-8")
    assert folder.read("adding") is None
    file.write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="Delete it to measure the chapter again"):
        folder.read("adding")
