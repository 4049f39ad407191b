"""Ranges: one scale for pictures that are looked at side by side, or one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from plotly.graph_objects import Figure

from unspool.insight.figures.canvas import OWN_PLANE
from unspool.insight.figures.ticks import log_ticks, powers

#: Parts of a page's layout by name, each with what all pictures have in common there.
Shared = dict[str, dict[str, Any]]

#: The part of an axis that stays free at both ends.
MARGIN = 0.04


def share_scales(figures: Iterable[Figure]) -> Shared:
    """What all figures of a kind have in common: the range of each axis with numbers, and the range of the colors.

    Args:
        figures: of one kind, such as one per moment of training, or one per run.

    Returns:
        Names of axes, such as `yaxis`, and `coloraxis`, with their settings for `embed_figure`. Planes of principal
        components that have names beside their points keep their own axes.
    """
    figures = list(figures)
    own = any(figure.layout.meta == OWN_PLANE for figure in figures)
    return {**({} if own else _share_axes(figures)), **_share_colors(figures)}


def _share_axes(figures: Sequence[Figure]) -> Shared:
    found: dict[str, list[float]] = {}
    for figure in figures:
        for name, values in _axis_values(figure):
            found.setdefault(name, []).extend(values)
    logarithmic = set().union(*map(_log_axes, figures))
    return {
        name: _axis(min(values), max(values), name in logarithmic and name.startswith("y"))
        for name, values in found.items()
        if values and max(values) > min(values)
    }


def _axis(low: float, high: float, new_ticks: bool) -> dict[str, Any]:
    """A range with a margin; ticks of logarithmic y axes were chosen for each figure, those of x axes fit any range."""
    room = MARGIN * (high - low)
    ticks = log_ticks(low, high) if new_ticks else {}
    return {"range": [low - room, high + room], **ticks}


def _axis_values(figure: Figure) -> Iterator[tuple[str, list[float]]]:
    """What is drawn along each axis: the numbers of traces, reference lines across it, and circles."""
    logarithmic = _log_axes(figure)
    for trace in figure.data:
        for letter in _letters(trace):
            name = f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}"
            yield name, _numbers(trace[letter], name in logarithmic)
    for shape in figure.layout.shapes:
        if shape.type == "line" and shape.y0 == shape.y1 and (shape.yref or "y").startswith("y"):
            name = f"yaxis{(shape.yref or 'y').split()[0][1:]}"
            yield name, _numbers([shape.y0], name in logarithmic)
        elif shape.type == "circle":
            yield f"xaxis{(shape.xref or 'x')[1:]}", _numbers([shape.x0, shape.x1], logarithm=False)
            yield f"yaxis{(shape.yref or 'y')[1:]}", _numbers([shape.y0, shape.y1], logarithm=False)


def _log_axes(figure: Figure) -> set[str]:
    return {
        name
        for name, part in figure.layout.to_plotly_json().items()
        if isinstance(part, dict) and "axis" in name and part.get("type") == "log"
    }


def _letters(trace: Any) -> str:
    """The axes along which a trace has numbers; the height of a histogram is counted by the browser."""
    if trace.type == "bar":
        return "x" if trace.orientation == "h" else "y"
    return {"scatter": "xy", "histogram": "x"}.get(trace.type, "")


def _numbers(values: Any, logarithm: bool) -> list[float]:
    if values is None or any(isinstance(each, str) for each in values):
        return []
    array = np.asarray(values, dtype=np.float64)
    finite = array[np.isfinite(array) & ((array > 0) | (not logarithm))]
    return [float(each) for each in (np.log10(finite) if logarithm else finite)]


def _share_colors(figures: Sequence[Figure]) -> Shared:
    """From the smallest to the largest color of all; of none if they have no common color axis."""
    ends = [found for figure in figures if (found := _color_ends(figure)) is not None]
    if not ends:
        return {}
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    colors: dict[str, Any] = {"cmin": low, "cmax": high}
    if any(figure.layout.coloraxis.colorbar.tickvals is not None for figure in figures):  # of logarithms
        colors["colorbar"] = powers([low, high], most=4)
    return {"coloraxis": colors}


def _color_ends(figure: Figure) -> tuple[float, float] | None:
    """The ends of a figure's color axis: those that it states, else those of its numbers."""
    values = [np.asarray(trace.z, np.float64).ravel() for trace in figure.data if _is_colored(trace)]
    everything = np.concatenate(values) if values else np.zeros(0)
    finite = everything[np.isfinite(everything)]
    if not finite.size:
        return None
    axis = figure.layout.coloraxis
    low = float(finite.min()) if axis.cmin is None else float(axis.cmin)
    return low, float(finite.max()) if axis.cmax is None else float(axis.cmax)


def _is_colored(trace: Any) -> bool:
    return bool(trace.type == "heatmap" and trace.coloraxis == "coloraxis")
