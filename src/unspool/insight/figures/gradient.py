"""Pictures of the gradient: by time and layer, against lag, by the use of the weights, between layers, truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from unspool.insight.figures.canvas import (
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
from unspool.insight.figures.theme import NEUTRAL, Style, distinct, plain, style
from unspool.insight.measures.flow import HORIZON
from unspool.insight.measures.truncation import TOLERANCE

if TYPE_CHECKING:
    from unspool.insight.measures.flow import GradientFlow
    from unspool.insight.measures.shares import WeightShares
    from unspool.insight.measures.streams import Streams
    from unspool.insight.measures.truncation import Truncation


def draw_gradient_map(flow: GradientFlow) -> go.Figure:
    """How strong the gradient is at each time step of each layer."""
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
    color_bar(figure, "‖∂L/∂s‖, root mean square over rows", **log_colors(logs))
    figure.update_xaxes(title_text="time step", showgrid=False)
    figure.update_yaxes(showgrid=False, type="category")
    return figure


def draw_survival(flow: GradientFlow) -> go.Figure:
    """What is left of the gradient after so many steps backwards; a large mark where the horizon is."""
    title = "What is left of the gradient, by lag"
    if not anything(flow.survival):
        return empty(title, "No gradient crosses a time step.")
    figure = canvas(title, legend=1 + len(flow.labels))
    lags = np.arange(flow.survival.shape[1])
    for index, label in enumerate(flow.labels):
        look, name = style(index), plain(label)
        rate = flow.rate[index]
        entry = f"{name} (×{rate:.3g} a step)" if np.isfinite(rate) else name
        says = "lag %{x}: %{customdata:.3g} of the gradient is left"
        figure.add_trace(line(lags, flow.survival[index], entry, look, says, log=True))
        horizon = int(flow.horizon[index])
        if 0 <= horizon < len(lags) and np.isfinite(flow.survival[index, horizon]):
            bound = "at least " if flow.censored[index] else ""
            figure.add_scatter(
                x=[horizon],
                y=numbers(raised(flow.survival[index, horizon : horizon + 1])),
                mode="markers",
                marker={"symbol": "triangle-right" if bound else look.symbol, "size": 13, "color": look.color},
                legendgroup=entry,
                showlegend=False,
                name=entry,
                hovertemplate=f"horizon: {bound}%{{x}} steps",
            )
    level(figure, HORIZON, f"horizon: {HORIZON:.0%} left")
    figure.update_xaxes(title_text="lag (steps backwards)")
    log_axis(figure, "share of the gradient left", flow.survival)
    return figure


def draw_step_shares(shares: WeightShares) -> go.Figure:
    """How much each step's use of the shared weights gives to their gradient."""
    title = "Each step's share of the weights' gradient"
    if not anything(shares.shares):
        return empty(title, "The weights get no gradient.")
    figure = canvas(title, legend=len(shares.labels))
    steps = np.arange(shares.shares.shape[1])
    for index, label in enumerate(shares.labels):
        says = "step %{x}: %{customdata:.3~p} of the gradient"
        figure.add_trace(line(steps, shares.shares[index], plain(label), style(index), says))
    figure.update_xaxes(title_text="time step")
    figure.update_yaxes(title_text="share (sums to 1)", tickformat=".3~p")
    return figure


def draw_truncation(truncation: Truncation, window: int | None = None) -> go.Figure:
    """What truncated backpropagation loses with each window; `window` is the one the run was trained with."""
    title = "What a truncated window loses"
    if not anything(truncation.overall):
        return empty(title, "No gradient, so none can be lost.")
    figure = canvas(title, legend=4 + len(truncation.labels))
    says = "window %{x}: %{customdata:.3~p} of the gradient is lost"
    whole = Style(NEUTRAL, "solid", "circle")
    thick = {"color": NEUTRAL, "width": 4}
    for index, label in enumerate(truncation.labels):
        figure.add_trace(line(truncation.windows, truncation.bias[index], plain(label), style(index), says, log=True))
    figure.add_trace(line(truncation.windows, truncation.overall, "all weights", whole, says, log=True, line=thick))
    bound = "more than " if truncation.censored else ""
    heights = raised([np.nanmin(truncation.overall), np.nanmax(truncation.overall)])
    marks = [(truncation.recommended, f"recommended window: {bound}{truncation.recommended}", "dash")]
    if window is not None:
        marks.append((window, f"this run's window: {window}", "solid"))
    for place, name, dash in marks:
        figure.add_scatter(
            x=[place, place],
            y=numbers(heights),
            mode="lines",
            line={"color": NEUTRAL, "dash": dash, "width": 1.5},
            name=name,
            hovertemplate="<extra>%{fullData.name}</extra>",
        )
    level(figure, TOLERANCE, f"{TOLERANCE:.0%} lost")
    figure.update_xaxes(title_text="window k (steps)")
    log_axis(figure, "‖G − G<sub>k</sub>‖ / ‖G‖", truncation.bias)
    return figure


def draw_streams(streams: Streams) -> go.Figure:
    """How much gradient passes from each unit's input to each unit's output, with no other recurrence between."""
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
    through = {"tickvals": names, "ticktext": [f"through {name}" for name in names]}
    figure.update_yaxes(showgrid=False, type="category", **through)
    return figure
