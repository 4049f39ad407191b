"""Bode plots: gain and phase by frequency, with theory beside the measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import anything, empty, line, log_axis, panels
from unspool.insight.figures.theme import style
from unspool.insight.measures.frequency import FITS
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.frequency import Frequency


def draw_bode(frequency: Frequency) -> go.Figure:
    """Which frequencies pass each layer, with the first-order theory, and the stack up to it, with its phase."""
    title = "Frequency response"
    if not frequency.labels or not anything(frequency.gains):
        return empty(title, "No frequency response could be measured.")
    names = (
        "gain of each layer (thin: first-order theory)",
        "gain from the input up to each layer",
        "phase from the input up to each layer",
    )
    figure = panels(title, names, height=200, legend=len(frequency.labels), shared_xaxes=True)
    for index in range(len(frequency.labels)):
        _draw_layer(figure, frequency, index)
    log_axis(figure, "gain", frequency.gains, row=1)
    log_axis(figure, "gain", frequency.stack, row=2)
    figure.update_yaxes(title_text="phase (rad)", row=3)
    _name_frequencies(figure, float(frequency.omega.min()))
    figure.update_xaxes(title_text="ω (rad per step)", row=3, col=1)
    return figure


def _name_frequencies(figure: go.Figure, lowest: float) -> None:
    """A logarithmic axis with ticks at π, π/2, π/4, … down to the lowest frequency."""
    halvings = [power for power in range(12) if np.pi / 2**power >= lowest * 0.99]
    figure.update_xaxes(
        type="log",
        tickvals=[float(np.pi / 2**power) for power in halvings],
        ticktext=["π" if power == 0 else f"π/{2**power}" for power in halvings],
    )


def _draw_layer(figure: go.Figure, frequency: Frequency, index: int) -> None:
    """The four curves of one layer, of which the first is in the legend."""
    look, label, pole = style(index), for_figure(frequency.labels[index]), frequency.pole[index]
    fits = bool(frequency.error[index] <= FITS)
    name = Message("{label} (a = {pole:.3g})", label=label, pole=float(pole)) if fits else label
    theory = frequency.theory if fits else np.full_like(frequency.theory, np.nan)
    marked: dict[str, Any] = {"mode": "markers+lines", "marker": {"symbol": look.symbol, "size": 6}}
    unnamed = marked | {"showlegend": False}
    thin = {"mode": "lines", "showlegend": False, "line": {"color": look.color, "width": 1}}
    curves = (
        (1, frequency.gains, "measured gain %{customdata:.3g} at ω = %{x:.3f}", True, marked),
        (1, theory, "first-order theory %{customdata:.3g} at ω = %{x:.3f}", True, thin),
        (2, frequency.stack, "gain %{customdata:.3g} at ω = %{x:.3f}", True, unnamed),
        (3, frequency.phase, "phase %{customdata:.3f} rad at ω = %{x:.3f}", False, unnamed),
    )
    for row, values, says, log, options in curves:
        figure.add_trace(line(frequency.omega, values[index], name, look, says, log=log, **options), row=row, col=1)
