"""Figures of text: surprise and unit activity over tokens, the map and the dendrogram of token states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import (
    OWN_PLANE,
    REFERENCE,
    Array,
    anything,
    canvas,
    cells,
    color_bar,
    empty,
    line,
    numbers,
)
from unspool.insight.figures.ribbon import SHORT, TOKENS, draw_ribbon
from unspool.insight.figures.theme import MARKER, style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.surprise import Surprise
    from unspool.insight.measures.token_states import TokenStates
    from unspool.insight.measures.unit_activity import UnitActivity

_NARROW = (230, 330)  # pixels of the map of tokens on a narrow screen
_LETTER, _WIDE, _LINE = 7, 13, 13  # pixels of a letter, of a Chinese one, and of a line there
_LEFT, _RIGHT = 15, 30  # pixels beside the outermost points that a name may take
_AT_ONCE = 32  # tokens in view before the reader drags


def draw_surprise(surprise: Surprise) -> go.Figure:
    """The text as the model read it, line by line, each token colored by its surprise."""
    title = "Surprise of each token"
    if not len(surprise.nats):
        return empty(title, "No token was predicted.")
    nats = np.asarray(surprise.nats, dtype=np.float64)
    template = "{token}: {value:.3g} nats"
    hover = [
        Message(template, token=for_figure(token, token=True), value=float(value))
        for token, value in zip(surprise.tokens[:TOKENS], nats, strict=False)
    ]
    highest = np.nanmax(nats[:TOKENS], where=np.isfinite(nats[:TOKENS]), initial=0.0)
    filled = np.where(np.isposinf(nats), highest, nats)  # a token of probability 0 gets a color too
    says = Message("surprise in nats (mean {mean:.3g})", mean=float(surprise.mean))
    return draw_ribbon(title, surprise.tokens, filled, hover, says, cmin=0, colorscale=MARKER)


def draw_surprise_by_position(surprise: Surprise) -> go.Figure:
    """The mean surprise at each step, which shows whether more context helps."""
    title = "Surprise by position"
    if not anything(surprise.by_position):
        return empty(title, "No token was predicted.")
    figure = canvas(title, height=240)
    says = "step %{x}: %{customdata:.3g} nats<extra></extra>"
    steps = np.arange(len(surprise.by_position))
    figure.add_trace(line(steps, surprise.by_position, "mean over sequences", style(0), says))
    if np.isfinite(surprise.mean):
        figure.add_hline(y=surprise.mean, line=REFERENCE)
    figure.update_xaxes(title_text="time step")
    figure.update_yaxes(title_text="surprise (nats)", rangemode="tozero")
    return figure


def draw_unit_activity(activity: UnitActivity) -> go.Figure:
    """The activity of some hidden units over a text, which the reader can drag."""
    title = "Activity of hidden units over the text"
    if not len(activity.tokens) or not anything(activity.values):
        return empty(title, "There is no text to show.")
    texts = activity.tokens[:TOKENS]
    units, _ = cells(len(activity.units), len(texts))
    bound = float(np.nanmax(np.abs(activity.values[:, units]), initial=0.0)) or 1.0
    figure = canvas(title, height=60 + 22 * len(units))
    figure.add_heatmap(
        x=list(range(len(texts))),
        y=[Message("unit {number}", number=int(activity.units[place])) for place in units],
        z=numbers(activity.values[: len(texts), units].T),
        text=[[for_figure(token, token=True) for token in texts]] * len(units),
        coloraxis="coloraxis",
        ygap=2,
        hovertemplate="%{y} at %{text}: %{z:.3f}<extra></extra>",
    )
    color_bar(figure, "activity (drag to see more text)", cmin=-bound, cmax=bound)
    short = [for_figure(token, SHORT, token=True) for token in texts]
    figure.update_layout(dragmode="pan")
    figure.update_xaxes(
        tickvals=list(range(len(texts))),
        ticktext=short,
        tickangle=0 if max(map(len, texts)) <= 2 else -90,
        range=[-0.5, min(_AT_ONCE, len(texts)) - 0.5],
        showgrid=False,
        tickfont_size=10,
    )
    figure.update_yaxes(type="category", fixedrange=True, showgrid=False, autorange="reversed")
    return figure


def draw_token_map(states: TokenStates) -> go.Figure:
    """Token types by their mean state; the model treats near ones alike."""
    title = "Map of token states"
    if not len(states.types):
        return empty(title, "There are no tokens to show.")
    names = [for_figure(kind, SHORT, token=True) for kind in states.types]
    places = place_names(np.asarray(states.centers2d, dtype=np.float64), names)
    figure = canvas(title, height=420)
    figure.update_layout(meta=OWN_PLANE)
    figure.add_scatter(
        x=numbers(states.centers2d[:, 0]),
        y=numbers(states.centers2d[:, 1]),
        text=[name if place else "" for name, place in zip(names, places, strict=True)],
        customdata=[[name, count] for name, count in zip(names, np.asarray(states.counts).tolist(), strict=True)],
        mode="markers+text",
        textposition=[place or "top center" for place in places],
        textfont_size=11,
        marker={"color": style(0).color, "size": 6},
        cliponaxis=False,
        hovertemplate="%{customdata[0]}, seen %{customdata[1]} times<extra></extra>",
    )
    if not all(places):
        figure.update_layout(title_subtitle_text="names that would overlap: point at a mark", margin_t=64)
    figure.update_xaxes(title_text="first principal component of the mean states")
    figure.update_yaxes(title_text="second")
    return figure


def place_names(points: Array, names: Sequence[str]) -> list[str | None]:
    """Where each name is written beside its point so that none covers another; None where there is no room."""
    spread = np.ptp(points, axis=0)
    pixels = (points - points.min(0)) / np.where(spread > 0, spread, 1.0) * _NARROW
    taken: list[tuple[float, float, float, float]] = []
    places: list[str | None] = []
    for (x, y), name in zip(pixels.tolist(), names, strict=True):
        across = sum(_WIDE if east_asian_width(letter) in "WF" else _LETTER for letter in name)
        corners = {
            "top center": (x - across / 2, y + 3),
            "bottom center": (x - across / 2, y - 3 - _LINE),
            "middle right": (x + 5, y - _LINE / 2),
            "middle left": (x - 5 - across, y - _LINE / 2),
        }
        boxes = {place: (left, low, left + across, low + _LINE) for place, (left, low) in corners.items()}
        boxes = {place: box for place, box in boxes.items() if box[0] >= -_LEFT and box[2] <= _NARROW[0] + _RIGHT}
        free = next((place for place, box in boxes.items() if not any(_overlap(box, one) for one in taken)), None)
        places.append(free)
        taken += [boxes[free]] if free else []
    return places


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw_dendrogram(states: TokenStates) -> go.Figure:
    """Token types joined by the similarity of their states, the most similar first."""
    title = "Tokens clustered by their states"
    count = len(states.types)
    if count < 2:
        return empty(title, "At least two types of token are needed.")
    height = np.empty(2 * count - 1)
    distance = np.zeros(2 * count - 1)
    height[np.asarray(states.order)] = np.arange(count)
    x: list[float | None] = []
    y: list[float | None] = []
    for joined, (one, other, far, _) in enumerate(states.linkage, count):
        first, second = int(one), int(other)
        height[joined], distance[joined] = (height[first] + height[second]) / 2, far
        x += [*numbers([distance[first], far, far, distance[second]]), None]
        y += [*numbers([height[first], height[first], height[second], height[second]]), None]
    figure = canvas(title, height=60 + 15 * count)
    look = style(0)
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": look.color, "width": 1.5},
        hovertemplate="joined at distance %{x:.3g}<extra></extra>",
    )
    names = [for_figure(states.types[place], SHORT, token=True) for place in np.asarray(states.order)]
    figure.update_yaxes(tickvals=list(range(count)), ticktext=names, showgrid=False, range=[-0.7, count - 0.3])
    figure.update_xaxes(title_text="distance at which clusters join", rangemode="tozero")
    return figure
