"""Details of the page: what was written stays, numbers and signs can be read, and limits are those of the server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.browser import wait_for
from tests.server.page_driver import opened, wait_for_tokens
from tests.server.process import server
from tests.server.test_page import write

import unspool

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST = 60  # tokens of a request
#: Labels of an axis whose boxes meet.
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".chart")].map((chart) =>
    [...chart.querySelectorAll(".axes text[text-anchor=middle]")].map((one) => one.getBoundingClientRect()));
  const meeting = boxes.flatMap((own) => own.slice(1).filter((box, at) => box.left < own[at].right + 4));
  return [boxes.map((own) => own.length), meeting.length];
}"""
#: The height of the first canvas of each branch: it has room for bars only where there are some.
HEIGHTS = "[...document.querySelectorAll('article canvas')].map((one) => parseFloat(one.style.height))"


@pytest.fixture(scope="module")
def runs(book: Path, predicting: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    own = shutil.copytree(book, tmp_path_factory.mktemp("details") / "book")
    return {"book": own, "classify": predicting["classify"], "forecast": predicting["forecast"]}


@pytest.fixture(scope="module")
def url(runs: dict[str, Path]) -> Iterator[str]:
    with server(*runs.values(), "--no-access-log", "--max-tokens", MOST) as running:
        yield running.url


def test_typing_goes_on_after_what_was_written(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        prompt = page.get_by_role("textbox", name="Prompt")
        prompt.fill("the 猫 ")
        wait_for_tokens(page, 6)
        write(page, 12)
        text = page.locator(".strip").text_content() or ""
        assert prompt.input_value() == "the 猫 " + text[6:]
        prompt.press("End")
        prompt.press("Control+End")
        prompt.type("xy")
        wait_for(page, f"document.querySelector('.strip').textContent === {json.dumps(text + 'xy')}")
        page.locator(".next button").nth(2).click()
        wait_for_tokens(page, len(text) + 3)
        chosen = (page.locator(".strip").text_content() or "")[-1]
        assert prompt.input_value() == "the 猫 " + text[6:] + "xy" + chosen
        page.locator(".token").nth(8).click()
        page.get_by_role("button", name="Branch after").click()
        other = page.get_by_role("article", name="Branch B").get_by_role("textbox")
        assert other.input_value() == ("the 猫 " + text[6:])[:9]


def test_an_unknown_character_is_explained(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        told = page.get_by_text("stands for a character that the model does not know")
        prompt = page.get_by_role("textbox", name="Prompt")
        prompt.fill("the")
        wait_for(page, "document.querySelector('.strip').textContent === 'the'")
        assert not told.is_visible()
        prompt.fill("猫")
        told.wait_for()
        assert "does not know" in (page.locator(".token").get_attribute("title") or "")


def test_a_new_branch_has_its_own_bars(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        write(page, 12)
        page.locator(".token").nth(9).click()
        page.get_by_role("button", name="Branch after").click()
        page.get_by_role("article", name="Branch B").wait_for()
        wait_for(page, f"{HEIGHTS}.length === 2 && {HEIGHTS}[0] === {HEIGHTS}[1]")
        wait_for(page, "document.querySelector('.compare').textContent.includes('more likely (')")
        pixels = """() => { const canvas = document.querySelectorAll("article canvas")[1];
          const pen = canvas.getContext("2d"), sharp = devicePixelRatio || 1;
          const data = pen.getImageData(0, 22 * sharp, canvas.width, 18 * sharp).data;
          const each = Array.from({ length: data.length / 4 }, (_, at) => data.slice(4 * at, 4 * at + 4).join());
          return new Set(each).size; }"""
        assert page.evaluate(pixels) > 1
        page.locator("article").first.locator(".token").nth(2).click()
        page.locator("article").first.locator(".next button").nth(2).click()
        wait_for(page, "document.querySelector('.compare').textContent.includes('the most likely (')")


def test_no_more_tokens_are_asked_for_than_the_server_gives(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        count = page.get_by_label("Max tokens")
        assert (count.get_attribute("max"), count.input_value()) == (str(MOST), str(MOST))
        page.get_by_role("textbox", name="Prompt").fill("the fox " * 20)
        wait_for(page, "document.querySelectorAll('.token').length === 160")  # in parts that the server reads
        count.fill("1000")
        page.get_by_role("button", name="Generate").click()
        wait_for_tokens(page, 160 + MOST)
        wait_for(page, "document.querySelector('article').getAttribute('aria-busy') === 'false'")
        assert page.locator(".token").count() == 160 + MOST
        assert count.input_value() == str(MOST)


def test_small_probabilities_stay_on_their_line(browser: Browser, url: str) -> None:
    with opened(browser, url, "book", 390) as page:
        wait_for_tokens(page, 4)
        told = page.evaluate("import('/page/dom.js').then(({ percent }) => [0.5, 0.07, 0.000075, 1e-9].map(percent))")
        assert told == ["50 %", "7.0 %", "0.0075 %", "< 0.001 %"]
        lines = """(text) => { const one = document.querySelector(".bars .value");
          const tall = one.getBoundingClientRect().height;
          one.textContent = text; const box = one.getBoundingClientRect();
          return [box.height - tall, one.scrollWidth - one.clientWidth]; }"""
        for text in told:
            assert page.evaluate(lines, text) == [0, 0]


@pytest.mark.parametrize("width", [390, 1280])
def test_axes_have_several_labels_that_do_not_meet(browser: Browser, url: str, width: int) -> None:
    with opened(browser, url, "forecast", width) as page:
        wait_for(page, "document.querySelectorAll('.chart .band').length === 1")
        counts, meeting = page.evaluate(OVERLAPS)
        assert min(counts) >= 3
        assert meeting == 0
        spans: list[list[float]] = [[1, 8], [1, 3], [0, 1], [1, 120], [0, 99999], [0.582, 0.59]]
        code = "import('/page/chart.js').then(({ ticks }) => all.map(([low, high]) => ticks(low, high, 4, high > 1)))"
        for (low, high), found in zip(spans, page.evaluate(f"(all) => {code}", spans), strict=True):
            assert high <= 1 or all(float(one).is_integer() for one in found)
            assert 3 <= len(found) <= 6
            assert low <= min(found) <= max(found) <= high + 1e-9
            assert len({round(after - before, 9) for before, after in pairwise(found)}) == 1


def test_the_example_of_a_forecast_is_on_the_scale_of_the_run(
    browser: Browser, url: str, runs: dict[str, Path]
) -> None:
    usage = unspool.load(runs["forecast"]).task.usage()
    ((mean, deviation),) = usage.scales
    with opened(browser, url, "forecast") as page:
        shown = np.array([float(line) for line in page.get_by_role("textbox").input_value().splitlines()])
    assert abs(shown.mean() - mean) < deviation
    assert 0.3 * deviation < shown.std() < 3 * deviation
