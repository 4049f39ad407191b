"""The page in a browser with the network off: everything is drawn, fits, can be read, and runs nothing from data.

`make_report` and `make_hostile` are reports that never were, an ordinary one and one whose every text is hostile.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from plotly.graph_objects import Bar, Figure, Heatmap, Scatter

from unspool.insight.report import Report, Section, Verdict, render, render_comparison, render_film

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

#: Milliseconds; the machine may be busy with other tests.
PATIENCE = 120_000

EQUATION = (
    '<math display="block"><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><msub><mi>h</mi><mi>t</mi></msub>'
    "</mrow></mfrac><mo>=</mo><msup><mi>J</mi><mi>⊤</mi></msup><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>"
    "<msub><mi>h</mi><mrow><mi>t</mi><mo>+</mo><mn>1</mn></mrow></msub></mrow></mfrac></math>"
)
HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script><!--",
    "\"'><svg onload=window.pwned=1>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} \\u003cscript>",
    "🦜🏳️‍🌈 emoji",
    "\u202egnirts desrever\u200f\u2067",
    "\0\x1b[31m\ud800",
    "x" * 10_000,
)


def draw_curve(title: str, factor: float = 0.8) -> Figure:
    """A falling curve on a logarithmic axis."""
    lags = np.arange(40)
    figure = Figure(
        [Scatter(x=lags, y=factor**lags, name="layer 1", hovertemplate="lag %{x}: %{y:.3g}<extra></extra>")]
    )
    figure.add_trace(Scatter(x=lags, y=0.5 * factor**lags, name="layer 2", line_dash="dash"))
    figure.update_layout(title=title, xaxis_title="Steps back", yaxis_title="Share left", yaxis_type="log")
    return figure


def draw_map(title: str) -> Figure:
    """A heat map."""
    values = np.outer(np.linspace(0, 1, 12), np.sin(np.linspace(0, 9, 80)))
    figure = Figure(Heatmap(z=values, colorscale="Cividis", colorbar_title="log₁₀"))
    return figure.update_layout(title=title, xaxis_title="Time step", yaxis_title="Layer", height=320)


def make_report(name: str = "hamlet", factor: float = 0.8) -> Report:
    """An ordinary report."""
    return Report(
        title=name,
        subtitle="Two layers of LSTM with 128 units each, after 1,000 steps",
        facts=(
            ("Model", "2 × LSTM of 128"),
            ("Parameters", "214,272"),
            ("Data", "hamlet.txt, 180,000 characters"),
            ("Batch", "16 rows of 200 steps"),
            ("Taken", "after step 1,000"),
        ),
        verdicts=(
            Verdict(
                "vanishing",
                "fault",
                "Gradients die within 9 steps",
                "Of the gradient's norm, 1 % is left after 9 steps in layer 1; the data's dependence reaches back 60.",
                "Let the forget gate begin open, so that the state is kept for longer.",
                "unspool train hamlet.txt --forget-bias 2",
                "flow",
            ),
            Verdict(
                "truncated",
                "warning",
                "The training window is too short",
                "A window of 20 steps loses 14 % of the gradient.",
                "Train with a window of 80 steps.",
                "unspool train hamlet.txt --bptt 80",
                "truncation",
            ),
            Verdict("units", "note", "A third of the units does nothing", "41 of 128 stay constant.", "Try 96 units."),
            Verdict("stable", "good", "No state explodes", "The largest Lyapunov exponent is −0.12 per step.", ""),
        ),
        sections=(
            Section(
                "flow",
                "Gradient flow",
                "How far back does the loss reach?",
                "The loss at one step changes the weights through every earlier step. Each step backwards multiplies "
                "the gradient by the step's Jacobian; where its singular values are below one, what comes from far "
                "away shrinks geometrically.\n\n"
                "A straight line on this logarithmic axis is a constant factor per step.",
                EQUATION,
                (draw_curve("What is left of the gradient, by lag", factor), draw_map("Gradient norm over time")),
                ("In layer 1, each step back keeps 60 % of the gradient.", "The horizon is 9 steps."),
            ),
            Section(
                "truncation",
                "Truncation",
                "How much does a short window lose?",
                "Truncated backpropagation cuts every path longer than the window.",
                "",
                (draw_curve("Lost by the window", 0.9),),
                ("A window of 80 steps keeps 99 %.",),
            ),
            Section(
                "units",
                "Units in use",
                "How many of the units carry anything?",
                "Each bar is one unit's share of the variance.",
                "",
                (Figure(Bar(x=list("abcdef"), y=[6, 5, 4, 2, 1, 1])).update_layout(title="Share of variance"),),
            ),
        ),
        missing=("Surprise per token: the run's data are not here.",),
        numbers={
            "loss": 1.25 + factor,
            "flow": {
                "labels": ["layer 1", "layer 2"],
                "rate": [factor, 0.9],
                "horizon": [9, 40],
                "norms": [[1.0, None]],
            },
            "depth": {"optimum": "inf"},
        },
    )


def make_hostile() -> Report:
    """A report in which every text that can come from data is hostile."""
    everything = " ".join(HOSTILE)
    figure = Figure(Scatter(x=list(HOSTILE[:4]), y=[1, 3, 2, 4], name=HOSTILE[0], text=list(HOSTILE[:4])))
    figure.update_layout(title=HOSTILE[1])
    return Report(
        title=HOSTILE[0],
        subtitle=HOSTILE[1],
        facts=tuple((text, text) for text in HOSTILE),
        verdicts=tuple(Verdict("key", "note", text, everything, text, text, "tokens") for text in HOSTILE),
        sections=(Section("tokens", HOSTILE[2], HOSTILE[3], everything, HOSTILE[0], (figure,), HOSTILE),),
        missing=HOSTILE,
        numbers={HOSTILE[0]: list(HOSTILE[:5]), HOSTILE[2]: 3.0, "labels": list(HOSTILE[:2]), "x": [1.0, 2.0]},
    )


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
    assert page.locator(".plot[data-figure], .plot[data-film]").count() == figures
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


COLOURS = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
  document.querySelector(".plot .xtitle").style.fill]"""
