"""The page at `/` in a browser: every kind of model, by mouse and by keyboard, at both widths and in both schemes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.browser import wait_for, wait_until_drawn
from tests.insight.made_up_reports import make_report
from tests.server.page_driver import check_page, opened, wait_for_tokens
from tests.server.process import server

import unspool
from unspool.insight.report.page import render
from unspool.server import page_calls

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "a-token-for-the-page"
#: What is typed into the editor of each kind of model, and what must then be there.
TYPED = {
    "classify": ("red hot cold", "!!document.querySelector('.answer .marked')"),
    "multilabel": ("red hot cold", "document.querySelectorAll('.answer .bars li').length === 5"),
    "regress": ("red hot", "!!document.querySelector('.answer strong')"),
    "tag": ("red hot", "document.querySelectorAll('.sentence .word').length === 2"),
    "joint": ("fly a flight to boston", "document.querySelectorAll('.sentence .word').length === 5"),
    "seq2seq": ("red hot", "!!document.querySelector('.pairs .target')"),
}


@pytest.fixture(scope="module")
def runs(book: Path, predicting: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A character model with an X-ray, and a run of every other task."""
    own = shutil.copytree(book, tmp_path_factory.mktemp("page") / "book")
    (own / "xray.html").write_text(render(make_report()), encoding="utf-8")
    return [own, *predicting.values()]


@pytest.fixture(scope="module")
def url(runs: list[Path]) -> Iterator[str]:
    with server(*runs, "--no-access-log") as running:
        yield running.url


def write(page: Page, count: int) -> None:
    """Let the first branch write so many tokens, from a fixed seed."""
    page.get_by_label("Max tokens").fill(str(count))
    page.get_by_label("Seed").fill("1")
    before = page.locator(".token").count()
    page.get_by_role("button", name="Generate").first.click()
    wait_for_tokens(page, before + count)
    wait_for(page, "document.querySelector('article').getAttribute('aria-busy') === 'false'")


def test_text_is_read_written_and_explained_token_by_token(browser: Browser, url: str, runs: list[Path]) -> None:
    with opened(browser, url, "book") as page:
        page.get_by_role("textbox", name="Prompt").fill("the lazy ")
        wait_for(page, "document.querySelector('.strip').textContent === 'the lazy '")
        assert page.locator(".next .bars li").count() == 8
        write(page, 20)
        alone = unspool.load(runs[0]).generate("the lazy ", 20, temperature=0.7, seed=1)
        assert page.locator(".strip").text_content() == "the lazy " + "".join(alone)

        page.get_by_label("What the ribbon shows").select_option(label="gate f")
        page.locator(".ribbon canvas").hover(position={"x": 25, "y": 60})
        told = page.locator("article .told").text_content() or ""
        assert "unit" in told
        assert "f " in told
        wait_for(page, "document.querySelectorAll('.token').length === 29")
        page.get_by_label("Color tokens by").select_option(label="how much it matters")
        wait_for(page, "document.querySelectorAll('.token.toned').length > 10")
        check_page(page)


def test_text_typed_just_before_generate_is_kept(browser: Browser, url: str, runs: list[Path]) -> None:
    """The page reads what is typed a moment later: a click may come before."""
    alone = "".join(unspool.load(runs[0]).generate("the fox ", 20, temperature=0.7, seed=1))
    with opened(browser, url, "book") as page:
        page.get_by_label("Max tokens").fill("20")
        page.get_by_label("Seed").fill("1")
        page.get_by_role("textbox", name="Prompt").fill("a dog ")
        wait_for(page, "document.querySelector('.strip').textContent === 'a dog '")
        page.evaluate("""() => {
          const editor = document.querySelector("article textarea");
          editor.value = "the fox ";
          editor.dispatchEvent(new Event("input"));
          document.querySelector("article button.primary").click();
        }""")
        wait_for(page, "document.querySelectorAll('.token').length === 28")
        page.wait_for_timeout(600)
        assert page.locator(".strip").text_content() == "the fox " + alone


