"""Figures of fixed points: phase portraits, eigenvalues and time constants. Points have numbers that tie them together.

A trace with `meta.link` has the number of a point in that column of its custom data. When the pointer is on one of
them, the page fades all marks of other points, in every figure of the measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import COLUMNS, anything, canvas, empty, log_axis, numbers, panels, picked
from unspool.insight.figures.theme import NEUTRAL, style
from unspool.language import Message, words

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.fixed_points import FixedPoints, PointSet
    from unspool.insight.points.plane import Portrait

Array = NDArray[np.float64]

_EIGENVALUES = 1500  # shown per figure, and at least so many per point
_LEAST = 8
_POINTS = 60  # drawn per system and held input
_TRAJECTORIES = 12
_NONE_FOUND = "No fixed or slow point was found."
#: How points of each kind look; those of a continuum are drawn as a line.
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "stable": ("stable fixed point", {"symbol": "circle", "size": 12}),
    "saddle": ("saddle", {"symbol": "circle-open", "size": 12, "line_width": 2}),
    "unstable": ("unstable fixed point", {"symbol": "circle-open-dot", "size": 12, "line_width": 2}),
    "slow": ("slow point", {"symbol": "diamond", "size": 7}),
    "continuum": ("point on a continuum", {"symbol": "square", "size": 8}),
    "unknown": ("point of unknown stability", {"symbol": "x", "size": 9}),
}


#: How a mark looks while the pointer is on one of its point, and on one of another point.
_LINKED: dict[str, Any] = {
    "meta": {"link": 0},
    "selected": {"marker": {"opacity": 1, "size": 11}},
    "unselected": {"marker": {"opacity": 0.07}},
}


class _Drawn(NamedTuple):
    """A set with the number of its first point, its color by what is held, and its symbol by the system."""

    first: int
    color: str
    symbol: str
    one: PointSet


def _numbered(points: FixedPoints) -> list[_Drawn]:
    """The sets with numbers of their points, which go on from set to set."""
    held = list(dict.fromkeys(one.held for one in points.sets))
    labels = list(dict.fromkeys(one.label for one in points.sets))
    firsts = np.cumsum([1, *(len(one.points) for one in points.sets)])
    return [
        _Drawn(int(first), style(held.index(one.held) + 1).color, style(labels.index(one.label)).symbol, one)
        for first, one in zip(firsts[:-1], points.sets, strict=True)
    ]


def _name(one: PointSet, several: bool) -> str:
    """A set's entry in a legend."""
    label = for_figure(one.label)
    return Message("{label}, {held}", label=label, held=for_figure(one.held)) if several else label