POINT = """([lag, value]) => {
  const place = document.querySelector(".plot");
  place.scrollIntoView({ block: "center", behavior: "instant" });
  const { left, top } = place.getBoundingClientRect();
  const { _size, xaxis, yaxis } = place._fullLayout;
  return [left + _size.l + xaxis.d2p(lag), top + _size.t + yaxis.d2p(value)];
}"""


def test_a_wide_light_page(browser: Browser, tmp_path: Path) -> None:
    report = make_report()
    with opened(browser, tmp_path, render(report)) as page:
        wait_until_drawn(page, 4)
        assert fits(page)
        assert worst_contrast(page) >= 4.5
        assert page.locator(".contents details").evaluate("(each) => each.open")
        box, main = page.locator(".contents").bounding_box(), page.locator("main").bounding_box()
        assert box is not None
        assert main is not None
        assert box["x"] + box["width"] < main["x"]

        page.mouse.move(*page.evaluate(POINT, [10, 0.8**10]))
        page.locator(".hoverlayer .hovertext").first.wait_for()
        assert page.locator(".hoverlayer .hovertext").first.text_content() == "lag 10: 0.107"

        with page.expect_download() as download:
            page.get_by_text("Download the numbers").click()
        assert json.loads(download.value.path().read_text(encoding="utf-8")) == report.numbers

        light = page.evaluate(COLOURS)
        page.get_by_role("button", name="Show in dark colours").click()
        dark = page.evaluate(COLOURS)
        assert all(one != other for one, other in zip(light, dark, strict=True))
        assert worst_contrast(page) >= 4.5