def test_a_newer_text_overtakes_a_long_one(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        prompt = page.get_by_role("textbox", name="Prompt")
        prompt.fill("the fox " * 300)
        wait_for(page, "document.querySelectorAll('.token').length >= 100")  # parts are shown as they are read
        prompt.fill("a dog ")
        wait_for(page, "document.querySelector('.strip').textContent === 'a dog '")
        prompt.fill("")
        wait_for(page, "document.querySelectorAll('.token').length === 0")


def test_a_text_is_branched_at_a_token_and_the_branches_are_compared(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        write(page, 12)
        text = page.locator(".strip").text_content() or ""
        page.locator(".token").nth(5).click()
        page.get_by_role("button", name="Branch after").click()
        other = page.get_by_role("article", name="Branch B")
        other.wait_for()
        assert other.locator(".strip").text_content() == text[:6]
        other.locator(".next button").nth(1).click()
        wait_for(page, "document.querySelectorAll('article:nth-child(2) .token').length === 7")
        assert "share 6 tokens" in (page.locator(".compare").text_content() or "")
        boxes = [page.get_by_role("article", name=f"Branch {name}").bounding_box() for name in "AB"]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert abs(boxes[0]["y"] - boxes[1]["y"]) < 1  # side by side
        check_page(page)

        # an alternative in the middle of a text begins a branch of its own
        page.locator("article").first.locator(".token").nth(2).click()
        page.locator("article").first.locator(".next button").nth(2).click()
        page.get_by_role("article", name="Branch C").wait_for()
        wait_for(page, "document.querySelectorAll('article:nth-child(3) .token').length === 4")
        page.get_by_role("button", name="Remove branch B").click()
        assert page.locator("article").count() == 2


STOP = """() => new Promise((resolve) => {
  const button = document.querySelector("article .primary"), before = document.querySelectorAll(".token").length;
  button.click();
  const look = setInterval(() => {
    if (document.querySelectorAll(".token").length < before + 3) return;
    clearInterval(look);
    button.click();
    resolve();
  }, 1);
})"""


def test_writing_is_stopped_and_goes_on(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        page.get_by_label("Max tokens").fill("512")
        page.evaluate(STOP)
        wait_for(page, "document.querySelector('article').getAttribute('aria-busy') === 'false'")
        count = page.locator(".token").count()
        assert 3 < count < 500
        assert page.get_by_role("status").filter(has_text="Stopped.").count() == 1
        write(page, 5)
        assert page.locator(".token").count() == count + 5


@pytest.mark.parametrize("task", TYPED)
def test_every_kind_of_model_answers_as_one_types(browser: Browser, url: str, task: str) -> None:
    text, there = TYPED[task]
    with opened(browser, url, task) as page:
        page.get_by_role("textbox").fill(text)
        wait_for(page, there)
        assert page.locator("main").get_by_role("heading", level=1).text_content() == task
        check_page(page)


def test_probabilities_are_shown_after_every_token(browser: Browser, url: str, runs: list[Path]) -> None:
    with opened(browser, url, "classify") as page:
        page.get_by_role("textbox", name="Text").fill("red hot cold")
        wait_for_tokens(page, 3)
        found = unspool.load(runs[1]).predict(["red"])[0]
        page.locator(".token").first.click()
        wait_for(page, "document.querySelector('.answer').textContent.includes('after 1 of 3')")
        assert page.locator(".answer strong").text_content() == found["label"]
        assert page.locator(".chart .line circle").count() == 9


def test_the_origin_of_a_forecast_is_dragged_and_moved_by_keys(browser: Browser, url: str) -> None:
    with opened(browser, url, "forecast") as page:
        wait_for(page, "document.querySelectorAll('.chart .band').length === 1")
        slider = page.get_by_role("slider")
        assert slider.input_value() == "117"
        slider.focus()
        page.keyboard.press("ArrowLeft")
        wait_for(page, "document.querySelector('tbody th')?.textContent === '117'")
        box = page.locator(".chart").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 100)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100, steps=5)
        page.mouse.up()
        assert 55 < int(slider.input_value()) < 70
        wait_for(page, f"document.querySelector('tbody th')?.textContent === '{int(slider.input_value()) + 1}'")
        check_page(page)


def test_what_is_refused_is_said(browser: Browser, url: str) -> None:
    with opened(browser, url, "forecast", refused=True) as page:
        wait_for(page, "document.querySelectorAll('.chart .band').length === 1")
        page.get_by_role("slider").fill("1")  # too short a past
        page.locator("#status.wrong").wait_for()
        check_page(page)
        page.get_by_role("textbox").fill("1\nx")
        page.get_by_text("Not every entry is a number.").wait_for()


def test_the_training_has_curves_and_its_x_ray_opens_in_a_sandbox(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        page.get_by_role("tab", name="Training").click()
        wait_for(page, "document.querySelectorAll('.chart .line path').length >= 2")
        check_page(page)
        with page.context.expect_page() as opening:
            page.get_by_role("button", name="Open the X-ray").click()
        report = opening.value
        report.wait_for_load_state()
        wait_until_drawn(report, 4)
        assert report.evaluate("self.origin") == "null"
        page.get_by_role("combobox", name="Model").select_option("tag")
        page.get_by_text("The run has no X-ray yet").wait_for()


def test_all_is_done_by_keyboard(browser: Browser, url: str) -> None:
    with opened(browser, url, "book") as page:
        seen: list[str] = []

        def go_to(role: str, name: str) -> None:
            wanted = page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]
            for _ in range(60):
                page.keyboard.press("Tab")
                seen.append(str(page.evaluate("document.activeElement.tagName")))
                if wanted.evaluate("(one) => one === document.activeElement"):
                    return
            raise AssertionError((name, seen))

        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        go_to("spinbutton", "Max tokens")
        page.keyboard.press("Control+A")
        page.keyboard.type("6")
        go_to("textbox", "Prompt")
        page.keyboard.press("End")
        page.keyboard.type("lazy")
        wait_for_tokens(page, 8)
        go_to("button", "Generate")
        page.keyboard.press("Enter")
        wait_for_tokens(page, 14)
        wait_for(page, "document.querySelector('article').getAttribute('aria-busy') === 'false'")
        go_to("listbox", "The text, token by token. Arrow keys pick a token.")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert page.locator(".token[aria-selected=true]").text_content() == "h"
        go_to("group", "Activity of the units, a column per token. Arrow keys read single values.")
        page.keyboard.press("ArrowDown")
        assert "unit 1:" in (page.locator("article .told").text_content() or "")
        page.keyboard.press("Shift+Tab")
        page.locator("article button", has_text="Branch after").focus()
        page.keyboard.press("Enter")
        page.get_by_role("article", name="Branch B").wait_for()
        wait_for(page, "document.activeElement.matches('article:nth-child(2) textarea')")
        page.get_by_role("tab", name="Use").focus()
        page.keyboard.press("ArrowRight")
        wait_for(page, "document.querySelectorAll('.chart').length > 0")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_pages_fit_and_can_be_read(browser: Browser, url: str, width: int, scheme: str) -> None:
    with opened(browser, url, "book", width, scheme) as page:
        write(page, 30)
        page.locator(".token").nth(8).click()
        page.get_by_role("button", name="Branch after").click()
        page.get_by_role("article", name="Branch B").wait_for()
        check_page(page)
        for model in ("classify", "joint", "forecast"):
            page.get_by_role("combobox", name="Model").select_option(model)
            page.get_by_role("heading", level=1, name=model).wait_for()
            if model in TYPED:
                page.get_by_role("textbox").fill(TYPED[model][0])
                wait_for(page, TYPED[model][1])
            else:
                wait_for(page, "document.querySelectorAll('.chart .band').length === 1")
            check_page(page)
        page.get_by_role("tab", name="Training").click()
        page.get_by_text("The run has no X-ray yet").wait_for()
        wait_for(page, "document.querySelectorAll('.chart .line path').length >= 2")
        check_page(page)


def test_a_server_with_a_token_is_asked_with_it(browser: Browser, runs: list[Path]) -> None:
    with server(runs[0], "--no-access-log", "--token", TOKEN) as running:
        context = browser.new_context()
        page = context.new_page()
        page.goto(running.url)
        for given, said in (("wrong-token", "This server wants a token"), (TOKEN, "not one of this server")):
            page.get_by_text(said).wait_for()
            assert page.evaluate("document.activeElement.type") == "password"
            page.keyboard.type(given)
            page.keyboard.press("Enter")
        wait_for_tokens(page, 4)
        assert page.evaluate("sessionStorage.getItem('unspool-token')") == TOKEN
        assert page.evaluate("localStorage.length") == 0
        assert context.cookies() == []
        page.get_by_role("tab", name="Training").click()
        with context.expect_page() as opening:
            page.get_by_role("button", name="Open the X-ray").click()
        opening.value.wait_for_load_state()
        assert opening.value.title()
        assert TOKEN not in opening.value.url
        context.close()


def test_files_come_with_a_strict_policy_and_none_leads_outside(url: str) -> None:
    answer = httpx.get(url)
    assert answer.headers["content-security-policy"] == page_calls.POLICY
    assert "unsafe" not in page_calls.POLICY
    assert "http" not in page_calls.POLICY
    for name in page_calls._names():
        own = httpx.get(f"{url}/page/{name}")
        assert own.status_code == 200
        assert own.headers["x-content-type-options"] == "nosniff"
        assert "innerHTML" not in own.text
        assert "http" not in own.text.replace("http://www.w3.org/2000/svg", "")
    for name in ("..%2fpage_calls.py", "page_calls.py", "%2e%2e/app.py", "index.html%00"):
        assert httpx.get(f"{url}/page/{name}").status_code == 404


def test_a_long_text_is_encoded_as_a_whole_and_read_in_parts(browser: Browser, url: str, runs: list[Path]) -> None:
    text = "the quick fox " * 40
    with opened(browser, url, "book") as page:
        asked: list[Any] = []
        page.on("request", lambda one: asked.append(one.post_data_json) if one.url.endswith("/feed") else None)
        page.get_by_role("textbox", name="Prompt").fill(text)
        wait_for(page, f"document.querySelector('.strip').textContent === {text!r}")
        fed = [token for body in asked for token in body["input"]]
        assert fed == unspool.load(runs[0]).encode(text)[:, 0].tolist()
        assert len(asked) == 6
