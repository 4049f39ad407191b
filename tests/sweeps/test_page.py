"""The page of a sweep: complete without a script, offline, and with every figure's numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sweeps.made_up import GOAL, SPACES, evaluated, finished

from unspool.settings.search import Choices, Span
from unspool.sweeps.course import Row, course_of
from unspool.sweeps.figures import draw_cost, draw_curves, draw_parallel, find_front, place_of, ticks_of
from unspool.sweeps.page import render_page
from unspool.sweeps.searching import Snapshot


def row(number: int, accuracy: float, seconds: float = 5.0) -> Row:
    events = [evaluated(1, accuracy / 2), evaluated(2, accuracy), {**finished(accuracy), "seconds": seconds}]
    settings = {"lr": 1e-4 * 10 ** (number % 3), "hidden": 8 * (number + 1), "cell": ("lstm", "gru")[number % 2]}
    return Row(number, "finished", settings, Path(f"s/trials/{number:03}"), course_of(events), accuracy)


def snapshot(*rows: Row) -> Snapshot:
    return Snapshot(Path("runs/<b>sweep"), "classify", GOAL, SPACES, 8, rows, 61.0, True, "done")


FAILED = Row(3, "failed", {"lr": 1e-3, "hidden": 8, "cell": "gru"}, Path("s/trials/003"), problem="<i>diverged</i>")


def test_everything_is_on_the_page_and_nothing_is_loaded() -> None:
    page = render_page(snapshot(row(0, 0.5), row(1, 0.9), row(2, 0.7), FAILED), {"lr": 0.75, "hidden": 0.25})
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "Trial 1: accuracy 0.9, on test data 0.9" in text
    assert "Without a search (trial 0): accuracy 0.5" in text
    assert "3 finished, 1 failed of 8 trials" in text
    assert "&lt;i&gt;diverged" in text
    assert "<b>" not in text
    assert not re.search(r"(src|href)=\"https?:", text)
    assert page.count('class="plot"') == 4


def test_a_sweep_without_any_evaluation_has_a_page_too() -> None:
    assert "No trial was evaluated." in render_page(snapshot(FAILED), {})


def test_the_best_line_is_drawn_last_through_the_values_of_its_settings() -> None:
    figure = draw_parallel(snapshot(row(0, 0.5), row(1, 0.9), row(2, 0.7)))
    best = figure.data[-1]
    assert list(best.x) == ["lr", "hidden", "cell", "accuracy"]
    assert list(best.y) == pytest.approx([0.5, (16 - 8) / (64 - 8), 1.0, 1.0], abs=1e-3)
    assert list(figure.data[0].y)[-1] == 0.0


def test_curves_are_those_of_the_log() -> None:
    figure = draw_curves(snapshot(row(0, 0.5)))
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([1.0, 2.0], [0.25, 0.5])


def test_the_front_has_what_nothing_cheaper_equals() -> None:
    rows = [row(0, 0.5, 1.0), row(1, 0.4, 2.0), row(2, 0.5, 3.0), row(3, 0.8, 4.0), row(4, 0.7, 5.0)]
    assert [one.number for one in find_front(rows, True)] == [0, 3]
    assert [one.number for one in find_front(rows, False)] == [0, 1]
    assert list(draw_cost(snapshot(*rows)).data[1].x) == [1.0, 4.0]


def test_places_and_ticks() -> None:
    assert place_of(Span(1, 100, log=True), 10) == pytest.approx(0.5)
    assert ticks_of(Span(0.0, 1.0))[1] == (0.25, "0.25")
    assert ticks_of(Choices((None, True, 3))) == [(0.0, "default"), (0.5, "on"), (1.0, "3")]
