"""Figures of saliency: how much an output depends on each step of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import REFERENCE, anything, canvas, empty, line
from unspool.insight.figures.ribbon import TOKENS, both_signs, draw_ribbon
from unspool.insight.figures.theme import style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.saliency import Saliency

#: Part of the largest saliency from which a step can be seen.
VISIBLE = 0.02
#: Steps that fit into a figure.
SHORT = 64


def draw_saliency(saliency: Saliency) -> go.Figure:
    """Both saliencies by step."""
    title = "What the output depends on, by step"
    if not anything(saliency.product):
        return empty(title, "The sequence has no steps.")
    figure = canvas(title, legend=2)
    steps = np.arange(len(saliency.product))
    says = "step %{x}: %{customdata:.3g}"
    figure.add_trace(line(steps, saliency.product, "gradient × input", style(0), says, mode="lines"))
    if anything(saliency.removal):
        figure.add_trace(line(steps, saliency.removal, "by removal", style(1), says, mode="lines+markers"))
    figure.add_hline(y=0, line=REFERENCE)
    figure.update_xaxes(title_text="time step", range=_where(saliency))
    figure.update_yaxes(title_text="part of the output")
    return figure


def _where(saliency: Saliency) -> list[float]:
    """The steps from the first to the last that matter, at least a quarter of all; the reader can drag to others."""
    size = np.maximum(np.abs(saliency.product), np.nan_to_num(np.abs(saliency.removal)))
    steps = len(size)
    matter = np.flatnonzero(size >= VISIBLE * size.max(initial=0.0))
    if not len(matter) or steps <= SHORT:
        return [-0.5, steps - 0.5]
    first, last = int(matter[0]), int(matter[-1])
    missing = max(0, steps // 4 - (last - first + 1))
    return [max(0, first - missing) - 0.5, last + 0.5]


def draw_saliency_text(saliency: Saliency, tokens: Sequence[str]) -> go.Figure:
    """The text with the effect of removing each token as color; where it was not removed, gradient × input."""
    title = "What the output depends on, in the text"
    if not len(tokens):
        return empty(title, "There is no text to show.")
    last = slice(max(0, len(tokens) - TOKENS), None)
    values = np.where(np.isfinite(saliency.removal), saliency.removal, saliency.product)[last]
    hover = [
        Message("{token}: {value:.3g}", token=for_figure(token, token=True), value=float(value))
        for token, value in zip(tokens[last], values, strict=True)
    ]
    says = Message("change of the output by this token: orange raises it, blue lowers it")
    return draw_ribbon(title, tokens[last], values, hover, says, **both_signs(values))
