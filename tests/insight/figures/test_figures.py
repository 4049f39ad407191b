"""Figures: what they show is what was measured, small, harmless and never without a word."""

from __future__ import annotations

import dataclasses

import numpy as np
import plotly.graph_objects as go
import pytest
from tests.insight import made_up_measures as made_up
from tests.insight.pictures import near

from unspool.insight.figures import (
    dynamics,
    fixed_points,
    frequency,
    gates,
    gradient,
    hidden_units,
    jacobians,
    memory,
    text,
)
from unspool.insight.figures.canvas import FLOOR, log_colors, numbers, picked

# numbers


def test_numbers_keep_four_digits_and_name_gaps() -> None:
    assert numbers([[1234567.0, 0.000123456], [np.nan, -np.inf]]).tolist() == [[1235000.0, 0.0001235], [None, None]]
    assert numbers([np.nan, 1234567.0]) == [None, 1235000.0]
    assert numbers(np.zeros((2, 0))).tolist() == [[], []]


@pytest.mark.parametrize(("count", "limit"), [(0, 5), (1, 5), (5, 5), (6, 5), (1000, 400), (999, 7)])
def test_every_nth_is_picked_with_the_least_n(count: int, limit: int) -> None:
    places = picked(count, limit)
    assert len(places) <= limit
    if count > 1:
        gap = int(places[1] - places[0])
        assert places.tolist() == list(range(0, count, gap))
        assert gap == 1 or len(range(0, count, gap - 1)) > limit


# the measure's numbers are the picture's


def test_gradient_map_shows_the_norms() -> None:
    flow = made_up.flow()
    heat = gradient.draw_gradient_map(flow).data[0]
    near(heat.customdata, flow.norms)
    near(heat.z, np.log10(flow.norms))
    assert list(heat.y) == list(made_up.LABELS)


def test_survival_shows_curves_and_horizons() -> None:
    flow = made_up.flow()
    figure = gradient.draw_survival(flow)
    for index in range(3):
        curve, mark = figure.data[2 * index : 2 * index + 2]
        near(curve.y, flow.survival[index])
        near(mark.x, [flow.horizon[index]])
        near(mark.y, [flow.survival[index, flow.horizon[index]]])
        assert (mark.marker.symbol == "triangle-right") == flow.censored[index]
        assert ("at least" in mark.hovertemplate) == flow.censored[index]


def test_a_curve_under_the_floor_is_drawn_there_and_told_as_it_is() -> None:
    flow = made_up.flow()
    flow.survival[0, 40:] = 0
    curve = gradient.draw_survival(flow).data[0]
    near(curve.customdata, flow.survival[0])
    assert set(curve.y[40:]) == {FLOOR}


@pytest.mark.parametrize(
    ("figure", "height", "says"),
    [
        (gradient.draw_survival(made_up.flow(("layer 1",))), 0.01, "horizon: 1% left"),
        (memory.draw_forgetting(made_up.forgetting(("layer 1", "layer 2"))), 0.01, "forgotten: 1% left"),
        (gradient.draw_truncation(made_up.truncation()), 0.01, "error of 1%"),
    ],
)
def test_lines_to_compare_with_are_named_in_the_legend_where_no_curve_lies(
    figure: go.Figure, height: float, says: str
) -> None:
    (line,) = figure.layout.shapes
    assert (line.y0, line.y1) == (height, height)
    assert (line.name, line.showlegend, figure.layout.showlegend) == (says, True, True)
    assert not figure.layout.annotations


def test_scales_of_color_hold_all_numbers_and_their_ticks() -> None:
    for logs in ([-3.9, -1.2], [-9, np.nan, 0], [0.69897, 1.30103], [-4.4, -4.2], [-2.2], [0.0, 0.0]):
        scale = log_colors(logs)
        assert scale["cmin"] <= np.nanmin(logs) <= np.nanmax(logs) <= scale["cmax"]
        assert scale["cmin"] - 1e-9 <= min(scale["colorbar"]["tickvals"])
        assert scale["cmax"] + 1e-9 >= max(scale["colorbar"]["tickvals"])


