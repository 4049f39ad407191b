"""Pages in Debian's Chromium: opened offline, waited for, and measured."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

#: Milliseconds; the machine may be busy with other tests.
PATIENCE = 120_000


@contextmanager
def opened(
    browser: Browser, folder: Path, text: str, width: int = 1280, scheme: str = "light", **more: Any
) -> Iterator[Page]:
    """The page at some width; leaving checks that it asked for nothing outside and complained of nothing."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, **more}
    context = browser.new_context(**options)
    context.set_offline(True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if _is_outside(request.url) else None)
    page.goto(path.as_uri())
    yield page
    assert page.evaluate("typeof window.pwned") == "undefined"
    context.close()
    assert complaints == []


def _is_outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def wait_for(page: Page | Frame, expression: str) -> None:
    """Until an expression is true; playwright's own way to wait needs eval, which the page's policy forbids."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never came true: {expression}"
        page.wait_for_timeout(50)


#: The figures that have their data drawn inside.
DRAWN = "document.querySelectorAll('.plot:has(.cartesianlayer path, .cartesianlayer image)').length"


def wait_until_drawn(page: Page | Frame, figures: int) -> None:
    """Until so many figures, which is all there are, have their data drawn."""
    assert page.locator(".plot[data-figure], .plot[data-timeline]").count() == figures
    wait_for(page, f"{DRAWN} === {figures}")


def fits(page: Page) -> bool:
    """Nothing reaches over the window's side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


LOOK = """(selector) => [...document.querySelectorAll(selector)].filter((each) => each.offsetParent).map((element) => {
  let behind = element;
  while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
})"""
TEXTS = "h1, h2, h3, p, li, dt, dd, a, summary, button, code, .severity span"


def worst_contrast(page: Page) -> float:
    """The least contrast of any text with what is behind it, as WCAG measures it."""
    looks = page.evaluate(LOOK, TEXTS)
    assert len(looks) > 20
    return min((max(pair) + 0.05) / (min(pair) + 0.05) for pair in ([*map(_luminance, look)] for look in looks))


def _luminance(colour: str) -> float:
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