def test_a_narrow_dark_page(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, render(make_report()), 390, "dark") as page:
        wait_until_drawn(page, 4)
        assert fits(page)
        assert worst_contrast(page) >= 4.5
        red, green, blue = map(int, re.findall(r"\d+", page.evaluate(COLOURS)[0]))
        assert max(red, green, blue) < 60
        details = page.locator(".contents details")
        assert not details.evaluate("(each) => each.open")
        page.locator(".contents summary").focus()
        page.keyboard.press("Enter")
        assert details.evaluate("(each) => each.open")
        assert fits(page)


def test_printing_draws_everything_in_light(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, render(make_report()), 1280, "dark") as page:
        drawn = """() => { dispatchEvent(new Event("beforeprint"));
          return [DRAWN, document.querySelector(".plot .main-svg").getBoundingClientRect().width]; }""".replace(
            "DRAWN", DRAWN
        )
        assert page.evaluate(drawn) == [4, 660]
        on_paper = page.evaluate(COLOURS)[2]
        page.evaluate("() => { dispatchEvent(new Event('afterprint')); }")
        assert page.evaluate(COLOURS)[2] != on_paper
        assert page.pdf().startswith(b"%PDF")


def test_hostile_text_is_text(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, render(make_hostile())) as page:
        wait_until_drawn(page, 1)
        assert page.locator("h1").text_content() == HOSTILE[0]
        assert page.locator(".findings li").all_text_contents()[:7] == list(HOSTILE[:7])
        assert fits(page)
        page.set_viewport_size({"width": 390, "height": 900})
        assert fits(page)


def test_two_runs_stand_side_by_side_or_below_each_other(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, render_comparison(make_report(), make_report("macbeth", 0.9))) as page:
        wait_until_drawn(page, 8)
        assert fits(page)
        assert worst_contrast(page) >= 4.5
        places = """() => ["a", "b"].map((side) => {
          const { x, y } = document.querySelector(`[data-figure=${side}-flow-0]`).getBoundingClientRect();
          return [x, y]; })"""
        (left, above), (right, beside) = page.evaluate(places)
        assert left < right
        assert above == beside
        page.set_viewport_size({"width": 390, "height": 900})
        (left, above), (right, below) = page.evaluate(places)
        assert left == right
        assert above < below
        assert fits(page)


def test_a_film_plays(browser: Browser, tmp_path: Path) -> None:
    frames = [(f"step {step}", make_report(factor=0.5 + step / 10)) for step in range(3)]
    with opened(browser, tmp_path, render_film(frames, ["flow"], ["loss"]), 390) as page:
        wait_until_drawn(page, 3)
        assert fits(page)
        curve = "() => document.querySelector('[data-film=flow-0]')._fullData[0].y[1]"
        assert page.evaluate(curve) == pytest.approx(0.7)
        page.locator("#frame").press("Home")
        assert page.evaluate(curve) == pytest.approx(0.5)
        assert page.locator("#moment").text_content() == "step 0"
        assert page.locator(".moment:visible h3.side").all_text_contents() == ["step 0"]
        assert page.evaluate("document.querySelector('[data-figure=line-0]').layout.shapes[0].x0") == 0
        page.locator("#play").click()
        wait_for(page, "document.getElementById('moment').textContent === 'step 2'")
        assert page.evaluate(curve) == pytest.approx(0.7)


def test_without_scripts_the_words_are_there(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render(make_report()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, offline=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(path.as_uri())
    for text in ("Gradients die within 9 steps", "How far back does the loss reach?"):
        assert page.get_by_text(text).first.is_visible()
    assert page.locator("noscript p").is_visible()
    assert not page.get_by_text("Download the numbers").is_visible()
    context.close()


def test_a_notebook_draws_the_page_in_its_frame(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, f"<!doctype html><body>{make_report()._repr_html_()}</body>") as page:
        wait_for(page, "window.frames.length === 1")
        frame = page.frames[1]
        frame.locator("h1").wait_for()
        wait_until_drawn(frame, 4)
        assert frame.locator("h1").text_content() == "hamlet"
        page.keyboard.press("Tab")
        frame.locator("#theme").click()
        assert frame.locator("#theme").text_content() == "Light"
