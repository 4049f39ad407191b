"""The page in a browser with the network off: everything is drawn, fits, can be read, and runs nothing from data."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.browser import DRAWN, PATIENCE, fits, opened, wait_for, wait_until_drawn, worst_contrast
from tests.insight import made_up_measures as made_up
from tests.insight.made_up_reports import HOSTILE, make_hostile, make_report
from tests.runs.tiny_run import TinyRun

from unspool.insight.figures.gradient import draw_gradient_map, draw_step_shares, draw_streams
from unspool.insight.figures.similarity import draw_similarity
from unspool.insight.figures.text import draw_unit_activity
from unspool.insight.figures.units import draw_unit_text
from unspool.insight.measures.similarity import Similarity
from unspool.insight.measures.unit_activity import UnitActivity
from unspool.insight.measures.units import Unit
from unspool.insight.report.comparison import render_comparison
from unspool.insight.report.contract import Section
from unspool.insight.report.page import render
from unspool.insight.report.report import Report
from unspool.insight.report.timeline import render_timeline
from unspool.insight.xray import xray

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from plotly.graph_objects import Figure


COLOURS = """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
  document.querySelector(".plot .xtitle").style.fill]"""
TURNS = "(each) => each.map((tick) => tick.getAttribute('transform'))"
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
        page.get_by_role("button", name="Show in dark colors").click()
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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_report_of_a_run_is_drawn(
    browser: Browser, tiny_run: TinyRun, tmp_path: Path, width: int, scheme: str
) -> None:
    report = xray(tiny_run.path)
    with opened(browser, tmp_path, render(report), width, scheme) as page:
        wait_until_drawn(page, sum(len(section.figures) for section in report.sections))
        assert fits(page)


def test_printing_draws_everything_in_light(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, tmp_path, render(make_report()), 1280, "dark") as page:
        wait_for(page, "!document.querySelector('.tools').hidden")  # the drawing library is unpacked by then
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


def test_a_timeline_plays(browser: Browser, tmp_path: Path) -> None:
    frames = [(f"step {step}", make_report(factor=0.5 + step / 10)) for step in range(3)]
    with opened(browser, tmp_path, render_timeline(frames, ["flow"], ["loss"]), 390) as page:
        wait_until_drawn(page, 3)
        assert fits(page)
        curve = "() => document.querySelector('[data-timeline=flow-0]')._fullData[0].y[1]"
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


#: Of each text in a picture: left, top, right and bottom inside the picture.
BOXES = """(plot) => [...plot.querySelectorAll(".main-svg text")].filter((text) => text.textContent).map((text) => {
  const outer = plot.getBoundingClientRect();
  const { left, top, right, bottom } = text.getBoundingClientRect();
  return [left - outer.left, top - outer.top, right - outer.left, bottom - outer.top]; })"""
INSIDE = """(plot, kind) => [...plot.querySelectorAll(kind)].map((each) => {
  const { left, top, right, bottom } = each.getBoundingClientRect();
  return [left, top, right, bottom]; })"""
Box = tuple[float, float, float, float]


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share more than the pixel that fonts reach over their line."""
    across, up = (min(one[side + 2], other[side + 2]) - max(one[side], other[side]) for side in (0, 1))
    return across > 1 and up > 1


def draw_all(*figures: Figure) -> str:
    """A page with these pictures."""
    return render(Report("Pictures", sections=(Section("all", "All", "What?", "", draw=lambda: figures),)))


@pytest.mark.parametrize("width", [1280, 390])
def test_titles_stand_whole_above_their_pictures(browser: Browser, tmp_path: Path, width: int) -> None:
    with opened(browser, tmp_path, draw_all(draw_step_shares(made_up.shares())), width) as page:
        wait_until_drawn(page, 1)
        names = (".plot", ".plot .gtitle", ".plot .nsewdrag", ".plot .main-svg")
        plot, title, inside, drawing = (page.locator(name).first.bounding_box() for name in names)
        assert plot is not None
        assert title is not None
        assert inside is not None
        assert drawing is not None
        assert title["x"] >= plot["x"]
        assert title["y"] >= plot["y"]
        assert title["x"] + title["width"] <= plot["x"] + plot["width"]
        assert title["y"] + title["height"] <= inside["y"]
        assert (title["height"] > 30) == (width == 390)  # two lines
        assert drawing["height"] <= plot["height"]


