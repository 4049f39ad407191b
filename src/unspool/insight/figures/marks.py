"""What curves are compared with: a horizon, a place on the axis, the whole model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.insight.figures.canvas import Array, line, numbers, raised
from unspool.insight.figures.theme import NEUTRAL, Style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go


def decay_name(name: str, rate: float) -> str:
    """A curve's entry in the legend, with the factor per step if it is known."""
    return Message("{name} (×{rate:.3g} per step)", name=name, rate=float(rate)) if np.isfinite(rate) else name


def mark_horizon(
    figure: go.Figure, entry: str, look: Style, place: NDArray[np.generic], height: Array, bound: bool, says: str
) -> None:
    """A large mark on the curve `entry` at its horizon; a triangle if the horizon is only a lower bound.

    Args:
        figure: gets the mark.
        entry: the curve's name.
        look: its style.
        place: the horizon on the x axis; nothing is drawn if empty.
        height: the curve there.
        bound: whether the horizon is only a lower bound.
        says: the hover text, in which %{x} is the horizon.
    """
    figure.add_scatter(
        x=numbers(place),
        y=numbers(raised(height)),
        mode="markers",
        marker={"symbol": "triangle-right" if bound else look.symbol, "size": 13, "color": look.color},
        legendgroup=entry,
        showlegend=False,
        name=entry,
        hovertemplate=says,
    )


def mark_place(figure: go.Figure, place: float, heights: ArrayLike, name: str, dash: str = "dash") -> None:
    """A vertical line between two heights, named in the legend."""
    figure.add_scatter(
        x=[place, place],
        y=numbers(heights),
        mode="lines",
        line={"color": NEUTRAL, "dash": dash, "width": 1.5},
        name=name,
        hovertemplate="<extra>%{fullData.name}</extra>",
    )


def whole_line(x: ArrayLike, y: ArrayLike, name: str, says: str) -> go.Scatter:
    """The thick curve of a whole model, beside those of its layers, on a logarithmic axis."""
    look = Style(NEUTRAL, "solid", "circle")
    return line(x, y, name, look, says, log=True, line={"color": NEUTRAL, "width": 4})
