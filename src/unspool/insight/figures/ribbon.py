"""A text as the model read it, line by line, each token colored by a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import Array, canvas, color_bar, numbers
from unspool.insight.figures.theme import DIVERGING, INK

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Tokens of a text; the rest is left out, as every n-th token would not be a text.
TOKENS = 320
#: Characters of a token in a cell or on an axis.
SHORT = 12
#: Pixels of a line; a narrow screen shows shorter lines, and more of them.
HEIGHT = 26


def draw_ribbon(
    title: str, tokens: Sequence[str], values: Array, hover: Sequence[str], says: str, **colors: Any
) -> go.Figure:
    """A text, each token colored by its value.

    Args:
        title: of the figure.
        tokens: the text; of more than 320 tokens, the first ones are shown.
        values: one per token; NaN is blank.
        hover: what is shown for each token.
        says: what the colors mean.
        colors: of the color axis, such as `cmin` and `colorscale`.

    Returns:
        The figure.
    """
    values, whole = np.asarray(values, dtype=np.float64)[:TOKENS], tokens[:TOKENS]
    usual = np.percentile([len(token) for token in whole], 90)
    across = int(np.clip(64 // (usual + 1), 6, 32))
    lines = -(-len(values) // across)
    filled = np.full(lines * across, np.nan)
    filled[: len(values)] = values
    missing = [""] * (lines * across - len(values))
    figure = canvas(title, height=30 + HEIGHT * lines)
    figure.add_heatmap(
        z=numbers(filled.reshape(lines, across)),
        text=_lines([for_figure(token, SHORT, token=True) for token in whole] + missing, across),
        customdata=_lines([*hover[:TOKENS], *missing], across),
        texttemplate="%{text}",
        textfont_color=INK,
        coloraxis="coloraxis",
        xgap=1,
        ygap=2,
        hoverongaps=False,
        hovertemplate="%{customdata}<extra></extra>",
        meta={"lines": HEIGHT},
    )
    color_bar(figure, says, **colors)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")
    return figure


def both_signs(values: Array) -> dict[str, Any]:
    """Colors for numbers of both signs: zero is gray, and both ends are equally far from it."""
    bound = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return {"cmin": -bound, "cmax": bound, "colorscale": DIVERGING}


def _lines(values: list[str], across: int) -> list[list[str]]:
    return [values[first : first + across] for first in range(0, len(values), across)]
