"""Single numbers in reports: which come first, what they are called, and how two runs' are compared."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.insight.made_up_reports import make_report
from tests.insight.report.parsing import Parsed

from unspool.insight.catalogue import CATALOGUE
from unspool.insight.report.comparison import format_difference, format_number, render_comparison
from unspool.insight.report.report import Report
from unspool.insight.report.scalars import Glossary
from unspool.insight.report.timeline import TITLE, render_timeline

SCALARS = tuple(scalar for measure in CATALOGUE for scalar in measure.named_scalars())
GLOSSARY = Glossary(SCALARS)


def read_table(page: str) -> dict[str, list[str]]:
    """The rows of a comparison's table, in their order."""
    rows = re.findall(r"<tr><th scope=.row.>(.*?)</th>(.*?)</tr>", page, re.DOTALL)
    return {
        Parsed(name).text: [Parsed(cell).text.strip() for cell in cells.split("</td>")[:-1]] for name, cells in rows
    }


def test_what_people_look_for_comes_first_and_inputs_are_left_out() -> None:
    numbers = {
        "loss": 2.0,
        "streams": {"labels": ["one", "two"], "paths": 1, "cross": None},
        "flow": {"labels": ["one", "two"], "rate": [0.5, np.nan], "norms": [[1.0], [2.0]], "limit": 3, "ok": True},
        "time_constants": {"dt": 1.0, "tau": [1.0, 2.0]},
        "lyapunov": {"labels": ["one", "two"], "largest": [-0.1, np.inf]},
        "truncation": {"labels": ["one", "two"], "recommended": 14, "censored": False},
        "forgetting": {"labels": ["one", "two"], "horizon": [3, 4]},
    }
    numbers["flow"] |= {"horizon": [7, 8]}  # type: ignore[operator]
    found = GLOSSARY.find(numbers)
    assert list(found.items()) == [
        ("flow · horizon · one", 7.0),
        ("flow · horizon · two", 8.0),
        ("forgetting · horizon · one", 3.0),
        ("forgetting · horizon · two", 4.0),
        ("truncation · recommended", 14.0),
        ("lyapunov · largest · one", -0.1),
        ("lyapunov · largest · two", math.inf),
        ("flow · rate · one", 0.5),
        ("streams · paths", 1.0),
        ("loss", 2.0),
        ("flow · limit", 3.0),
    ]


def test_names_are_said_in_words() -> None:
    assert GLOSSARY.words("flow · rate · layer 1") == "gradient kept per step, layer 1"
    assert GLOSSARY.words("flow · rate · a · b") == "gradient kept per step, a · b"
    assert GLOSSARY.words("truncation · recommended") == "recommended window (steps)"
    assert GLOSSARY.words("flow · rates") == "flow · rates"
    words = [scalar.words for scalar in SCALARS if scalar.words is not None]
    assert len(set(words)) == len(words) > 10
    assert max(map(len, words)) <= TITLE  # or a timeline would cut them


def test_the_comparison_table_has_what_both_have() -> None:
    a, b = make_report(factor=0.8), make_report("macbeth", 0.9)
    page = render_comparison(a, replace(b, sections=b.sections[:2], numbers={**b.numbers, "only": 1.0}))
    found = read_table(page)
    assert found["Model"] == ["2 × LSTM of 128", "2 × LSTM of 128", "same"]
    assert found["gradient kept per step, layer 1"] == ["0.8", "0.9", "+0.1 (+12.5 %)"]
    assert found["gradient horizon (steps), layer 2"] == ["40", "40", "same"]
    assert found["depth · optimum"] == ["∞", "∞", "same"]
    assert "only" not in found
    assert page.count("Not measured in this run.") == 1
    assert set(Parsed(page).data("numbers")) == {"a", "b"}


def test_key_numbers_are_shown_even_if_the_layers_have_other_names() -> None:
    flow = {"labels": ["encoder"], "horizon": [5], "rate": [0.5]}
    other = {"labels": ["layer 1"], "horizon": [9], "rate": [0.7]}
    a, b = (Report(name, numbers={"flow": one}, scalars=SCALARS) for name, one in (("a", flow), ("b", other)))
    found = read_table(render_comparison(a, b))
    assert found == {
        "gradient horizon (steps), encoder": ["5", "–", "–"],
        "gradient horizon (steps), layer 1": ["–", "9", "–"],
    }


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ("1.062", "0.3274", "−0.7346 (−69.2 %)"),
        ("214,272", "107,136", "−107,136 (−50 %)"),
        ("−2", "2", "+4 (+200 %)"),
        ("1e-3", "2e-3", "+0.001 (+100 %)"),
        ("0.5", "0.5", "same"),
        ("1.0", "1", "same"),
        ("lstm", "gru", "differs"),
        ("3", "three", "differs"),
        ("1,5", "2,5", "differs"),
        ("nan", "inf", "differs"),
        ("1e999", "1", "differs"),
        ("1_0", "20", "differs"),
    ],
)
def test_facts_that_are_numbers_show_their_difference(a: str, b: str, said: str) -> None:
    page = render_comparison(Report("a", facts=(("loss", a),)), Report("b", facts=(("loss", b),)))
    assert read_table(page) == {"loss": [a, b, said]}


def test_numbers_and_differences_in_words() -> None:
    assert [format_number(value) for value in (-1234567.0, 0.00012345, 3.0, -math.inf)] == [
        "−1,234,567",
        "0.0001234",
        "3",
        "−∞",
    ]
    assert format_difference(2, 1) == "−1 (−50 %)"
    assert format_difference(0, 2) == "+2"
    assert format_difference(1, math.inf) == "+∞"
    assert format_difference(0.001, 20) == "+20"


def test_a_timelines_small_charts_are_titled_and_dated() -> None:
    frames = [(f"step {step}", make_report(factor=0.5 + step / 100)) for step in (0, 15, 30)]
    page = Parsed(render_timeline(frames, ["flow"], ["flow · rate · layer 1", "loss"]))
    layout = page.data("data-line-0")["layout"]
    assert layout["title"]["text"].replace("<br>", " ") == "gradient kept per step, layer 1"
    assert layout["xaxis"]["tickvals"] == layout["xaxis"]["ticktext"] == ["step 0", "step 15", "step 30"]
    assert page.data("data-line-1")["layout"]["title"]["text"] == "loss"
    assert "gradient kept per step, layer 1 over training" in {
        attributes.get("aria-label") for _, attributes in page.elements
    }


def test_lower_bounds_are_known_by_their_names() -> None:
    numbers = {"flow": {"labels": ["layer 1", "layer 2"], "horizon": [9, 40], "censored": [False, True]}}
    assert GLOSSARY.find_bounds(numbers) == {"flow · horizon · layer 2"}
    assert GLOSSARY.find_bounds({"truncation": {"recommended": 117, "censored": True}}) == {"truncation · recommended"}
    assert GLOSSARY.find_bounds({"truncation": {"recommended": 17, "censored": False}}) == set()
