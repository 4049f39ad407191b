"""The look of every picture: colours, fonts, line styles, the light and the dark template, and text made harmless.

The categorical colours are those of Okabe and Ito, told apart by the colour-blind; each series also has its own dash
and marker, for print in grey. Backgrounds are transparent and neutral lines mid-grey, so one picture serves on white
and on black: only the template changes, by `themed` or in the browser by `Plotly.relayout(element, RELAYOUT["dark"])`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import plotly.graph_objects as go


class Style(NamedTuple):
    """What tells one series from the others."""

    color: str
    dash: str
    symbol: str

    def shade(self, opacity: float) -> str:
        """The colour, see-through."""
        red, green, blue = (int(self.color[place : place + 2], 16) for place in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
#: Fills of bars, for print in grey.
PATTERNS = ("", "/", ".", "x", "-", "+")
#: For numbers from little to much; even in lightness, so it stays right in grey.
SEQUENTIAL = "Cividis"
#: The same behind black letters.
MARKER = ((0.0, "#f3f3f3"), (0.5, "#fdc983"), (1.0, "#e8762c"))
#: For what is compared against: readable on white and on black.
NEUTRAL = "#808080"

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


def style(index: int) -> Style:
    """The style of the series with this number; no two of the first 42 are the same."""
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
    bar = {"outlinewidth": 0, "tickfont": {"size": 11, "color": faint}, "title": {"font": {"size": 12, "color": text}}}
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


#: What `Plotly.relayout` takes to turn any of our pictures light or dark. All of it is the template, whose axis counts
#: for every axis of a picture with several.
RELAYOUT: dict[str, dict[str, Any]] = {
    "light": {"template": _template("#1b1f24", "#57606a", "#e3e6ea", "#8c959f", "#ffffff")},
    "dark": {"template": _template("#e6e8eb", "#a8b0b9", "#30363d", "#6e7781", "#161b22")},
}


def themed(figure: go.Figure, dark: bool) -> go.Figure:
    """The same figure, its text and lines made for a dark or a light page."""
    figure.layout.template = RELAYOUT["dark" if dark else "light"]["template"]
    return figure


# Plotly reads some HTML, $formulas$ and %{templates} in texts; as entities these signs are only signs.
_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%": "&#37;"}
_NAMED = {"\n": "⏎", "\r": "␍", "\t": "⇥"}
# Controls, formats (which hold the overrides of direction and the joiners), surrogates, private and unassigned.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS = ("\u200d", "\ufe0f")  # parts of many an emoji; alone they do nothing


def plain(text: str, limit: int = 40, token: bool = False) -> str:
    """Text from data as plotly shows it literally, at most `limit` signs long; in a token blanks are seen too.

    Control signs and those that turn the direction of writing are named, as ⟨U+202E⟩.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(_sign(sign, token) for sign in cut)


def distinct(texts: Iterable[str]) -> list[str]:
    """Plain names for an axis, on which equal ones would fall together: those that look the same get a number."""
    seen: Counter[str] = Counter()
    names = []
    for text in texts:
        name = plain(text)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _sign(sign: str, token: bool) -> str:
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign in _NAMED:
        return _NAMED[sign]
    if sign == " ":
        return "␣" if token else sign
    if sign not in _JOINERS and (
        unicodedata.category(sign) in _UNSEEN or (token and unicodedata.category(sign) == "Zs")
    ):
        return f"⟨U+{ord(sign):04X}⟩"
    return sign
