"""Figures of single units: what the loss loses without each, and the course of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import REFERENCE, anything, canvas, empty, line, numbers, panels
from unspool.insight.figures.ribbon import TOKENS, both_signs, draw_ribbon
from unspool.insight.figures.theme import style
from unspool.language import Message

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.ablation import Ablation, LayerAblation
    from unspool.insight.measures.units import Unit


def draw_ablation(ablation: Ablation) -> go.Figure:
    """What the loss loses without each unit, layer by layer, the largest loss first."""
    title = "What the loss loses without each unit"
    if not any(anything(one.lost) for one in ablation.layers):
        return empty(title, "No unit was left out: the time did not suffice.")
    figure = canvas(title, legend=len(ablation.layers))
    for index, one in enumerate(ablation.layers):
        _draw_layer(figure, index, one)
    figure.add_hline(y=0, line=REFERENCE)
    figure.update_xaxes(title_text="unit, by what is lost without it")
    figure.update_yaxes(title_text="change of the loss")
    return figure


def _draw_layer(figure: go.Figure, index: int, one: LayerAblation) -> None:
    order = [place for place in np.argsort(-np.nan_to_num(one.lost, nan=-np.inf)) if np.isfinite(one.lost[place])]
    look = style(index)
    figure.add_scatter(
        x=list(range(1, len(order) + 1)),
        y=numbers(one.lost[order]),
        customdata=[int(place) for place in order],
        mode="markers+lines",
        marker={"color": look.color, "symbol": look.symbol, "size": 6},
        line={"color": look.color, "dash": look.dash, "width": 1},
        name=for_figure(one.label),
        hovertemplate="without unit %{customdata} the loss changes by %{y:.3g}",
    )


def draw_unit_text(unit: Unit) -> go.Figure:
    """The text with the output of one unit as color."""
    title = Message("{label}, unit {unit} over the text", label=for_figure(unit.label), unit=unit.unit)
    if not unit.tokens:
        return empty(title, "There is no text to show.")
    hover = [
        Message("{token}: {value:.3g}", token=for_figure(token, token=True), value=float(value))
        for token, value in zip(unit.tokens[:TOKENS], unit.output, strict=False)
    ]
    says = Message("output of the unit after each token")
    return draw_ribbon(title, unit.tokens, unit.output, hover, says, **both_signs(unit.output))


def draw_unit_course(unit: Unit) -> go.Figure:
    """The output of one unit and its gates over one sequence."""
    title = Message("{label}, unit {unit} over time", label=for_figure(unit.label), unit=unit.unit)
    gates = [place for place, values in enumerate(unit.values) if unit.names[place] in unit.gates]
    others = [place for place in range(len(unit.names)) if place not in gates]
    parts = [("gates", gates), ("other states", others)]
    shown = [("output", []), *((name, places) for name, places in parts if places)]
    names = [name for name, _ in shown]
    figure = panels(title, names, height=130, legend=1 + len(unit.names), shared_xaxes=True)
    steps = np.arange(len(unit.output))
    says = "step %{x}: %{customdata:.3g}"
    figure.add_trace(line(steps, unit.output, "output", style(0), says, mode="lines"), row=1, col=1)
    for row, (_, places) in enumerate(shown, 1):
        for place in places:
            curve = line(
                steps,
                unit.values[place],
                Message("{name}", name=unit.names[place]),
                style(place + 1),
                says,
                mode="lines",
            )
            figure.add_trace(curve, row=row, col=1)
    figure.update_xaxes(title_text="time step", row=len(names), col=1)
    return figure