@pytest.mark.parametrize("width", [1280, 390])
def test_every_color_bar_has_two_ticks_and_no_texts_overlap(browser: Browser, tmp_path: Path, width: int) -> None:
    labels = ("layer 1", "layer 2")
    streams = draw_streams(made_up.streams(labels))
    with opened(browser, tmp_path, draw_all(draw_gradient_map(made_up.flow(labels, 12)), streams), width) as page:
        wait_until_drawn(page, 2)
        for place in range(2):
            ticks = page.locator(".plot").nth(place).locator(".colorbar .cbaxis text")
            assert ticks.count() >= 2
            assert not any("rotate(" in (turn or "") and "rotate(0" not in turn for turn in ticks.evaluate_all(TURNS))
            boxes = page.locator(".plot").nth(place).evaluate(BOXES)
            assert len(boxes) > 6
            assert all(left >= 0 and top >= 0 for left, top, *_ in boxes)
            assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]


def test_a_text_has_shorter_lines_at_a_readable_size_on_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    words = tuple(f"word{number:02}" for number in range(24))
    unit = Unit("layer 1", 0, words, np.arange(24.0), (), (), np.zeros((0, 24)), (), (), np.nan, -1, 0, np.nan)
    text, sizes = draw_all(draw_unit_text(unit)), {}
    for width in (1280, 390):
        with opened(browser, tmp_path, text, width) as page:
            wait_until_drawn(page, 1)
            shown = page.locator(".plot .heatmap-label text")
            assert shown.all_text_contents() == list(words)
            sizes[width] = shown.first.evaluate("(each) => parseFloat(getComputedStyle(each).fontSize)")
            drawing, place = (page.locator(name).first.bounding_box() for name in (".plot .main-svg", ".plot"))
            assert drawing is not None
            assert place is not None
            assert drawing["height"] == pytest.approx(place["height"], abs=1)
            trace = page.evaluate("document.querySelector('.plot').data[0]")
            assert [value for row in trace["z"] for value in row][:24] == list(range(24))
            assert len(trace["z"][0]) == {1280: 9, 390: 5}[width]
    assert sizes[390] >= 9, sizes


def test_long_names_stay_outside_the_tables_of_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    labels = ("input", "encoder layer 1 →", "encoder layer 1 ←")
    alike = Similarity(labels, labels, np.eye(3), np.eye(3), 9)
    streams = draw_streams(made_up.streams(labels[1:]))
    with opened(browser, tmp_path, draw_all(draw_similarity(alike), streams), 390) as page:
        wait_until_drawn(page, 2)
        for place in range(2):
            names, values = (
                page.locator(".plot").nth(place).evaluate(INSIDE, kind) for kind in (".xtick text", ".heatmap-label")
            )
            assert names
            assert values
            assert not [(name, value) for name in names for value in values if overlap(name, value)]


def test_a_narrow_screen_names_fewer_tokens_below_the_units(browser: Browser, tmp_path: Path) -> None:
    words = tuple(f"word{number:02}" for number in range(40))
    activity = UnitActivity("layer 1", words, (0, 1), np.ones((40, 2)))
    with opened(browser, tmp_path, draw_all(draw_unit_activity(activity)), 390) as page:
        wait_until_drawn(page, 1)
        boxes = page.locator(".plot").evaluate(BOXES)
        assert len(boxes) > 15
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]


def test_the_small_charts_of_a_timeline_name_their_moments(browser: Browser, tmp_path: Path) -> None:
    frames = [(f"step {step:,}", make_report(factor=0.5 + step / 10_000)) for step in range(0, 5000, 1000)]
    with opened(browser, tmp_path, render_timeline(frames, ["flow"])) as page:
        wait_until_drawn(page, 4)
        chart = page.locator(".small .plot").first
        assert chart.locator(".xtick text").all_text_contents() == ["step 0", "step 2,000", "step 4,000"]
        assert chart.locator(".gtitle tspan").all_text_contents() == ["gradient kept per step,", "layer 1"]
        assert not [pair for pair in combinations(chart.evaluate(BOXES), 2) if overlap(*pair)]


def test_a_browser_that_cannot_unpack_says_so(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render(make_report()), encoding="utf-8")
    page = browser.new_page()
    page.add_init_script("delete globalThis.DecompressionStream;")
    page.goto(path.as_uri())
    page.locator(".old-browser").wait_for(state="visible")
    assert "too old" in page.locator(".old-browser").inner_text()
    page.close()
