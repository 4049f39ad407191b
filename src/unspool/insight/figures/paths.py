"""The figure of paths: each state of a cell in its own plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.insight.figures.canvas import COLUMNS, anything, empty, numbers, panels, picked
from unspool.insight.figures.theme import style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.paths import Path, Paths


def draw_paths(paths: Paths) -> go.Figure:
    """The states of some sequences in their first two principal components, a panel per state."""
    title = "Paths of the states"
    shown = [path for path in paths.paths if anything(path.points)]
    if not shown:
        return empty(title, "The sequences have no steps.")
    names = [Message("{label}: {state}", label=path.label, state=path.state) for path in shown]
    figure = panels(title, names, height=260)
    for row, path in enumerate(shown, 1):
        _draw_path(figure, row, path)
    return figure


def _draw_path(figure: go.Figure, row: int, path: Path) -> None:
    for index, points in enumerate(path.points):
        live = np.flatnonzero(np.isfinite(points).all(-1))
        chosen = live[picked(len(live), COLUMNS // 2)]
        figure.add_scatter(
            x=numbers(points[chosen, 0]),
            y=numbers(points[chosen, 1]),
            customdata=chosen.tolist(),
            mode="lines",
            line={"color": style(index).color, "width": 1},
            showlegend=False,
            hovertemplate=Message("sequence {number}, step %{{customdata}}<extra></extra>", number=index),
            row=row,
            col=1,
        )
    named = "component {axis} ({part:.0%} of the variance)"
    axes = [Message(named, axis=axis, part=float(np.nan_to_num(part))) for axis, part in enumerate(path.explained, 1)]
    figure.update_xaxes(title_text=axes[0], row=row, col=1)
    figure.update_yaxes(title_text=axes[1], row=row, col=1)
