"""Figures: small, harmless, readable by everyone, and never empty without a note."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from tests.insight import made_up_measures as made_up
from tests.insight.pictures import OF_LAYERS, near, texts

from unspool.insight.figures import dynamics, fixed_points, gates, gradient, jacobians, memory, text
from unspool.insight.figures.canvas import CELLS, LINE
from unspool.insight.figures.theme import NEUTRAL, RELAYOUT, style, themed

HOSTILE = "<script>alert(1)</script><b>b</b> $x$ %{x} \u202e\x00\n\"'&amp;"


# nothing to show


def blank(value: Any) -> Any:
    """The measure with every number unknown."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return np.full_like(value, np.nan)
    if isinstance(value, float):
        return float("nan")
    if isinstance(value, tuple):
        return tuple(blank(one) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{one.name: blank(getattr(value, one.name)) for one in dataclasses.fields(value)}
        )
    return value


@pytest.mark.parametrize("name", OF_LAYERS)
def test_without_layers_a_note_stands_for_the_picture(name: str) -> None:
    draw, make = OF_LAYERS[name]
    measure = make(())  # as from a model without layers
    if name in ("sensitivity", "truncation"):  # which also have a curve of the whole model
        measure = blank(measure)
    figure = draw(measure)
    assert not figure.data
    assert figure.layout.title.text
    assert len(figure.layout.annotations[0].text) > 10


@pytest.mark.parametrize("name", OF_LAYERS)
def test_nan_draws_gaps_or_a_note(name: str) -> None:
    draw, make = OF_LAYERS[name]
    figure = draw(blank(make(made_up.LABELS)))
    assert figure.layout.title.text
    assert "NaN" not in figure.to_json()
    assert figure.data or len(figure.layout.annotations[0].text) > 10


def test_no_text_gives_a_note() -> None:
    nothing = dataclasses.replace(made_up.surprise(), tokens=(), nats=np.zeros(0), by_position=np.zeros(0))
    states = made_up.token_states(("a",))
    for figure in (
        text.draw_surprise(nothing),
        text.draw_surprise_by_position(nothing),
        text.draw_unit_activity(made_up.unit_activity((), 3)),
        text.draw_dendrogram(states),
        memory.draw_dependence(made_up.dependence(0)),
    ):
        assert not figure.data
        assert len(figure.layout.annotations[0].text) > 10


# harmless


def hostile_figures() -> list[go.Figure]:
    labels = (HOSTILE, "2" + HOSTILE)
    tokens = (HOSTILE, "b" + HOSTILE, "c", "أبجد", "x" * 10_000)
    states = made_up.token_states(tokens)
    return [
        *(draw(make(labels)) for draw, make in OF_LAYERS.values()),
        text.draw_surprise(made_up.surprise(tokens)),
        text.draw_unit_activity(made_up.unit_activity(tokens, 2)),
        text.draw_token_map(states),
        text.draw_dendrogram(states),
    ]


def test_labels_and_tokens_never_become_markup() -> None:
    for figure in hostile_figures():
        shown = texts(json.loads(figure.to_json()))
        assert any("&lt;script&gt;" in one for one in shown)
        for one in shown:
            assert not re.search(r"<(?!/?(?:extra|br|su[bp])>)", one), one
            assert "\u202e" not in one
            assert "$" not in one
            assert len(one) < 400
        for trace in figure.data:  # templates are ours alone: data in them could name other data
            assert "script" not in (trace.hovertemplate or "")


def test_names_that_look_the_same_keep_their_own_rows() -> None:
    labels = ("x" * 50 + "a", "x" * 50 + "b")
    for figure in (gradient.draw_gradient_map(made_up.flow(labels)), gradient.draw_streams(made_up.streams(labels))):
        assert list(figure.data[0].y) == ["x" * 39 + "…", "x" * 39 + "… (2)"]


# small


def test_long_and_wide_measures_stay_small() -> None:
    labels = tuple(f"layer {index}" for index in range(8))
    states = made_up.token_states(tuple(f"token {index}" for index in range(60)))
    many = made_up.gates(labels, 600, 64)
    figures = [
        gradient.draw_gradient_map(made_up.flow(labels, 5000)),
        gradient.draw_step_shares(made_up.shares(labels, 5000)),
        gradient.draw_truncation(made_up.truncation(labels, 1000)),
        jacobians.draw_step_bands(made_up.jacobians(labels, 5000)),
        gates.draw_gate_maps(many),
        gates.draw_gate_histograms(many),
        gates.draw_time_constants(made_up.time_constants(labels, 512)),
        fixed_points.draw_eigenvalues(made_up.fixed_points(labels, 2000, 1024)),
        fixed_points.draw_phase_portrait(made_up.fixed_points(labels, 2000, 1024)),
        dynamics.draw_lyapunov(made_up.lyapunov(labels, 1024)),
        text.draw_surprise(made_up.surprise(made_up.WORDS * 50)),
        text.draw_unit_activity(made_up.unit_activity(made_up.WORDS * 50, 128)),
        text.draw_dendrogram(states),
        text.draw_token_map(states),
    ]
    sizes = [len(figure.to_json()) for figure in figures]
    assert max(sizes) < 700_000
    assert sum(sizes) < 2_800_000  # beside plotly's own 4.8 MB in a page of 8
    for figure in figures:
        heat = [np.array(trace.z, dtype=object).size for trace in figure.select_traces({"type": "heatmap"})]
        assert sum(heat) <= CELLS
        assert all(len(trace.x) <= 4 * LINE for trace in figure.select_traces({"type": "scatter"}))


def test_thinned_pictures_show_every_nth_step() -> None:
    flow = made_up.flow(steps=1000)
    heat = gradient.draw_gradient_map(flow).data[0]
    near(heat.x, np.arange(0, 1000, 3))
    near(heat.customdata, flow.norms[:, ::3])


# the look


def test_light_and_dark_differ_in_the_template_alone() -> None:
    figure = gradient.draw_survival(made_up.flow())
    light = json.loads(figure.to_json())
    dark = json.loads(themed(figure, dark=True).to_json())
    assert dark["layout"].pop("template") == RELAYOUT["dark"]["template"]
    assert light["layout"].pop("template") == RELAYOUT["light"]["template"]
    assert light == dark


def brightness(color: str) -> float:
    """Relative luminance, as WCAG has it."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize(("mode", "page"), [("light", "#ffffff"), ("dark", "#0d1117")])
def test_text_and_reference_lines_stand_out(mode: str, page: str) -> None:
    layout = RELAYOUT[mode]["template"]["layout"]
    colors = {layout["font"]["color"]: 7, layout["xaxis"]["tickfont"]["color"]: 4.5, NEUTRAL: 3.0}
    for color, least in colors.items():
        low, high = sorted((brightness(color), brightness(page)))
        assert (high + 0.05) / (low + 0.05) >= least


def test_series_differ_without_color_too() -> None:
    assert len({style(index) for index in range(36)}) == 36
    assert len({style(index)[1:] for index in range(6)}) == 6
    assert all(
        trace.line.dash != other.line.dash for trace, other in [gradient.draw_step_shares(made_up.shares()).data[:2]]
    )


@pytest.mark.parametrize("name", OF_LAYERS)
def test_pictures_have_titles_axes_and_hover(name: str) -> None:
    draw, make = OF_LAYERS[name]
    figure = draw(make(made_up.LABELS))
    assert figure.layout.title.text
    assert any(axis.title.text for axis in figure.select_xaxes())
    assert all(trace.hovertemplate for trace in figure.data)
