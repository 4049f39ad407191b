"""Figures of the state-to-state Jacobians: bands of singular values by lag and by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.insight.figures.canvas import (
    LINE,
    REFERENCE,
    Array,
    anything,
    empty,
    log_axis,
    numbers,
    panels,
    picked,
    raised,
)
from unspool.insight.figures.theme import Style, style
from unspool.language import Message, words

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.jacobians import Jacobians

_QUANTILES = ("smallest", "10 %", "median", "90 %", "largest")


def draw_lag_bands(jacobians: Jacobians) -> go.Figure:
    """The factors by which k steps stretch or shrink a change of the state, all directions as bands."""
    return _bands(
        "Stretch of a change of the state, by lag",
        jacobians,
        jacobians.products,
        "lag (steps)",
        "lag %{{x}}, {quantile}: ×%{{customdata:.3g}}<extra></extra>",
    )


def draw_step_bands(jacobians: Jacobians) -> go.Figure:
    """The factors by which each single step stretches or shrinks a change of the state."""
    return _bands(
        "Stretch of a change of the state, by step",
        jacobians,
        jacobians.singular,
        "time step",
        "step %{{x}}, {quantile}: ×%{{customdata:.3g}}<extra></extra>",
    )


def _bands(title: str, jacobians: Jacobians, values: Array, across: str, says: str) -> go.Figure:
    if not jacobians.labels or not anything(values):
        return empty(title, "No Jacobian could be measured.")
    figure = panels(title, jacobians.labels, shared_xaxes=True)
    hovers = [Message(says, quantile=words(quantile)) for quantile in _QUANTILES]
    for index in range(len(jacobians.labels)):
        known = np.flatnonzero(np.isfinite(values[index]).all(-1))  # a wide state is measured at some steps only
        shown = known[picked(len(known), LINE // 2)]
        row = index + 1
        look = style(index)
        for low, high, opacity in ((0, 4, 0.18), (1, 3, 0.35)):
            _edge(figure, row, shown, values[index, shown, low], look, hovers[low])
            _edge(figure, row, shown, values[index, shown, high], look, hovers[high], look.shade(opacity))
        _edge(figure, row, shown, values[index, shown, 2], look, hovers[2], width=2)
        figure.add_hline(y=1, line=REFERENCE, row=row, col=1)
    log_axis(figure, "singular values", values)
    figure.update_xaxes(title_text=across, row=len(jacobians.labels), col=1)
    return figure


def _edge(
    figure: go.Figure,
    row: int,
    shown: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    values: Array,
    look: Style,
    says: str,
    fill: str | None = None,
    width: float = 0.5,
) -> None:
    area = {} if fill is None else {"fill": "tonexty", "fillcolor": fill}
    figure.add_scatter(
        x=shown.tolist(),
        y=numbers(raised(values)),
        customdata=numbers(values),
        mode="lines",
        line={"color": look.color, "width": width},
        hovertemplate=says,
        showlegend=False,
        row=row,
        col=1,
        **area,
    )
