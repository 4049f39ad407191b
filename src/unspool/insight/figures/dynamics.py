"""Figures of the dynamics: Lyapunov spectrum, eigenvalues at fixed points, phase portraits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import (
    COLUMNS,
    REFERENCE,
    add_spectra,
    anything,
    canvas,
    empty,
    numbers,
    panels,
    picked,
)
from unspool.insight.figures.theme import NEUTRAL, style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.fixed_points import FixedPoints, PointSet
    from unspool.insight.measures.lyapunov import Lyapunov

_EIGENVALUES = 1500  # shown per layer
_TRAJECTORIES = 12
_NONE_FOUND = "No fixed or slow point was found."


def draw_lyapunov(lyapunov: Lyapunov) -> go.Figure:
    """The rates at which small changes of the state grow or decay along the trajectory."""
    title = "Lyapunov spectrum"
    if not any(anything(values) for values in lyapunov.exponents):
        return empty(title, "No Lyapunov exponent could be measured.")
    figure = canvas(title, legend=len(lyapunov.labels))
    pairs = zip(lyapunov.labels, lyapunov.largest, strict=True)
    named = "{label} (largest {largest:.3g})"
    names = [Message(named, label=for_figure(label), largest=float(largest)) for label, largest in pairs]
    add_spectra(figure, names, lyapunov.exponents, "exponent %{x}: %{customdata:.3g} nats per step")
    figure.add_hline(y=0, line=REFERENCE)
    figure.update_xaxes(title_text="rank, from the largest")
    figure.update_yaxes(title_text="exponent (nats per step; above 0: chaos)")
    return figure


def draw_eigenvalues(points: FixedPoints) -> go.Figure:
    """Eigenvalues of the Jacobian at each fixed or slow point; inside the unit circle a change decays."""
    title = "Eigenvalues at fixed points"
    sets = [(index, one) for index, one in enumerate(points.sets) if one.eigenvalues.size]
    if not sets:
        return empty(title, _NONE_FOUND)
    figure = canvas(title, height=380, legend=len(sets))
    for index, one in sets:
        values = one.eigenvalues.ravel()
        values = values[picked(len(values), _EIGENVALUES)]
        look = style(index)
        figure.add_scatter(
            x=numbers(values.real),
            y=numbers(values.imag),
            customdata=numbers(np.abs(values)),
            mode="markers",
            marker={"color": look.color, "symbol": look.symbol, "size": 6, "opacity": 0.75},
            name=for_figure(one.label),
            hovertemplate="λ = %{x:.3f} + %{y:.3f}i, |λ| = %{customdata:.3f}",
        )
    figure.add_shape(type="circle", x0=-1, x1=1, y0=-1, y1=1, line={"color": NEUTRAL, "dash": "dash", "width": 1.5})
    figure.update_xaxes(title_text="real part", constrain="domain")
    figure.update_yaxes(title_text="imaginary part", scaleanchor="x", scaleratio=1)
    return figure


def draw_phase_portrait(points: FixedPoints) -> go.Figure:
    """Paths of the states in their first two principal components, with fixed points: filled if stable, else hollow."""
    title = "Phase portrait"
    sets = [one for one in points.sets if anything(one.trajectories) or len(one.plane)]
    if not sets:
        return empty(title, _NONE_FOUND)
    figure = panels(title, [one.label for one in sets], height=300, legend=5)
    for row, one in enumerate(sets, 1):
        for path in one.trajectories[picked(len(one.trajectories), _TRAJECTORIES)]:
            _draw_path(figure, row, path)
        _draw_points(figure, row, one)
        named = "component {axis} ({part:.0%} of the variance)"
        axes = [Message(named, axis=axis, part=float(part)) for axis, part in enumerate(one.explained, 1)]
        figure.update_xaxes(title_text=axes[0], row=row, col=1)
        figure.update_yaxes(title_text=axes[1], row=row, col=1)
    _name_each_once(figure)
    return figure


def _name_each_once(figure: go.Figure) -> None:
    """One entry of the legend for all traces of one name."""
    seen: set[str] = set()
    for trace in figure.data:
        trace.showlegend = trace.name not in seen
        seen.add(trace.name)


def _draw_path(figure: go.Figure, row: int, path: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    live = np.flatnonzero(np.isfinite(path).all(-1))
    if not len(live):
        return
    shown = live[picked(len(live), COLUMNS // 2)]
    figure.add_scatter(
        x=numbers(path[shown, 0]),
        y=numbers(path[shown, 1]),
        customdata=shown.tolist(),
        mode="lines",
        line={"color": style(0).shade(0.85), "width": 1},
        name="path",
        hovertemplate="step %{customdata}<extra>path</extra>",
        row=row,
        col=1,
    )
    figure.add_scatter(
        x=numbers(path[live[:1], 0]),
        y=numbers(path[live[:1], 1]),
        mode="markers",
        marker={"color": style(0).color, "symbol": "x-thin-open", "size": 7},
        name="start",
        hovertemplate="start of a path<extra></extra>",
        row=row,
        col=1,
    )


def _draw_points(figure: go.Figure, row: int, one: PointSet) -> None:
    kinds = (
        ("stable fixed point", one.stable & ~one.slow, {"symbol": "circle", "size": 12}),
        ("unstable fixed point", ~one.stable & ~one.slow, {"symbol": "circle-open", "size": 12, "line_width": 2}),
        ("slow point", one.slow, {"symbol": "diamond", "size": 6}),
    )
    for name, which, marker in kinds:
        if not which.any():
            continue
        figure.add_scatter(
            x=numbers(one.plane[which, 0]),
            y=numbers(one.plane[which, 1]),
            customdata=numbers(one.speed[which]),
            mode="markers",
            marker={"color": style(1).color} | marker,
            name=name,
            hovertemplate="½‖F(s) − s‖² = %{customdata:.3g}",
            row=row,
            col=1,
        )
