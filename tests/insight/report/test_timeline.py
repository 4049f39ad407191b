"""The training timeline: which moments it keeps, axes that stand still, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plotly.graph_objects import Figure, Heatmap, Scatter
from tests.insight.made_up_reports import make_report
from tests.insight.report.parsing import Parsed

from unspool.errors import ArgumentError, UnknownNameError
from unspool.insight.report.contract import Section
from unspool.insight.report.document import LARGEST
from unspool.insight.report.report import Report
from unspool.insight.report.timeline import render_timeline


def test_a_timeline_keeps_at_most_sixty_moments_with_the_first_and_the_last() -> None:
    sections = tuple(Section(key, key, "?", "", draw=lambda: (Figure(Scatter(y=[1, 2])),)) for key in ("flow", "other"))
    frames = [
        (f"step {step}", Report("Long", sections=sections, numbers={"loss": 1 / (1 + step)})) for step in range(150)
    ]
    page = Parsed(render_timeline(frames, ["flow"]))
    names = page.data("timeline")["frames"]
    assert len(names) == 60
    assert (names[0], names[-1]) == ("step 0", "step 149")
    ids = {str(attributes.get("id")) for attributes, _ in page.scripts}
    assert {name for name in ids if name.startswith("data-flow")} == {f"data-flow-0-{moment}" for moment in range(60)}
    assert not {name for name in ids if name.startswith("data-other")}
    line = page.data("data-line-0")
    assert line["layout"]["title"]["text"] == "loss"
    assert line["layout"]["xaxis"]["ticktext"] == ["step 0", names[30], "step 149"]
    assert line["data"][0]["x"] == names
    assert line["data"][0]["y"] == [1 / (1 + int(name.removeprefix("step "))) for name in names]


def test_the_axes_of_a_timeline_stand_still() -> None:
    page = Parsed(render_timeline([("a", make_report(factor=0.5)), ("b", make_report(factor=0.9))], ["flow"]))
    for moment in (0, 1):
        low, high = page.data(f"data-flow-0-{moment}")["layout"]["yaxis"]["range"]
        least = math.log10(0.5 * 0.5**39)
        assert low == pytest.approx(least * 1.04)
        assert high == pytest.approx(-least * 0.04)


def test_a_timeline_that_is_too_large_drops_moments() -> None:
    values = np.random.default_rng(0).normal(size=(200, 200))
    heavy = Section("map", "Map", "What?", "", draw=lambda: (Figure(Heatmap(z=values)),))
    page = render_timeline([(str(step), Report("Heavy", sections=(heavy,))) for step in range(12)])
    names = Parsed(page).data("timeline")["frames"]
    assert len(page.encode()) < LARGEST
    assert (names[0], names[-1]) == ("0", "11")
    assert 1 < len(names) < 12


def test_a_timeline_refuses_what_it_cannot_show() -> None:
    with pytest.raises(ArgumentError, match="empty"):
        render_timeline([])
    with pytest.raises(UnknownNameError, match="flow"):
        render_timeline([("a", make_report())], ["flaw"])
    with pytest.raises(UnknownNameError, match="loss"):
        render_timeline([("a", make_report())], scalars=["los"])
