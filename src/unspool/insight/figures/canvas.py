"""What all figures are built from: an empty canvas, panels, curves, and numbers thinned and rounded.

A line keeps at most LINE points and the heat maps of a figure together at most CELLS cells, by picking every n-th;
numbers keep four significant digits. On logarithmic axes, values below FLOOR are drawn at FLOOR; the hover shows them.

plotly is imported by what makes figures and traces, so that a report without a page does not need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.harmless import for_figure
from unspool.insight.figures.theme import NEUTRAL, SEQUENTIAL, Style, style, themed
from unspool.insight.figures.ticks import find_ends, log_ticks, powers
from unspool.language import Message, words

if TYPE_CHECKING:
    import plotly.graph_objects as go

LINE = 800
COLUMNS = 400
CELLS = COLUMNS * 128
FLOOR = 1e-12

Array = NDArray[np.float64]

#: `meta` of a figure whose axes have no meaning in another one, and whose names have room on these axes only.
OWN_PLANE = "own plane"
#: The line of a reference value.
REFERENCE = {"color": NEUTRAL, "dash": "dot", "width": 1.5}

_TOP, _BOTTOM, _LEGEND = 44, 44, 24  # pixels: the title, the axis below, a line of the legend


def numbers(values: ArrayLike) -> Any:
    """Values as numbers with four significant digits, None for what is not finite: a list, of several axes an array.

    plotly copies nested lists number by number, several times; arrays of objects it takes as they are.
    """
    array = np.asarray(values, dtype=np.float64)
    rounded = [float(f"{value:.4g}") if math.isfinite(value) else None for value in array.ravel().tolist()]
    return rounded if array.ndim == 1 else np.array(rounded, dtype=object).reshape(array.shape)


def picked(count: int, limit: int) -> NDArray[np.int64]:
    """Which of `count` places to show: every n-th, from the first, with the smallest n that gives at most `limit`."""
    return np.arange(0, count, max(1, -(-count // max(1, limit))), dtype=np.int64)


def cells(rows: int, columns: int, maps: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows and columns each of `maps` heat maps of a figure shows, so that all have at most CELLS cells."""
    shown = picked(rows, 128)
    return shown, picked(columns, max(8, min(COLUMNS, CELLS // (max(1, maps) * max(1, len(shown))))))


def raised(values: ArrayLike) -> Array:
    """Values for a logarithmic axis: at least FLOOR; NaN stays."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(array < FLOOR, FLOOR, array)


def logarithm(values: ArrayLike) -> Array:
    """The decimal logarithm for colors; NaN, which is left blank, for zero and for what is not finite."""
    array = np.asarray(values, dtype=np.float64)
    fine = np.isfinite(array) & (array > 0)
    return np.where(fine, np.log10(np.where(fine, array, 1.0)), np.nan)


def log_colors(values: ArrayLike) -> dict[str, Any]:
    """Options of `color_bar` for logarithms: from the smallest to the largest, with at least two ticks."""
    ends = find_ends(values)
    return {} if ends is None else {"cmin": ends[0], "cmax": ends[1], "colorbar": powers(ends, most=4)}


def anything(values: ArrayLike) -> bool:
    """Whether there is a finite number to draw."""
    return bool(np.isfinite(np.asarray(values, dtype=np.float64)).any())


def canvas(title: str, height: int = 340, legend: int = 0) -> go.Figure:
    """A figure with a title and nothing else; `legend` is the number of entries, for which there is room below."""
    from plotly.graph_objects import Figure

    return _framed(Figure(), title, height, legend)


def panels(title: str, names: Sequence[str], height: int = 150, legend: int = 0, **options: Any) -> go.Figure:
    """A figure with panels below each other, each under its name; `height` is that of one panel."""
    from plotly.subplots import make_subplots

    count = max(1, len(names))
    gap = 34 if options.get("shared_xaxes") else 76
    whole = count * height + (count - 1) * gap
    columns = len(options.get("column_widths", (1,)))
    titles = [title for name in names for title in (for_figure(name, 60), *[""] * (columns - 1))]
    spacing = 0 if count == 1 else gap / whole
    figure = make_subplots(rows=count, cols=columns, subplot_titles=titles, vertical_spacing=spacing, **options)
    sides = [axis.domain[0] for axis in figure.select_xaxes(col=1)]
    for annotation, side in zip(figure.layout.annotations, sides, strict=False):
        annotation.update(x=side, xanchor="left", font_size=12)
    _framed(figure, title, whole + 18, legend)
    figure.update_layout(margin_t=_TOP + 18)
    return figure


def empty(title: str, note: str) -> go.Figure:
    """A figure that says why there is nothing to draw."""
    figure = canvas(title, height=120)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(text=note, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, font_color=NEUTRAL)
    return figure


def _framed(figure: go.Figure, title: str, height: int, legend: int) -> go.Figure:
    room = _LEGEND * min(6, legend) if legend > 1 else 0
    figure.update_layout(
        title={"text": title, "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 8}},
        height=height + _TOP + _BOTTOM + room,
        margin={"l": 8, "r": 26, "t": _TOP, "b": _BOTTOM},
        showlegend=legend > 1,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        hovermode="closest",
    )
    return themed(figure, dark=False)


def line(
    x: ArrayLike, y: ArrayLike, name: str, look: Style, says: str, log: bool = False, **options: Any
) -> go.Scatter:
    """A curve with its style; `says` is the hover text, in which %{customdata} is the measured number."""
    from plotly.graph_objects import Scatter

    across, up = np.asarray(x), np.asarray(y, dtype=np.float64)
    shown = picked(len(up), LINE)
    settings: dict[str, Any] = {
        "mode": "lines+markers" if len(shown) <= 40 else "lines",
        "line": {"color": look.color, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.symbol, "size": 6},
        "legendgroup": name,
    }
    return Scatter(
        x=numbers(across[shown]),
        y=numbers(raised(up[shown]) if log else up[shown]),
        customdata=numbers(up[shown]),
        name=name,
        hovertemplate=says,
        **(settings | options),
    )


def add_lines(
    figure: go.Figure,
    labels: Sequence[str],
    x: ArrayLike,
    rows: Sequence[ArrayLike] | Array,
    says: str,
    log: bool = False,
) -> None:
    """A curve for each layer, each in its own style."""
    for index, (label, values) in enumerate(zip(labels, rows, strict=True)):
        figure.add_trace(line(x, values, for_figure(label), style(index), says, log=log))


def add_spectra(
    figure: go.Figure, names: Sequence[str], spectra: Sequence[Array], says: str, log: bool = False
) -> None:
    """A curve for each layer over ranks from 1; layers may have different numbers of them."""
    for index, (name, values) in enumerate(zip(names, spectra, strict=True)):
        figure.add_trace(line(np.arange(1, len(values) + 1), values, name, style(index), says, log=log))


def color_bar(figure: go.Figure, says: str, **options: Any) -> None:
    """One color scale for all heat maps of a figure, with its bar below; the subtitle explains it by `says`."""
    bar = {
        "orientation": "h",
        "thickness": 10,
        "yref": "container",
        "y": 0,
        "yanchor": "bottom",
        "x": 0,
        "xanchor": "left",
        "len": 0.6,
    } | options.pop("colorbar", {})
    figure.update_layout(
        coloraxis={"colorscale": SEQUENTIAL, "colorbar": bar} | options,
        title_subtitle_text=Message("color: {says}", says=says if isinstance(says, Message) else words(says)),
        height=figure.layout.height + 60,
        margin={"t": figure.layout.margin.t + 20, "b": _BOTTOM + 40},
    )


def log_axis(figure: go.Figure, title: str, values: ArrayLike, **place: Any) -> None:
    """A logarithmic y axis for these values and the reference lines of the figure, with ticks at round numbers."""
    lines = [shape.y0 for shape in figure.layout.shapes if shape.type == "line" and shape.y0 == shape.y1]
    ends = find_ends(logarithm(raised(np.append(np.asarray(values, dtype=np.float64), lines))))
    figure.update_yaxes(type="log", title_text=title, **({} if ends is None else log_ticks(*ends)), **place)


def level(figure: go.Figure, height: float, text: str) -> None:
    """A horizontal reference line, named in the legend, as a note beside it would be hidden by curves."""
    figure.add_hline(y=height, line=REFERENCE, name=text, showlegend=True)