def test_one_way_between_layers_has_a_scale_too() -> None:
    for figure in (
        gradient.draw_streams(made_up.streams(("layer 1", "layer 2"))),
        gradient.draw_gradient_map(made_up.flow(("layer 1",), 5)),
    ):
        colors = figure.layout.coloraxis
        assert len(colors.colorbar.tickvals) >= 2
        assert colors.cmin <= min(colors.colorbar.tickvals) < max(colors.colorbar.tickvals) <= colors.cmax


def test_shares_are_shown_with_their_signs() -> None:
    shares = made_up.shares()
    for index, curve in enumerate(gradient.draw_step_shares(shares).data):
        near(curve.y, shares.shares[index])


def test_truncation_marks_the_recommended_and_the_used_window() -> None:
    truncation = made_up.truncation()
    figure = gradient.draw_truncation(dataclasses.replace(truncation, bptt=20))
    *layers, whole, recommended, used = figure.data
    for index, curve in enumerate(layers):
        near(curve.x, truncation.windows)
        near(curve.y, truncation.bias[index])
    near(whole.y, truncation.overall)
    assert recommended.x == (truncation.recommended,) * 2
    assert used.x == (20, 20)
    assert len(gradient.draw_truncation(truncation).data) == len(figure.data) - 1
    censored = gradient.draw_truncation(dataclasses.replace(truncation, censored=True))
    assert "at least" in censored.data[-1].name


def test_streams_show_the_matrix() -> None:
    streams = made_up.streams()
    heat = gradient.draw_streams(streams).data[0]
    near(heat.customdata, streams.flows)
    assert heat.z[0][0] is None
    axis = gradient.draw_streams(streams).layout.yaxis
    assert axis.title.text is None  # which would lie over long names
    assert list(axis.ticktext) == [f"through {label}" for label in made_up.LABELS]


@pytest.mark.parametrize(("draw", "field"), [("draw_lag_bands", "products"), ("draw_step_bands", "singular")])
def test_bands_show_all_quantiles(draw: str, field: str) -> None:
    measure = made_up.jacobians()
    values = getattr(measure, field)
    values[1, 1::2] = np.nan
    figure = getattr(jacobians, draw)(measure)
    for index in range(3):
        edges = figure.data[5 * index : 5 * index + 5]
        known = slice(None, None, 2) if index == 1 else slice(None)
        for edge, quantile in zip(edges, (0, 4, 1, 3, 2), strict=True):
            near(edge.customdata, values[index, known, quantile])
            near(edge.x, np.arange(values.shape[1])[known])
        assert [edge.fill for edge in edges] == [None, "tonexty", None, "tonexty", None]


def test_gate_maps_and_histograms_show_every_gate() -> None:
    measure = made_up.gates()
    maps, histograms = gates.draw_gate_maps(measure), gates.draw_gate_histograms(measure)
    for index, gate in enumerate(measure.gates):
        near(maps.data[index].z, gate.units.T)
        heat, mean, whole = histograms.data[3 * index : 3 * index + 3]
        near(heat.z, gate.over_time.T)
        near(mean.y, gate.mean)
        near(whole.x, gate.histogram)
        near(whole.y, gate.edges[:-1] + 0.025)
    assert maps.layout.annotations[0].text == "layer 1: f, keeps"


def test_time_constants_show_the_finite_and_count_the_rest() -> None:
    measure = made_up.time_constants()
    figure = gates.draw_time_constants(measure)
    for bars, one in zip(figure.data, measure.sets, strict=True):
        near(bars.x, np.log10(one.tau[np.isfinite(one.tau)]))
    assert figure.layout.annotations[1].text == "layer 2: by f (and 2 with τ = ∞)"


