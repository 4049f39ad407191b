"""Horizontal bars of fractions, one group per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import anything, canvas, empty, numbers
from unspool.insight.figures.theme import PATTERNS, style

if TYPE_CHECKING:
    import plotly.graph_objects as go


def draw_bars(title: str, names: Sequence[str], fractions: Mapping[str, Sequence[float]], note: str) -> go.Figure:
    """For each name a bar of each kind of fraction, from 0 to 1; NaN has no bar. `note` says why there is no bar."""
    if not names or not any(anything(values) for values in fractions.values()):
        return empty(title, note)
    figure = canvas(title, height=40 + 24 * len(fractions) * len(names), legend=max(2, len(fractions)))
    for index, (kind, values) in enumerate(fractions.items()):
        _draw_kind(figure, index, kind, values)
    figure.update_xaxes(title_text="fraction", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=[for_figure(name) for name in names], showgrid=False)
    figure.update_yaxes(autorange="reversed")
    return figure


def _draw_kind(figure: go.Figure, index: int, kind: str, values: Sequence[float]) -> None:
    shown = [place for place, value in enumerate(values) if np.isfinite(value)]
    figure.add_bar(
        x=numbers([values[place] for place in shown]),
        y=shown,
        orientation="h",
        name=kind,
        marker={"color": style(index).color, "pattern": {"shape": PATTERNS[index]}},
        texttemplate="%{x:.0%}",  # a bar of 0 is not seen otherwise
        textposition="auto",
        textangle=0,
        cliponaxis=False,
        hovertemplate="%{x:.3~p}",
    )
