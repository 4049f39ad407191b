"""The server's page in Debian's Chromium: opened, waited for, and measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.browser import PATIENCE, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

READY = "document.querySelector('main').getAttribute('aria-busy') === 'false'"
TOKENS = "document.querySelectorAll('.token').length"
#: The least contrast of visible text with what is behind it, as WCAG measures it, and where that is. Colors may be
#: transparent: they are put over those behind them, as a browser does it.
CONTRAST = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * below[i]).concat(1);
  const behind = (element) => element
    ? over(read(getComputedStyle(element).backgroundColor), behind(element.parentElement)) : [255, 255, 255, 1];
  const light = (color) => {
    const parts = color.slice(0, 3).map((x) => x / 255);
    const linear = parts.map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const hidden = !element.getClientRects().length || element.closest(":disabled, .visually-hidden, noscript, .skip");
    if (!walk.currentNode.textContent.trim() || hidden) continue;
    const style = getComputedStyle(element), back = behind(element);
    const ink = over(read(element instanceof SVGElement ? style.fill : style.color), back);
    const pair = [light(ink), light(back)];
    found.push([(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), walk.currentNode.textContent.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
}"""
#: Controls, and what can be focused, that have no accessible name.
NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, a[href], [tabindex='0'], [role]")]
  .filter((one) => one.getClientRects().length && !one.matches("[role=status]"))
  .filter((one) => {
    const by = [document.getElementById(one.getAttribute("aria-labelledby"))?.textContent ?? ""];
    const labels = [...(one.labels ?? [])].map((label) => label.textContent);
    const own = one.matches("button, a, [role=tab], [role=tabpanel]") ? one.textContent : "";
    return ![...by, ...labels, one.getAttribute("aria-label") ?? "", own].some((text) => text.trim());
  }).map((one) => one.outerHTML.slice(0, 120))"""
#: References between elements that lead nowhere, and ids that are there twice.
BROKEN = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const wanted = ["for", "aria-labelledby", "aria-controls", "aria-activedescendant"]
    .flatMap((name) => [...document.querySelectorAll(`[${name}]`)].map((one) => one.getAttribute(name)));
  return [...wanted.filter((id) => id && !ids.includes(id)), ...ids.filter((id, place) => ids.indexOf(id) !== place)];
}"""


@contextmanager
def opened(
    browser: Browser, url: str, model: str = "", width: int = 1280, scheme: Any = "light", refused: bool = False
) -> Iterator[Page]:
    """The page with a model; leaving checks that it asked nobody else and complained of nothing.

    Where requests are refused, the browser itself says so.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith((url, "data:")) else complaints.append(one.url))
    page.goto(f"{url}/#{quote(model)}")
    wait_for(page, READY)
    yield page
    context.close()
    own = [one for one in complaints if not (refused and one.startswith("Failed to load resource"))]
    assert own == []


def check_page(page: Page) -> None:
    """It fits its window, can be read, and tells screen readers what everything is."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    contrast, text = page.evaluate(CONTRAST)
    assert contrast >= 4.5, (contrast, text)
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(BROKEN) == []
    assert page.locator("h1").count() == 1


def wait_for_tokens(page: Page, count: int) -> None:
    """Until at least so many tokens are shown."""
    wait_for(page, f"{TOKENS} >= {count}")
