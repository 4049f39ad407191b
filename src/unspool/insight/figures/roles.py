"""The figure of one word by role: its states at all occurrences in a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import canvas, numbers
from unspool.insight.figures.theme import style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.roles import Roles


def draw_roles(found: Roles) -> go.Figure:
    """The states of one word at its occurrences, a color and a mark per role; hover shows the context."""
    kinds = list(dict.fromkeys(found.roles))
    title = Message(
        "States of {word} by role (purity {purity:.0%}, by chance {chance:.0%})",
        word=for_figure(found.word, 40, token=True),
        purity=found.purity,
        chance=found.chance,
    )
    figure = canvas(title, height=380, legend=len(kinds))
    for index, kind in enumerate(kinds):
        rows = np.flatnonzero([role == kind for role in found.roles])
        figure.add_scatter(
            x=numbers(found.points2d[rows, 0]),
            y=numbers(found.points2d[rows, 1]),
            text=[for_figure(found.contexts[row], 80) for row in rows],
            mode="markers",
            marker={"color": style(index).color, "symbol": style(index).symbol, "size": 9},
            name=for_figure(kind),
            hovertemplate="%{text}",
        )
    figure.update_xaxes(title_text="first principal component")
    figure.update_yaxes(title_text="second")
    return figure
