"""The figures of a sweep's page: importance, parallel coordinates, curves, cost against quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import canvas, empty, numbers
from unspool.insight.figures.theme import NEUTRAL, style
from unspool.settings.search import Choices, Space
from unspool.sweeps.course import Row
from unspool.sweeps.progress import show_number, show_settings, show_value
from unspool.sweeps.searching import Snapshot

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Ticks of a setting that is a range of numbers.
TICKS = 5
#: How faint the lines of trials are that are not the best.
FAINT = 0.35


def draw_importance(importance: Mapping[str, float]) -> go.Figure:
    """How much of the differences between trials each setting explains."""
    title = "Importance of the settings"
    if not importance:
        return empty(title, "Too few trials are finished, or all are equal.")
    ordered = sorted(importance.items(), key=lambda item: item[1])
    figure = canvas(title, height=max(120, 34 * len(ordered)))
    figure.add_bar(
        x=numbers([value for _, value in ordered]),
        y=[name for name, _ in ordered],
        orientation="h",
        marker={"color": style(0).color},
        hovertemplate="%{y}: %{x:.0%}<extra></extra>",
    )
    figure.update_xaxes(title_text="share of the differences between trials", tickformat=".0%", rangemode="tozero")
    return figure


def draw_parallel(sweep: Snapshot) -> go.Figure:
    """Each trial as a line through its settings to its metric; the best one stands out."""
    rows = [row for row in sweep.rows if row.value is not None]
    title = f"Settings of all trials, and their {sweep.goal.metric}"
    if not rows:
        return empty(title, "No trial was evaluated.")
    figure = canvas(title, height=380)
    names = [*sweep.spaces, sweep.goal.metric]
    ends = _ends([row.value for row in rows if row.value is not None])
    for row in sorted(rows, key=sweep.goal.rank, reverse=True):
        heights = [place_of(sweep.spaces[name], row.settings[name]) for name in sweep.spaces]
        _add_line(figure, names, [*heights, _share(row.value or 0.0, *ends)], row, sweep)
    for name, space in sweep.spaces.items():
        _add_ticks(figure, name, ticks_of(space))
    _add_ticks(figure, sweep.goal.metric, [(0.0, show_number(ends[0])), (1.0, show_number(ends[1]))])
    figure.update_xaxes(range=[-0.2, len(names) - 0.5], showgrid=True, zeroline=False)
    figure.update_yaxes(visible=False, range=[-0.05, 1.05])
    return figure


def _add_line(figure: go.Figure, names: Sequence[str], heights: Sequence[float], row: Row, sweep: Snapshot) -> None:
    best = sweep.best is not None and row.number == sweep.best.number
    look = style(1 if best else 0)
    figure.add_scatter(
        x=list(names),
        y=numbers(heights),
        mode="lines+markers",
        line={"color": look.color if best else look.shade(FAINT), "width": 3 if best else 1.5},
        marker={"size": 7 if best else 4},
        hovertemplate=f"{_hover(row, sweep)}<extra></extra>",
    )


def _hover(row: Row, sweep: Snapshot) -> str:
    reached = f"{sweep.goal.metric} {show_number(row.value)}, {row.course.seconds:.1f} s"
    settings = for_figure(show_settings(row.settings), 200).replace(", ", "<br>")
    return f"trial {row.number}, {row.state}<br>{reached}<br>{settings}"


def _add_ticks(figure: go.Figure, name: str, ticks: Sequence[tuple[float, str]]) -> None:
    """Values beside an axis."""
    for height, text in ticks:
        figure.add_annotation(
            x=name,
            y=height,
            text=for_figure(text, 24),
            showarrow=False,
            xanchor="left",
            xshift=6,
            yshift=7,  # clear of the lines that meet there
            font={"size": 10, "color": NEUTRAL},
        )


def place_of(space: Space, value: Any) -> float:
    """Where a value lies between the lowest, 0, and the highest, 1, of a setting."""
    if isinstance(space, Choices):
        values = list(space.values)
        return values.index(value) / max(1, len(values) - 1) if value in values else math.nan
    return (
        _share(math.log(value), math.log(space.low), math.log(space.high))
        if space.log
        else _share(value, space.low, space.high)
    )


def ticks_of(space: Space) -> list[tuple[float, str]]:
    """Places along a setting, and the values there."""
    if isinstance(space, Choices):
        return [(place_of(space, value), show_value(value)) for value in space.values]
    places = [number / (TICKS - 1) for number in range(TICKS)]
    if space.log:
        values = [space.low * (space.high / space.low) ** place for place in places]
    else:
        values = [space.low + place * (space.high - space.low) for place in places]
    return [(place, f"{value:.3g}") for place, value in zip(places, values, strict=True)]


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def draw_curves(sweep: Snapshot) -> go.Figure:
    """The metric of each trial over its training; the best one stands out."""
    metric = sweep.goal.metric
    title = f"{metric.capitalize()} on validation data during training"
    rows = [row for row in sweep.rows if row.course.evaluated]
    if not rows:
        return empty(title, "No trial was evaluated.")
    figure = canvas(title)
    for row in sorted(rows, key=sweep.goal.rank, reverse=True):
        best = sweep.best is not None and row.number == sweep.best.number
        look = style(1 if best else 0)
        figure.add_scatter(
            x=numbers([one["epoch"] for one in row.course.evaluated]),
            y=numbers(row.course.curve(metric)),
            mode="lines",
            line={
                "color": look.color if best else look.shade(FAINT),
                "width": 3 if best else 1.5,
                "dash": "dot" if row.state == "pruned" else "solid",
            },
            hovertemplate=f"trial {row.number}, {row.state}: %{{y:.4g}}<br>epoch %{{x:.3g}}<extra></extra>",
        )
    figure.update_xaxes(title_text="epochs")
    figure.update_yaxes(title_text=metric)
    return figure


def draw_cost(sweep: Snapshot) -> go.Figure:
    """What each trial cost and reached; the line joins those that nothing cheaper beats."""
    metric = sweep.goal.metric
    title = f"Training time against {metric}"
    rows = [row for row in sweep.rows if row.state == "finished" and row.value is not None]
    if not rows:
        return empty(title, "No trial is finished.")
    figure = canvas(title, legend=2)
    front = find_front(rows, sweep.goal.more_is_better)
    drawn = (("trials", rows, "markers"), ("best for its cost", front, "lines+markers"))
    for number, (name, shown, mode) in enumerate(drawn):
        look = style(number)
        figure.add_scatter(
            x=numbers([row.course.seconds for row in shown]),
            y=numbers([row.value or 0.0 for row in shown]),
            text=[_hover(row, sweep) for row in shown],
            name=name,
            mode=mode,
            line={"color": look.color, "shape": "hv"},
            marker={"color": look.color, "symbol": look.symbol, "size": 9},
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(title_text="seconds of training", rangemode="tozero")
    figure.update_yaxes(title_text=metric)
    return figure


def find_front(rows: Sequence[Row], more_is_better: bool) -> list[Row]:
    """The trials that no cheaper one equals, from the cheapest on."""
    sign = 1 if more_is_better else -1
    front: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.course.seconds, row.number)):
        if not front or sign * (row.value or 0.0) > sign * (front[-1].value or 0.0):
            front.append(row)
    return front