def test_attenuation_and_activations_show_shares() -> None:
    closed, lost = gates.draw_attenuation(made_up.attenuation()).data
    near(closed.x, [0.37, 0.37])
    near(lost.x, [0.21, 0.21])
    saturated, dead = hidden_units.draw_activations(made_up.activations()).data
    near(saturated.x, [0.12] * 3)
    assert list(saturated.y) == [0, 1, 2]
    near(dead.x, [0.55])
    assert list(dead.y) == [3]


def test_bode_shows_theory_beside_measurement() -> None:
    measure = made_up.frequency()
    data = frequency.draw_bode(measure).data
    for index in range(3):
        curves = data[4 * index : 4 * index + 4]
        for curve, values in zip(curves, (measure.gains, measure.theory, measure.stack, measure.phase), strict=True):
            near(curve.x, measure.omega)
            near(curve.y, values[index])
        assert len({curve.line.color for curve in curves}) == 1


def test_sensitivity_shows_the_kernel_and_each_removal() -> None:
    measure = made_up.sensitivity()
    *removed, whole, delta = memory.draw_sensitivity(measure).data
    for index, curve in enumerate(removed):
        near(curve.customdata, measure.removed[index])
    near(whole.y, measure.kernel)
    near(delta.x, measure.delta)


def test_forgetting_leaves_out_what_reads_backwards() -> None:
    measure = made_up.forgetting()
    data = memory.draw_forgetting(measure).data
    assert len(data) == 4
    for index in range(2):
        near(data[2 * index].y, measure.distance[index])
        near(data[2 * index + 1].x, [measure.horizon[index]])


def test_dependence_shows_chance_and_memory() -> None:
    measure = made_up.dependence()
    shares, noise, needed = memory.draw_dependence(measure).data
    near(shares.y, measure.shares)
    near(noise.y, measure.noise)
    assert needed.x == (18, 18)


def test_lyapunov_shows_the_spectrum() -> None:
    measure = made_up.lyapunov()
    measure.exponents[1][-1] = -np.inf
    for curve, values in zip(dynamics.draw_lyapunov(measure).data, measure.exponents, strict=True):
        near(curve.y, values)
        assert curve.x[0] == 1


def test_eigenvalues_lie_in_the_plane_with_the_unit_circle() -> None:
    measure = made_up.fixed_points()
    figure = fixed_points.draw_eigenvalues(measure)
    for dots, one in zip(figure.data, measure.sets, strict=True):
        near(dots.x, one.eigenvalues.real.ravel())
        near(dots.y, one.eigenvalues.imag.ravel())
        near([row[1] for row in dots.customdata], np.abs(one.eigenvalues).ravel())
        near([row[2] for row in dots.customdata], one.time_constants.ravel())
    circle = figure.layout.shapes[0]
    assert (circle.type, circle.x0, circle.x1, circle.y0, circle.y1) == ("circle", -1, 1, -1, 1)
    assert figure.layout.yaxis.scaleanchor == "x"


def test_marks_of_one_point_have_one_number_in_all_figures() -> None:
    measure = made_up.fixed_points(held=("mean input", "zero input"))
    place: dict[int, float] = {}
    for trace in fixed_points.draw_phase_portrait(measure).select_traces(lambda trace: trace.meta is not None):
        assert trace.meta == {"link": 0}
        place |= {row[0]: row[1] for row in trace.customdata}
    residuals = np.concatenate([one.residual for one in measure.sets])
    assert sorted(place) == list(range(1, len(residuals) + 1))
    near([place[number] for number in sorted(place)], residuals)
    eigenvalues = np.concatenate([one.eigenvalues for one in measure.sets])
    taus = np.concatenate([one.time_constants[:, :8] for one in measure.sets])
    for figure, column, values in (
        (fixed_points.draw_eigenvalues(measure), 1, np.abs(eigenvalues)),
        (fixed_points.draw_modes(measure), 1, taus),
    ):
        marks: dict[int, list[float]] = {}
        for trace in figure.data:
            assert trace.meta == {"link": 0}
            for row in trace.customdata:
                marks.setdefault(row[0], []).append(row[column])
        near(np.array([marks[number] for number in sorted(marks)]), values)


