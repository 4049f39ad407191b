"""Horizontal bars of shares, one group a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from unspool.insight.figures.canvas import anything, canvas, empty, numbers
from unspool.insight.figures.theme import PATTERNS, plain, style


def draw_bars(title: str, names: Sequence[str], shares: Mapping[str, Sequence[float]], note: str) -> go.Figure:
    """For each name a bar of each kind of share, from 0 to 1; NaN has no bar. `note` is said if there is none."""
    if not names or not any(anything(values) for values in shares.values()):
        return empty(title, note)
    figure = canvas(title, height=40 + 24 * len(shares) * len(names), legend=max(2, len(shares)))
    for index, (kind, values) in enumerate(shares.items()):
        shown = [place for place, value in enumerate(values) if np.isfinite(value)]
        figure.add_bar(
            x=numbers([values[place] for place in shown]),
            y=shown,
            orientation="h",
            name=kind,
            marker={"color": style(index).color, "pattern": {"shape": PATTERNS[index]}},
            hovertemplate="%{x:.3~p}",
        )
    figure.update_xaxes(title_text="share", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=[plain(name) for name in names], showgrid=False)
    figure.update_yaxes(autorange="reversed")
    return figure
