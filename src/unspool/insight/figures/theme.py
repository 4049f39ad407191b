"""The look of every figure: colors, fonts, line styles, and the light and the dark template.

The categorical colors are those of Okabe and Ito, which color-blind people can distinguish, with a lighter blue, as
theirs is faint on black; each series also has its own dash and marker, for print in gray. Backgrounds are transparent
and neutral lines mid-gray, so that a figure works on white and on black. Only the template changes, by `themed` or in
the browser by `Plotly.relayout` with `RELAYOUT`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.harmless import for_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Style(NamedTuple):
    """What distinguishes one series from the others."""

    color: str
    dash: str
    symbol: str

    def shade(self, opacity: float) -> str:
        """The color with an opacity."""
        red, green, blue = (int(self.color[place : place + 2], 16) for place in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


_COLORS = ("#1F83C9", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
#: Fills of bars, for print in gray.
PATTERNS = ("", "/", ".", "x", "-", "+")
#: For numbers from small to large; its lightness is uniform, so that it works in gray.
SEQUENTIAL = "Cividis"
#: The same behind black letters.
MARKER = ((0.0, "#f3f3f3"), (0.5, "#fdc983"), (1.0, "#e8762c"))
#: Numbers of both signs behind black letters: below zero blue, above it orange.
DIVERGING = ((0.0, "#5fa9dd"), (0.5, "#f3f3f3"), (1.0, "#e8762c"))
#: Letters on those.
INK = "#1b1f24"
#: For reference lines: readable on white and on black.
NEUTRAL = "#808080"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


def style(index: int) -> Style:
    """The style of the series with this number; the first 42 are all different."""
    turn = index // len(_COLORS)
    return Style(
        _COLORS[index % len(_COLORS)],
        _DASHES[(index + turn) % len(_DASHES)],
        _SYMBOLS[index % len(_SYMBOLS)],
    )


def _template(text: str, faint: str, grid: str, line: str, label: str) -> dict[str, Any]:
    axis = {
        "gridcolor": grid,
        "linecolor": line,
        "tickcolor": line,
        "zerolinecolor": grid,
        "zerolinewidth": 1,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickfont": {"size": 11, "color": faint},
        "title": {"font": {"size": 12, "color": text}, "standoff": 8},
        "automargin": True,
        "exponentformat": "power",
    }
    bar = {
        "outlinewidth": 0,
        "tickfont": {"size": 11, "color": faint},
        "title": {"font": {"size": 12, "color": text}},
        "exponentformat": "power",
    }
    layout = {
        "font": {"family": _FONT, "size": 12, "color": text},
        "title": {
            "font": {"size": 15, "color": text},
            "x": 0,
            "xanchor": "left",
            "xref": "container",
            "subtitle": {"font": {"size": 12, "color": faint}},
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": axis,
        "yaxis": axis,
        "coloraxis": {"colorbar": bar},
        "legend": {"font": {"size": 12, "color": text}, "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": label, "bordercolor": line, "font": {"color": text, "size": 12}, "namelength": -1},
        "annotationdefaults": {"font": {"color": text}, "arrowcolor": line},
        "shapedefaults": {"line": {"color": NEUTRAL}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": faint, "activecolor": text},
    }
    return {"layout": layout}


#: What `Plotly.relayout` takes to make any figure light or dark: only the template, whose axis applies to every axis of
#: a figure.
RELAYOUT: dict[str, dict[str, Any]] = {
    "light": {"template": _template("#1b1f24", "#57606a", "#e3e6ea", "#8c959f", "#ffffff")},
    "dark": {"template": _template("#e6e8eb", "#a8b0b9", "#30363d", "#6e7781", "#161b22")},
}


def themed(figure: go.Figure, dark: bool) -> go.Figure:
    """The same figure with text and lines for a dark or a light page."""
    figure.layout.template = RELAYOUT["dark" if dark else "light"]["template"]
    return figure


def distinct(texts: Iterable[str]) -> list[str]:
    """Names for an axis, on which equal ones would coincide: those that look the same get a number."""
    seen: Counter[str] = Counter()
    names = []
    for text in texts:
        name = for_figure(text)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names