def test_modes_that_grow_are_hollow() -> None:
    measure = made_up.fixed_points(("layer 1",))
    (trace,) = fixed_points.draw_modes(measure).data
    tau = measure.sets[0].time_constants[:, :8].ravel()
    near(trace.y, np.abs(tau))
    assert [symbol.endswith("-open") for symbol in trace.marker.symbol] == (tau < 0).tolist()


def test_phase_portrait_tells_kinds_of_points_apart() -> None:
    measure = made_up.fixed_points(("layer 1",))
    (one,), (portrait,) = measure.sets, measure.portraits
    figure = fixed_points.draw_phase_portrait(measure)
    kinds = {"stable fixed point": [1, 4], "saddle": [2], "slow point": [3], "point on a continuum": [0]}
    for name, which in kinds.items():
        dots = next(figure.select_traces({"name": name}))
        near(dots.x, one.plane[which, 0])
        near(dots.y, one.plane[which, 1])
    symbols = [next(figure.select_traces({"name": name})).marker.symbol for name in kinds]
    assert symbols == ["circle", "circle-open", "diamond", "square"]
    line = next(figure.select_traces({"name": "line attractor"}))
    near(line.x, one.curves[0][:, 0])
    paths = list(figure.select_traces({"name": "path"}))
    near(paths[0].x, portrait.trajectories[0, :80, 0])
    near(paths[1].y, portrait.trajectories[1, :, 1])
    assert sum(bool(trace.showlegend) for trace in figure.data) == 7


def test_participation_shows_spectra() -> None:
    measure = made_up.participation()
    for curve, values in zip(hidden_units.draw_participation(measure).data, measure.spectrum, strict=True):
        near(curve.customdata, values)


def test_surprise_is_read_line_by_line() -> None:
    measure = made_up.surprise()
    heat = text.draw_surprise(measure).data[0]
    flat = np.array(heat.z, dtype=np.float64).ravel()[: len(measure.nats)]
    finite = np.isfinite(measure.nats)
    near(flat[finite], measure.nats[finite])
    assert flat[~finite] == pytest.approx(measure.nats[finite].max(), rel=1e-3)
    words = [word for row in heat.text for word in row]
    assert words[: len(measure.tokens)] == list(measure.tokens)
    assert "inf nats" in [word for row in heat.customdata for word in row][17]
    near(text.draw_surprise_by_position(measure).data[0].y, measure.by_position)


def test_unit_activity_is_shown_over_tokens() -> None:
    measure = made_up.unit_activity(made_up.WORDS * 2, 3)
    heat = text.draw_unit_activity(measure)
    near(heat.data[0].z, measure.values.T)
    assert list(heat.data[0].y) == ["unit 0", "unit 1", "unit 2"]
    assert list(heat.layout.xaxis.ticktext) == list(made_up.WORDS * 2)


def test_token_map_and_dendrogram() -> None:
    states = made_up.token_states(("a", "b", "c", "d"))
    dots = text.draw_token_map(states).data[0]
    near(np.stack([dots.x, dots.y], -1), states.centers2d)
    assert list(dots.text) == ["a", "b", "c", "d"]
    figure = text.draw_dendrogram(states)
    assert list(figure.layout.yaxis.ticktext) == [states.types[leaf] for leaf in states.order]
    joints = np.array(figure.data[0].x, dtype=np.float64).reshape(3, 5)
    near(joints[:, 1], states.linkage[:, 2])
    ends = np.array(figure.data[0].y, dtype=np.float64).reshape(3, 5)
    place = {int(leaf): row for row, leaf in enumerate(states.order)}
    assert [ends[0, 0], ends[0, 2]] == [place[int(leaf)] for leaf in states.linkage[0, :2]]
