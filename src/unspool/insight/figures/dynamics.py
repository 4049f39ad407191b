"""Figures of the dynamics: the Lyapunov spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import REFERENCE, add_spectra, anything, canvas, empty
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.lyapunov import Lyapunov


def draw_lyapunov(lyapunov: Lyapunov) -> go.Figure:
    """The rates at which small changes of the state grow or decay along the trajectory."""
    title = "Lyapunov spectrum"
    if not any(anything(values) for values in lyapunov.exponents):
        return empty(title, "No Lyapunov exponent could be measured.")
    figure = canvas(title, legend=len(lyapunov.labels))
    pairs = zip(lyapunov.labels, lyapunov.largest, strict=True)
    named = "{label} (largest {largest:.3g})"
    names = [Message(named, label=for_figure(label), largest=float(largest)) for label, largest in pairs]
    add_spectra(figure, names, lyapunov.exponents, "exponent %{x}: %{customdata:.3g} nats per step")
    figure.add_hline(y=0, line=REFERENCE)
    figure.update_xaxes(title_text="rank, from the largest")
    figure.update_yaxes(title_text="exponent (nats per step; above 0: chaos)")
    return figure
