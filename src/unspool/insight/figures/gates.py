"""Figures of gates: by unit over time, histograms over time, time constants, gates closed on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unspool.insight.figures.bars import draw_bars
from unspool.insight.figures.canvas import cells, color_bar, empty, logarithm, numbers, panels
from unspool.insight.figures.theme import PATTERNS, style
from unspool.insight.figures.ticks import powers
from unspool.language import Message, listed, words

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.attenuation import Attenuation
    from unspool.insight.measures.gates import Gate, Gates
    from unspool.insight.measures.time_constants import Constants, TimeConstants

_NO_GATES = "The cells of this model have no gates."


def _name(gate: Gate) -> str:
    template = {"keep": "{label}: {name}, keeps", "write": "{label}: {name}, writes"}.get(gate.role, "{label}: {name}")
    return Message(template, label=gate.label if len(gate.label) <= 40 else gate.label[:40], name=gate.name)


def draw_gate_maps(gates: Gates) -> go.Figure:
    """How open each gate of each hidden unit is at each step, mean over sequences."""
    title = "Gates over time"
    if not gates.gates:
        return empty(title, _NO_GATES)
    figure = panels(title, [_name(gate) for gate in gates.gates], height=130, shared_xaxes=True)
    for row, gate in enumerate(gates.gates, 1):
        units, steps = cells(gate.units.shape[1], gate.units.shape[0], len(gates.gates))
        figure.add_heatmap(
            x=steps.tolist(),
            y=units.tolist(),
            z=numbers(gate.units[np.ix_(steps, units)].T),
            coloraxis="coloraxis",
            hovertemplate="unit %{y}, step %{x}: %{z:.3f} open<extra></extra>",
            row=row,
            col=1,
        )
    color_bar(figure, "open: 1, closed: 0", cmin=0, cmax=1)
    figure.update_xaxes(title_text="time step", row=len(gates.gates), col=1)
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(title_text="unit", showgrid=False)
    return figure


def draw_gate_histograms(gates: Gates) -> go.Figure:
    """The distribution of each gate: at each step, with the mean as a line, and over all steps on the right."""
    title = "Histograms of the gates"
    if not gates.gates:
        return empty(title, _NO_GATES)
    names = [_name(gate) for gate in gates.gates]
    figure = panels(
        title,
        names,
        height=130,
        column_widths=[0.8, 0.2],
        horizontal_spacing=0.08,  # on narrow screens the last step and the first fraction are side by side
        shared_yaxes=True,
        shared_xaxes=True,
    )
    for row, gate in enumerate(gates.gates, 1):
        bins, steps = cells(len(gate.histogram), len(gate.over_time), len(gates.gates))
        middles = (gate.edges[:-1] + gate.edges[1:]) / 2
        figure.add_heatmap(
            x=steps.tolist(),
            y=numbers(middles[bins]),
            z=numbers(gate.over_time[np.ix_(steps, bins)].T),
            coloraxis="coloraxis",
            hovertemplate="step %{x}: %{z:.3~p} of the values near %{y:.3f}<extra></extra>",
            row=row,
            col=1,
        )
        figure.add_scatter(
            x=steps.tolist(),
            y=numbers(gate.mean[steps]),
            mode="lines",
            line={"color": style(1).color, "width": 2},
            hovertemplate="step %{x}: mean %{y:.3f}<extra></extra>",
            showlegend=False,
            row=row,
            col=1,
        )
        figure.add_bar(
            x=numbers(gate.histogram),
            y=numbers(middles),
            orientation="h",
            marker_color=style(0).color,
            hovertemplate="%{x:.3~p} of all values near %{y:.3f}<extra></extra>",
            showlegend=False,
            row=row,
            col=2,
        )
    color_bar(figure, "fraction of the values at that step", cmin=0)
    figure.update_layout(bargap=0)
    figure.update_yaxes(range=[0, 1], showgrid=False)
    figure.update_yaxes(title_text="value", col=1)
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title_text="time step", row=len(names), col=1)
    figure.update_xaxes(title_text="fraction", tickformat=".0%", nticks=3, row=len(names), col=2)
    return figure


def draw_time_constants(constants: TimeConstants) -> go.Figure:
    """How long hidden units remember: histograms of τ on a logarithmic axis."""
    title = "Time constants of the hidden units"
    sets = [one for one in constants.sets if np.size(one.tau)]
    if not sets:
        return empty(title, "No unit keeps its state by a gate or a weight of its own.")
    logs = [logarithm(one.tau) for one in sets]
    names = [_name_constants(one) for one in sets]
    figure = panels(title, names, height=110, shared_xaxes=True)
    for row, values in enumerate(logs, 1):
        _draw_histogram(figure, row, values)
    measured = words("steps" if constants.dt == 1 else "in the unit of time of the data")
    figure.update_xaxes(**powers(np.concatenate(logs), most=8))
    figure.update_xaxes(title_text=Message("τ ({measured})", measured=measured), row=len(names), col=1)
    figure.update_yaxes(title_text="units")
    return figure


def _draw_histogram(figure: go.Figure, row: int, values: NDArray[np.float64]) -> None:
    look = style(row - 1)
    figure.add_histogram(
        x=numbers(values[np.isfinite(values)]),
        nbinsx=40,
        bingroup="tau",
        marker={"color": look.color, "pattern": {"shape": PATTERNS[(row - 1) % len(PATTERNS)]}},
        hovertemplate="%{y} units with log₁₀ τ in %{x}<extra></extra>",
        showlegend=False,
        row=row,
        col=1,
    )


def _name_constants(one: Constants) -> str:
    """What a histogram shows, and how many units have no place on a logarithmic axis."""
    forever, once = int(np.isposinf(one.tau).sum()), int((one.tau == 0).sum())
    notes = [Message("{count} with τ = ∞", count=forever)] * (forever > 0)
    notes += [Message("{count} with τ = 0", count=once)] * (once > 0)
    name = Message("{label}: by {gate}", label=one.label, gate=one.gate)
    return Message("{name} (and {notes})", name=name, notes=listed(notes)) if notes else name


def draw_attenuation(attenuation: Attenuation) -> go.Figure:
    """How often a layer's output gate and the input gate of the layer above are both closed."""
    return draw_bars(
        "Gates closed on both sides",
        [Message("{lower} → {upper}", lower=pair.lower, upper=pair.upper) for pair in attenuation.pairs],
        {
            "both under ½ (fraction of steps and units)": [pair.closed for pair in attenuation.pairs],
            "signal lost (mean of relu(1 − o − i))": [pair.lost for pair in attenuation.pairs],
        },
        "No output gate of a layer feeds an input gate of the next.",
    )
