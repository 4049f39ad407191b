"""Figures of the gradient: by time and layer, by lag, by the use of the weights, between layers, truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import (
    Array,
    add_lines,
    anything,
    canvas,
    cells,
    color_bar,
    empty,
    level,
    line,
    log_axis,
    log_colors,
    logarithm,
    numbers,
    raised,
)
from unspool.insight.figures.marks import decay_name, mark_horizon, mark_place, whole_line
from unspool.insight.figures.theme import distinct, style
from unspool.insight.measures.flow import HORIZON
from unspool.insight.measures.truncation import TOLERANCE
from unspool.language import Message, at_least

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.flow import GradientFlow
    from unspool.insight.measures.shares import WeightShares
    from unspool.insight.measures.streams import Streams
    from unspool.insight.measures.truncation import Truncation


def draw_gradient_map(flow: GradientFlow) -> go.Figure:
    """The size of the gradient at each time step of each layer."""
    title = "Gradient by time and layer"
    logs = logarithm(flow.norms)
    if not anything(logs):
        return empty(title, "No gradient reaches any step.")
    rows, columns = cells(*logs.shape)
    figure = canvas(title, height=60 + 36 * len(rows))
    figure.add_heatmap(
        x=columns.tolist(),
        y=distinct(flow.labels[row] for row in rows),
        z=numbers(logs[np.ix_(rows, columns)]),
        customdata=numbers(flow.norms[np.ix_(rows, columns)]),
        coloraxis="coloraxis",
        hovertemplate="%{y}, step %{x}<br>‖∂L/∂s‖ = %{customdata:.3g}<extra></extra>",
    )
    color_bar(figure, "‖∂L/∂s‖, root mean square over sequences", **log_colors(logs))
    figure.update_xaxes(title_text="time step", showgrid=False)
    figure.update_yaxes(showgrid=False, type="category")
    return figure


def draw_survival(flow: GradientFlow) -> go.Figure:
    """What is left of the gradient by lag; a large mark shows the horizon."""
    title = "What is left of the gradient, by lag"
    if not anything(flow.survival):
        return empty(title, "No gradient crosses a time step.")
    figure = canvas(title, legend=1 + len(flow.labels))
    lags = np.arange(flow.survival.shape[1])
    for index, label in enumerate(flow.labels):
        look, entry = style(index), decay_name(for_figure(label), flow.rate[index])
        says = "lag %{x}: %{customdata:.3g} of the gradient is left"
        figure.add_trace(line(lags, flow.survival[index], entry, look, says, log=True))
        horizon = int(flow.horizon[index])
        if 0 <= horizon < len(lags) and np.isfinite(flow.survival[index, horizon]):
            bound = bool(flow.censored[index])
            place = lags[horizon : horizon + 1]
            says = Message("horizon: {bound}%{{x}} steps", bound=at_least(bound))
            mark_horizon(figure, entry, look, place, flow.survival[index, place], bound, says)
    level(figure, HORIZON, Message("horizon: {part:.0%} left", part=HORIZON))
    figure.update_xaxes(title_text="lag (steps back)")
    log_axis(figure, "fraction of the gradient left", flow.survival)
    return figure


def count_steps(norms: Array) -> int:
    """Steps of a layer up to the last that a gradient reaches; norms are zero where the layer has no step."""
    return int(np.flatnonzero(norms).max(initial=-1)) + 1


def draw_step_shares(shares: WeightShares) -> go.Figure:
    """The share of each step in the gradient of the shared weights."""
    title = "Share of each step in the weights' gradient"
    if not anything(shares.shares):
        return empty(title, "The weights get no gradient.")
    figure = canvas(title, legend=len(shares.labels))
    steps = np.arange(shares.shares.shape[1])
    own = np.array([[count_steps(norms)] for norms in shares.norms])
    known = np.where(steps < own, shares.shares, np.nan)  # a decoder may have fewer steps than its encoder
    add_lines(figure, shares.labels, steps, known, "step %{x}: %{customdata:.3~p} of the gradient")
    figure.update_xaxes(title_text="time step")
    figure.update_yaxes(title_text="share (sums to 1)", tickformat=".3~p")
    return figure


def draw_truncation(truncation: Truncation) -> go.Figure:
    """The error of truncated backpropagation by window, with the recommended window and the run's own."""
    title = "Error of the truncated gradient"
    if not anything(truncation.overall):
        return empty(title, "There is no gradient to lose.")
    figure = canvas(title, legend=4 + len(truncation.labels))
    says = "window %{x}: the gradient is off by %{customdata:.3~p}"
    add_lines(figure, truncation.labels, truncation.windows, truncation.bias, says, log=True)
    figure.add_trace(whole_line(truncation.windows, truncation.overall, "all weights", says))
    bound = at_least(truncation.censored)
    heights = raised([np.nanmin(truncation.overall), np.nanmax(truncation.overall)])
    best = Message("recommended window: {bound}{steps}", bound=bound, steps=truncation.recommended)
    marks = [(truncation.recommended, best, "dash")]
    if truncation.bptt is not None:
        marks.append((truncation.bptt, Message("this run's window: {steps}", steps=truncation.bptt), "solid"))
    for place, name, dash in marks:
        mark_place(figure, place, heights, name, dash)
    level(figure, TOLERANCE, Message("error of {part:.0%}", part=TOLERANCE))
    figure.update_xaxes(title_text="window k (steps)")
    log_axis(figure, "‖G − G<sub>k</sub>‖ / ‖G‖", truncation.bias)
    return figure


def draw_streams(streams: Streams) -> go.Figure:
    """The gradient from each layer's input to each layer's output, with no other recurrence between."""
    title = "Gradient between layers and directions"
    if not streams.labels or not anything(streams.flows):
        return empty(title, "No gradient passes between layers.")
    logs = logarithm(streams.flows)
    names = distinct(streams.labels)
    size = len(names)
    figure = canvas(title, height=80 + 40 * size)
    figure.add_heatmap(
        x=names,
        y=names,
        z=numbers(logs),
        customdata=numbers(streams.flows),
        text=[[f"{value:.2g}" if value else "" for value in row] for row in streams.flows],
        texttemplate="%{text}",
        coloraxis="coloraxis",
        xgap=2,
        ygap=2,
        hovertemplate="from %{y} down to %{x}: norm %{customdata:.3g}<extra></extra>",
    )
    color_bar(figure, "norm of the gradient (blank: none)", **log_colors(logs))
    figure.update_xaxes(title_text="reaches the output of", showgrid=False, type="category")
    through = {"tickvals": names, "ticktext": [Message("through {name}", name=name) for name in names]}
    figure.update_yaxes(showgrid=False, type="category", **through)
    return figure