def draw_eigenvalues(points: FixedPoints) -> go.Figure:
    """Eigenvalues of the Jacobian at each fixed or slow point; inside the unit circle a change decays."""
    title = "Eigenvalues at fixed points"
    sets = [drawn for drawn in _numbered(points) if drawn.one.eigenvalues.size]
    if not sets:
        return empty(title, _NONE_FOUND)
    figure = canvas(title, height=380, legend=len(sets))
    shown = max(_LEAST, _EIGENVALUES // sum(min(_POINTS, len(one.points)) for *_, one in sets))
    for first, color, symbol, one in sets:
        values, tau = one.eigenvalues[:_POINTS, :shown], one.time_constants[:_POINTS, :shown]
        number = np.repeat(first + np.arange(len(values)), values.shape[1])
        figure.add_scatter(
            x=numbers(values.real.ravel()),
            y=numbers(values.imag.ravel()),
            customdata=_columns(number, np.abs(values).ravel(), tau.ravel()),
            **_LINKED,
            mode="markers",
            marker={"color": color, "symbol": symbol, "size": 6, "opacity": 0.75},
            name=_name(one, several=len(sets) > 1),
            hovertemplate="point %{customdata[0]}: λ = %{x:.3f} + %{y:.3f}i, |λ| = %{customdata[1]:.3f}, "
            "τ = %{customdata[2]:.3g}",
        )
    figure.add_shape(type="circle", x0=-1, x1=1, y0=-1, y1=1, line={"color": NEUTRAL, "dash": "dash", "width": 1.5})
    figure.update_xaxes(title_text="real part", constrain="domain")
    figure.update_yaxes(title_text="imaginary part", scaleanchor="x", scaleratio=1)
    return figure


def _columns(number: NDArray[np.int64], *values: Array) -> list[list[Any]]:
    """Custom data: the number of the point, then values."""
    return [[int(n), *rest] for n, *rest in zip(number, *(numbers(each) for each in values), strict=True)]


def draw_modes(points: FixedPoints) -> go.Figure:
    """Time constants of the leading modes at each point: filled where the mode decays, hollow where it grows."""
    title = "Time constants at fixed points"
    sets = [drawn for drawn in _numbered(points) if len(drawn.one.points)]
    if not any(anything(one.time_constants) and one.time_constants.any() for *_, one in sets):
        return empty(title, "No mode has a time constant.")
    figure = canvas(title, legend=len(sets))
    for first, color, symbol, one in sets:
        count = one.modes.shape[1]
        tau, turns = one.time_constants[:_POINTS, :count], one.frequencies[:_POINTS, :count]
        number = np.repeat(first + np.arange(len(tau)), count)
        figure.add_scatter(
            x=np.tile(np.arange(1, count + 1), len(tau)).tolist(),
            y=numbers(np.where(tau == 0, np.nan, np.abs(tau)).ravel()),
            customdata=_columns(number, tau.ravel(), turns.ravel()),
            **_LINKED,
            mode="markers",
            marker={
                "color": color,
                "symbol": [symbol if decays else f"{symbol}-open" for decays in tau.ravel() >= 0],
                "size": 7,
            },
            name=_name(one, several=len(sets) > 1),
            hovertemplate="point %{customdata[0]}, mode %{x}: τ = %{customdata[1]:.3g}, "
            "%{customdata[2]:.3g} turns per unit of time",
        )
    per_step = all(one.dt == 1 for *_, one in sets)
    figure.update_xaxes(title_text="mode, from the largest eigenvalue", dtick=1)
    sizes = np.concatenate([np.abs(one.time_constants[:_POINTS, : one.modes.shape[1]]).ravel() for *_, one in sets])
    unit = "|τ| (steps; hollow: grows)" if per_step else "|τ| (units of time; hollow: grows)"
    log_axis(figure, unit, sizes[sizes > 0])
    return figure


def draw_phase_portrait(points: FixedPoints) -> go.Figure:
    """Paths of the states in their first two principal components, with fixed points: filled if stable, else hollow."""
    title = "Phase portrait"
    sets = _numbered(points)
    shown = [
        (portrait, own)
        for portrait in points.portraits
        if (own := [one for one in sets if one.one.label == portrait.label]) or anything(portrait.trajectories)
    ]
    if not shown:
        return empty(title, _NONE_FOUND)
    several = len({one.held for one in points.sets}) > 1
    names = {name for _, own in shown for one in own for name, *_ in _groups(one, several)}
    figure = panels(title, [portrait.label for portrait, _ in shown], height=320, legend=2 + len(names))
    for row, (portrait, own) in enumerate(shown, 1):
        for path in portrait.trajectories[picked(len(portrait.trajectories), _TRAJECTORIES)]:
            _draw_path(figure, row, path)
        for one in own:
            _draw_curves(figure, row, one, several)
            _draw_points(figure, row, one, several)
        _name_axes(figure, row, portrait)
    _name_each_once(figure)
    return figure


def _name_axes(figure: go.Figure, row: int, portrait: Portrait) -> None:
    named = "component {axis} ({part:.0%} of the variance)"
    axes = [Message(named, axis=axis, part=float(part)) for axis, part in enumerate(portrait.explained, 1)]
    figure.update_xaxes(title_text=axes[0], row=row, col=1)
    figure.update_yaxes(title_text=axes[1], row=row, col=1)


def _name_each_once(figure: go.Figure) -> None:
    """One entry of the legend for all traces of one name."""
    seen: set[str] = set()
    for trace in figure.data:
        trace.showlegend = trace.name not in seen
        seen.add(trace.name)


def _draw_path(figure: go.Figure, row: int, path: Array) -> None:
    live = np.flatnonzero(np.isfinite(path).all(-1))
    if not len(live):
        return
    shown = live[picked(len(live), COLUMNS // 2)]
    figure.add_scatter(
        x=numbers(path[shown, 0]),
        y=numbers(path[shown, 1]),
        customdata=shown.tolist(),
        mode="lines",
        line={"color": "rgba(128,128,128,0.55)", "width": 1},
        name="path",
        hovertemplate="step %{customdata}<extra>path</extra>",
        row=row,
        col=1,
    )
    figure.add_scatter(
        x=numbers(path[live[:1], 0]),
        y=numbers(path[live[:1], 1]),
        mode="markers",
        marker={"color": NEUTRAL, "symbol": "x-thin-open", "size": 7},
        name="start",
        hovertemplate="start of a path<extra></extra>",
        row=row,
        col=1,
    )


def _groups(drawn: _Drawn, several: bool) -> Iterator[tuple[str, NDArray[np.int64], dict[str, Any]]]:
    """The points of a set by kind: the entry in the legend, which they are, and how they look."""
    kinds = np.array(drawn.one.kind[:_POINTS])
    for kind, (name, marker) in _LOOKS.items():
        which = np.flatnonzero(kinds == kind)
        if len(which):
            entry = Message("{kind}, {held}", kind=words(name), held=for_figure(drawn.one.held)) if several else name
            yield entry, which, marker


def _draw_points(figure: go.Figure, row: int, drawn: _Drawn, several: bool) -> None:
    first, color, _, one = drawn
    for name, which, marker in _groups(drawn, several):
        size = np.abs(one.eigenvalues[which]).max(-1, initial=0)
        figure.add_scatter(
            x=numbers(one.plane[which, 0]),
            y=numbers(one.plane[which, 1]),
            customdata=_columns(first + which, one.residual[which], size),
            **_LINKED,
            mode="markers",
            marker={"color": color} | marker,
            name=name,
            hovertemplate="point %{customdata[0]}: ½‖F(s) − s‖² = %{customdata[1]:.3g}, largest |λ| = "
            "%{customdata[2]:.3f}",
            row=row,
            col=1,
        )


def _draw_curves(figure: go.Figure, row: int, drawn: _Drawn, several: bool) -> None:
    for continuum, curve in zip(drawn.one.continua, drawn.one.curves, strict=True):
        held = for_figure(drawn.one.held)
        figure.add_scatter(
            x=numbers(curve[:, 0]),
            y=numbers(curve[:, 1]),
            customdata=numbers(continuum.residual),
            mode="lines",
            opacity=0.6,
            line={"color": drawn.color, "width": 6},
            name=Message("{kind}, {held}", kind=words(continuum.kind), held=held) if several else continuum.kind,
            hovertemplate="½‖F(s) − s‖² = %{customdata:.3g}",
            row=row,
            col=1,
        )
