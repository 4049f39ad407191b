"""Scales that pictures share: side by side in a comparison, one after another in a timeline."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plotly.graph_objects import Bar, Figure, Heatmap, Histogram, Scatter
from tests.insight import made_up_measures as made_up
from tests.insight.report.parsing import Parsed

from unspool.insight.figures.fixed_points import draw_eigenvalues
from unspool.insight.figures.gates import draw_gate_maps
from unspool.insight.figures.gradient import draw_gradient_map, draw_survival
from unspool.insight.figures.text import draw_dendrogram, draw_token_map
from unspool.insight.report.comparison import render_comparison
from unspool.insight.report.contract import Section
from unspool.insight.report.ranges import share_scales
from unspool.insight.report.report import Report
from unspool.insight.report.timeline import render_timeline


def report(scale: float) -> Report:
    flow = made_up.flow(("layer 1",), steps=20, lags=20)
    flow = type(flow)(**vars(flow) | {"norms": flow.norms * scale, "survival": flow.survival**scale})
    return Report(
        "r", sections=(Section("flow", "F", "?", "", draw=lambda: (draw_survival(flow), draw_gradient_map(flow))),)
    )


def test_colors_of_a_timeline_stand_still() -> None:
    page = Parsed(render_timeline([("a", report(1)), ("b", report(1000))], ["flow"]))
    axes = [page.data(f"data-flow-1-{moment}")["layout"]["coloraxis"] for moment in (0, 1)]
    assert axes[0] == axes[1]
    values = [np.array(page.data(f"data-flow-1-{moment}")["data"][0]["z"], float) for moment in (0, 1)]
    assert axes[0]["cmin"] == pytest.approx(np.nanmin(values[0]), abs=1e-3)
    assert axes[0]["cmax"] == pytest.approx(np.nanmax(values[1]), abs=1e-3)
    ticks = axes[0]["colorbar"]["tickvals"]
    assert len(ticks) == len(axes[0]["colorbar"]["ticktext"]) >= 3
    assert axes[0]["cmin"] <= min(ticks) < max(ticks) <= axes[0]["cmax"]
    assert axes[0]["colorbar"]["orientation"] == "h"


def test_two_runs_have_the_same_axes() -> None:
    page = Parsed(render_comparison(report(1), report(3)))
    one, other = (page.data(f"data-{letter}-flow-0")["layout"] for letter in "ab")
    assert one["yaxis"]["range"] == other["yaxis"]["range"]
    assert one["yaxis"]["tickvals"] == other["yaxis"]["tickvals"]
    lowest = [min(page.data(f"data-{letter}-flow-0")["data"][0]["y"]) for letter in "ab"]
    assert 10 ** one["yaxis"]["range"][0] < min(lowest)
    assert page.data("data-a-flow-1")["layout"]["coloraxis"] == page.data("data-b-flow-1")["layout"]["coloraxis"]


def test_a_section_of_one_run_only() -> None:
    page = Parsed(render_comparison(report(1), Report("other")))
    assert page.data("data-a-flow-0")["layout"]["yaxis"]["range"]


def test_what_is_shared() -> None:
    figures = [
        Figure([Scatter(x=[0, 1], y=[2, 3]), Bar(x=[5], y=["a"], orientation="h", xaxis="x2")]),
        Figure([Scatter(x=[4, 5], y=[-1, 0]), Histogram(x=[-7, 1], xaxis="x2")]),
    ]
    figures[0].add_hline(y=9)
    found = share_scales(figures)
    assert found["xaxis"]["range"] == pytest.approx([-0.2, 5.2])
    assert found["yaxis"]["range"] == pytest.approx([-1.4, 9.4])
    assert found["xaxis2"]["range"] == pytest.approx([-7.48, 5.48])
    assert "coloraxis" not in found


def test_stated_ends_of_colors_and_those_of_numbers() -> None:
    stated = draw_gate_maps(made_up.gates(("layer 1",)))
    free = Figure(Heatmap(z=[[math.nan, 3.0]], coloraxis="coloraxis"))
    assert share_scales([stated, free])["coloraxis"] == {"cmin": 0.0, "cmax": 3.0}
    assert share_scales([Figure(Heatmap(z=[[1.0]]))]) == {}


def test_the_unit_circle_stays_in_view() -> None:
    found = made_up.fixed_points()
    small = tuple(replace(one, eigenvalues=one.eigenvalues * 0.1) for one in found.sets)
    shared = share_scales([draw_eigenvalues(replace(found, sets=small))])
    for axis in ("xaxis", "yaxis"):
        low, high = shared[axis]["range"]
        assert low < -1 < 1 < high


def test_planes_with_names_keep_their_own_axes() -> None:
    states = made_up.token_states()
    wide = replace(states, centers2d=states.centers2d * 100)
    assert not share_scales([draw_token_map(states), draw_token_map(wide)])
    assert "xaxis" in share_scales([draw_dendrogram(states)])
