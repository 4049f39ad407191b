"""Writes docs/gallery.md and its pictures from the page of a lab: `python -m tools.write_gallery runs/lab/index.html`.

It needs playwright and Chromium, as the tests of pages do.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import sync_playwright

from unspool.lab.claims import CLAIMS

DOCS = Path(__file__).parent.parent / "docs"
#: The chapters whose first figure is shown.
SHOWN = (
    *("frequency", "coupled", "stability", "adding", "latch", "kalman", "crossing", "ngrams", "receptive-field"),
    *("forgetting", "truncation", "word-classes"),
)


def take_pictures(page: Path, folder: Path, shown: Mapping[str, str]) -> list[str]:
    """A picture of some figures of a page: name → CSS selector of the figure; the names of those that it has."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 900, "height": 900}, color_scheme="light")
        tab.set_default_timeout(120_000)
        tab.goto(page.absolute().as_uri())
        for name, selector in shown.items():
            figure = tab.locator(selector).first
            if not figure.count():
                continue
            figure.scroll_into_view_if_needed()
            figure.locator(".plot .main-svg").first.wait_for()
            figure.screenshot(path=folder / f"{name}.png")
            taken.append(name)
        browser.close()
    return taken


def write(names: list[str]) -> str:
    """The page of pictures."""
    parts = ["# Gallery\n\nPictures of [the lab](lab.md), one per chapter. `unspool lab NAME` draws each anew.\n"]
    for name in names:
        claim = CLAIMS[name]
        picture = f"![{claim.question}](images/lab/{name}.png)"
        parts.append(f"## {claim.question}\n\n{claim.claim}\n\n{picture}\n\n`unspool lab {name}`\n")
    return "\n".join(parts)


if __name__ == "__main__":
    figures = {name: f"#{name} figure" for name in SHOWN}
    (DOCS / "gallery.md").write_text(write(take_pictures(Path(sys.argv[1]), DOCS / "images" / "lab", figures)), "utf-8")
