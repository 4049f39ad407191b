"""Figures of chapters, from their descriptions to plotly, in the reader's language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from unspool.insight.figures.canvas import FLOOR, REFERENCE, canvas, color_bar, line, log_axis, numbers
from unspool.insight.figures.theme import PATTERNS, Style, style
from unspool.lab.chapter import Bars, HeatMap, Lines, Mark, Numbers, Series
from unspool.lab.verdict import as_float
from unspool.language import Translator


def draw(figure: Lines | Bars | HeatMap, translate: Translator) -> go.Figure:
    """One figure of a chapter."""
    match figure:
        case Lines():
            return draw_lines(figure, translate)
        case Bars():
            return draw_bars(figure, translate)
        case HeatMap():
            return draw_heat_map(figure, translate)


def draw_lines(figure: Lines, translate: Translator) -> go.Figure:
    """Curves with their intervals as bands."""
    drawing = canvas(translate(figure.title), legend=len(figure.series) + len(figure.marks))
    for number, series in enumerate(figure.series):
        look, name = style(number), translate(series.name)
        if series.low is not None and series.high is not None:
            drawing.add_trace(band(series, look, figure.log_y))
        options: dict[str, Any] = {"mode": "markers"} if figure.points else {}
        says = f"{name}: %{{customdata:.3g}}<br>{translate(figure.x)}: %{{x}}<extra></extra>"
        drawing.add_trace(
            line([*map(as_float, series.x)], values_of(series.y), name, look, says, figure.log_y, **options)
        )
    drawing.update_xaxes(title_text=translate(figure.x), type="log" if figure.log_x else None)
    add_marks(drawing, figure.marks, translate)
    finish_axis(drawing, translate(figure.y), figure.log_y, figure.series, figure.marks)
    return drawing


def band(series: Series, look: Style, log: bool) -> go.Scatter:
    """The interval of a curve, as an area."""
    low, high = values_of(series.low or ()), values_of(series.high or ())
    edge = np.concatenate([high, low[::-1]])
    around = [*series.x, *reversed(series.x)]
    return go.Scatter(
        x=around,
        y=numbers(np.maximum(edge, FLOOR) if log else edge),
        fill="toself",
        fillcolor=look.shade(0.15),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def draw_bars(figure: Bars, translate: Translator) -> go.Figure:
    """Bars beside each other, with the ends of their intervals."""
    drawing = canvas(translate(figure.title), legend=len(figure.series) + len(figure.marks))
    for number, series in enumerate(figure.series):
        look, name = style(number), translate(series.name)
        drawing.add_bar(
            x=[translate(str(group)) for group in series.x],
            y=numbers(values_of(series.y)),
            name=name,
            error_y=error_bars(series),
            marker={"color": look.color, "pattern": {"shape": PATTERNS[number % len(PATTERNS)]}},
            hovertemplate=f"%{{x}}, {name}: %{{y:.3g}}<extra></extra>",
        )
    add_marks(drawing, figure.marks, translate)
    finish_axis(drawing, translate(figure.y), figure.log_y, figure.series, figure.marks)
    drawing.update_layout(barmode="group")
    return drawing


def error_bars(series: Series) -> dict[str, Any] | None:
    """How far the interval of each bar reaches above and below it."""
    if series.low is None or series.high is None:
        return None
    middle, low, high = values_of(series.y), values_of(series.low), values_of(series.high)
    return {"type": "data", "symmetric": False, "array": numbers(high - middle), "arrayminus": numbers(middle - low)}


def draw_heat_map(figure: HeatMap, translate: Translator) -> go.Figure:
    """Values as colors, with a color bar below."""
    drawing = canvas(translate(figure.title), height=max(200, 26 * len(figure.rows)))
    drawing.add_heatmap(
        x=[place_name(place, translate) for place in figure.columns],
        y=[place_name(place, translate) for place in figure.rows],
        z=numbers([values_of(each) for each in figure.values]),
        coloraxis="coloraxis",
        hovertemplate=f"{translate(figure.color)}: %{{z:.3g}}<extra>%{{x}}, %{{y}}</extra>",
    )
    drawing.update_xaxes(title_text=translate(figure.x))
    drawing.update_yaxes(title_text=translate(figure.y), autorange="reversed")
    color_bar(drawing, figure.color)
    drawing.update_layout(title_subtitle_text=translate(drawing.layout.title.subtitle.text))
    return drawing


def place_name(place: Any, translate: Translator) -> Any:
    """The name of a row or column; numbers stay numbers."""
    return translate(place) if isinstance(place, str) else place


def add_marks(drawing: go.Figure, marks: Sequence[Mark], translate: Translator) -> None:
    """Reference lines, named in the legend."""
    for mark in marks:
        add = drawing.add_vline if mark.vertical else drawing.add_hline
        place = {"x": mark.value} if mark.vertical else {"y": mark.value}
        add(**place, line=REFERENCE, name=translate(mark.name), showlegend=True)


def finish_axis(drawing: go.Figure, title: str, log: bool, series: Sequence[Series], marks: Sequence[Mark]) -> None:
    """The title and the scale of the y axis, so that every value and mark is inside."""
    if not log:
        drawing.update_yaxes(title_text=title)
        return
    shown = [values_of(each.y) for each in series]
    log_axis(drawing, title, np.concatenate([*shown, [mark.value for mark in marks if not mark.vertical]]))


def values_of(values: Numbers) -> Any:
    """Numbers of a chapter as an array."""
    return np.array([as_float(value) for value in values], np.float64)
