"""Figures of theory: cost against attention, depth and accuracy, filter and smoother."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from unspool.insight.figures.canvas import anything, canvas, empty, line, log_axis, numbers, panels
from unspool.insight.figures.theme import NEUTRAL, PATTERNS, style

if TYPE_CHECKING:
    from unspool.lab.theory.cost import Cost
    from unspool.lab.theory.depth import Depth
    from unspool.lab.theory.smoothing import Smoothing


def draw_cost(cost: Cost) -> go.Figure:
    """The cost of a training step by the length of the sequence: recurrence (linear) against attention (quadratic)."""
    title = "Cost by length: recurrence and attention"
    if not len(cost.steps):
        return empty(title, "No length was measured.")
    figure = panels(title, ("time of a training step", "memory kept for the backward pass"), height=200, legend=2)
    kinds = (
        (1, cost.rnn_seconds, cost.attention_seconds, cost.time, "%{customdata:.3~s}s at T = %{x}"),
        (2, cost.rnn_bytes, cost.attention_bytes, cost.memory, "%{customdata:.3~s}B at T = %{x}"),
    )
    for row, recurrent, attentive, fits, says in kinds:
        measured = (("recurrence", recurrent), ("attention", attentive))
        for index, ((name, values), fit) in enumerate(zip(measured, fits.at(cost.steps.tolist()), strict=True)):
            look, first = style(index), row == 1
            dots: dict[str, Any] = {
                "mode": "markers",
                "showlegend": first,
                "marker": {"symbol": look.symbol, "color": look.color, "size": 8},
            }
            figure.add_trace(line(cost.steps, values, name, look, says, **dots), row=row, col=1)
            theory: dict[str, Any] = {"mode": "lines", "showlegend": False}
            figure.add_trace(line(cost.steps, fit, name, look, f"fit: {says}", **theory), row=row, col=1)
    if cost.crossing is not None and cost.crossing > 0:
        figure.layout.title.subtitle.text = f"attention takes more time from T = {cost.crossing:.0f}"
        figure.update_layout(margin_t=82, height=figure.layout.height + 20)
    figure.update_xaxes(type="log", title_text="length T (steps)", tickvals=cost.steps.tolist())
    log_axis(figure, "seconds", [cost.rnn_seconds, cost.attention_seconds], row=1)
    log_axis(figure, "bytes", [cost.rnn_bytes, cost.attention_bytes], row=2)
    return figure


def draw_depth(depth: Depth) -> go.Figure:
    """The trade-off A(N) at each depth, with this network's depth and the optimum."""
    optimum = depth.optimum if np.isfinite(depth.optimum) else 0.0
    depths = np.linspace(1, max(depth.effective, int(np.ceil(2 * optimum)), 6), 101)
    figure = canvas("Depth and its trade-off", height=280)
    says = "effective depth %{x:.2~f}: A = %{customdata:.3g}<extra></extra>"
    figure.add_trace(line(depths, depth.accuracy(depths), "A(N)", style(0), says))
    marks = (
        (float(depth.effective), f"this network: {depth.effective}", "solid", 0.1),
        (optimum, f"optimum: {optimum:.3g}", "dash", 0.22),
    )
    for place, text, dash, height in marks:
        if place > 0:
            figure.add_vline(
                x=place,
                line={"color": NEUTRAL, "dash": dash, "width": 1.5},
                annotation={"text": text, "font_size": 11, "y": height},
                annotation_position="top right",
            )
    figure.update_xaxes(title_text="effective depth N")
    figure.update_yaxes(title_text="A(N)")
    return figure


def draw_smoothing(smoothing: Smoothing) -> go.Figure:
    """Errors of a forward and a bidirectional network beside those of the optimal filter and smoother."""
    title = "Filter, smoother and networks"
    names = (
        "no readings",
        "forward: network",
        "forward: optimum (Kalman)",
        "bidirectional: network",
        "bidirectional: optimum (RTS)",
    )
    values = (
        smoothing.prior,
        smoothing.forward,
        smoothing.kalman_measured,
        smoothing.bidirectional,
        smoothing.rts_measured,
    )
    if not anything(values):
        return empty(title, "No error was measured.")
    figure = canvas(title, height=190)
    looks = (2, 0, 1, 0, 1)
    figure.add_bar(
        x=numbers(values),
        y=list(names),
        orientation="h",
        marker={
            "color": [style(look).color for look in looks],
            "pattern": {"shape": [PATTERNS[look] for look in looks]},
        },
        hovertemplate="%{y}: %{x:.3g}<extra></extra>",
    )
    figure.update_xaxes(title_text="mean squared error of the state")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure
