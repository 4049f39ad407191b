"""Bode plots: gain and phase against frequency, the theory beside the measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from unspool.insight.figures.canvas import anything, empty, line, log_axis, panels
from unspool.insight.figures.theme import plain, style

if TYPE_CHECKING:
    from unspool.insight.measures.frequency import Frequency


def draw_bode(frequency: Frequency) -> go.Figure:
    """Which rhythms of the input pass: of each layer, with the first-order theory, and up the stack with its phase."""
    title = "Frequency response"
    if not frequency.labels or not anything(frequency.gains):
        return empty(title, "No frequency response could be measured.")
    names = (
        "gain of each layer (thin: first-order theory)",
        "gain from the input up to each layer",
        "phase of the same",
    )
    figure = panels(title, names, height=200, legend=len(frequency.labels), shared_xaxes=True)
    thin = {"mode": "lines", "showlegend": False}
    for index, label in enumerate(frequency.labels):
        look = style(index)
        pole = frequency.pole[index]
        name = f"{plain(label)} (a = {pole:.3g})" if np.isfinite(pole) else plain(label)
        marked = {"mode": "markers+lines", "marker": {"symbol": look.symbol, "size": 6}}
        curves = (
            (1, frequency.gains[index], "measured gain %{customdata:.3g} at ω = %{x:.3f}", True, marked),
            (
                1,
                frequency.theory[index],
                "first-order theory %{customdata:.3g} at ω = %{x:.3f}",
                True,
                thin | {"line": {"color": look.color, "width": 1}},
            ),
            (
                2,
                frequency.stack[index],
                "gain %{customdata:.3g} at ω = %{x:.3f}",
                True,
                marked | {"showlegend": False},
            ),
            (
                3,
                frequency.phase[index],
                "phase %{customdata:.3f} rad at ω = %{x:.3f}",
                False,
                marked | {"showlegend": False},
            ),
        )
        for row, values, says, log, options in curves:
            figure.add_trace(line(frequency.omega, values, name, look, says, log=log, **options), row=row, col=1)
    log_axis(figure, "gain", frequency.gains, row=1)
    log_axis(figure, "gain", frequency.stack, row=2)
    figure.update_yaxes(title_text="phase (rad)", row=3)
    halvings = [power for power in range(12) if np.pi / 2**power >= frequency.omega.min() * 0.99]
    figure.update_xaxes(
        type="log",
        tickvals=[float(np.pi / 2**power) for power in halvings],
        ticktext=["π" if power == 0 else f"π/{2**power}" for power in halvings],
    )
    figure.update_xaxes(title_text="ω (rad per step)", row=3, col=1)
    return figure
