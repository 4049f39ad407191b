"""The figure of similarity: CKA and RSA between representations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.insight.figures.canvas import anything, color_bar, empty, numbers, panels
from unspool.insight.figures.theme import distinct
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.similarity import Similarity

#: Columns in whose cells a number can be read.
MOST = 10


def draw_similarity(similarity: Similarity, title: str = "How alike the layers represent the data") -> go.Figure:
    """Two tables: linear CKA, and RSA below it."""
    if not anything(similarity.cka):
        return empty(title, "No representation varies.")
    rows, columns = distinct(similarity.first), distinct(similarity.second)
    figure = panels(title, ("linear CKA", "RSA"), height=50 + min(38 * len(rows), 300))
    for row, values in enumerate((similarity.cka, similarity.rsa), 1):
        figure.add_heatmap(
            x=columns,
            y=rows,
            z=numbers(values),
            text=[[f"{value:.2f}" if len(columns) <= MOST else "" for value in some] for some in values],
            texttemplate="%{text}",
            coloraxis="coloraxis",
            xgap=2,
            ygap=2,
            hovertemplate="%{y} and %{x}: %{z:.3f}<extra></extra>",
            row=row,
            col=1,
        )
    color_bar(figure, Message("1: alike up to a rotation, 0: nothing in common"), cmin=0, cmax=1)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_xaxes(title_text="compared with", row=2, col=1)
    figure.update_yaxes(type="category", showgrid=False, autorange="reversed")
    return figure
