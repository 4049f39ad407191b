"""Figures of memory: the sensitivity kernel, forgetting of a prefix, and the dependence in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.canvas import (
    FLOOR,
    REFERENCE,
    anything,
    canvas,
    empty,
    level,
    line,
    log_axis,
    numbers,
    panels,
)
from unspool.insight.figures.marks import decay_name, mark_horizon, mark_place, whole_line
from unspool.insight.figures.theme import PATTERNS, style
from unspool.insight.measures.flow import HORIZON
from unspool.language import Message, at_least

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.dependence import Dependence
    from unspool.insight.measures.forgetting import Forgetting
    from unspool.insight.measures.need import Need
    from unspool.insight.measures.sensitivity import Sensitivity


def draw_sensitivity(sensitivity: Sensitivity) -> go.Figure:
    """The response at the top to an input, by lag, and what each layer's recurrence adds to it."""
    title = "Sensitivity to an input, by lag"
    if not anything(sensitivity.kernel):
        return empty(title, "No sensitivity could be measured.")
    names = ("response at the top to a unit impulse", "what each layer's recurrence adds")
    shown = [index for index, delta in enumerate(sensitivity.delta) if delta]  # others are under the whole model's
    every = np.vstack([sensitivity.kernel, sensitivity.removed[shown]])
    lowest = np.min(every, where=every > 0, initial=np.inf)
    bottom = max(FLOOR, lowest / 10) if np.isfinite(lowest) else FLOOR  # zeros must not stretch the axis
    figure = panels(title, names, height=210, legend=1 + len(shown))
    says = "lag %{x}: %{customdata:.3g}"
    for index in shown:
        entry = Message("without recurrence in {label}", label=for_figure(sensitivity.labels[index]))
        curve = line(sensitivity.lags, sensitivity.removed[index], entry, style(index), says, log=True)
        curve.y = [height if height is None else max(height, bottom) for height in curve.y]
        figure.add_trace(curve, row=1, col=1)
    figure.add_trace(whole_line(sensitivity.lags, sensitivity.kernel, "whole model", says), row=1, col=1)
    count = len(sensitivity.labels)
    figure.add_bar(
        x=numbers(sensitivity.delta),
        y=list(range(count)),
        orientation="h",
        marker={
            "color": [style(index).color for index in range(count)],
            "pattern": {"shape": [PATTERNS[index % len(PATTERNS)] for index in range(count)]},
        },
        showlegend=False,
        hovertemplate="Δ = %{x:.3g}; above 0 it accumulates, below 0 it smooths<extra></extra>",
        row=2,
        col=1,
    )
    figure.update_xaxes(title_text="lag (steps)", row=1, col=1)
    log_axis(figure, "‖∂ output‖", np.maximum(every, bottom), row=1, col=1)
    figure.update_xaxes(title_text="Δ (above 0: accumulates, below: smooths)", row=2, col=1)
    ticks = {"tickvals": list(range(count)), "ticktext": [for_figure(label) for label in sensitivity.labels]}
    figure.update_yaxes(autorange="reversed", showgrid=False, row=2, col=1, **ticks)
    return figure


def draw_forgetting(forgetting: Forgetting) -> go.Figure:
    """How fast two different prefixes are forgotten while the same suffix is read."""
    title = "Forgetting of the prefix"
    if not anything(forgetting.distance):
        return empty(title, "No layer reads forward, or the sequences are too short.")
    shown = [index for index in range(len(forgetting.labels)) if anything(forgetting.distance[index])]
    figure = canvas(title, legend=1 + len(shown))
    for index in shown:
        look, entry = style(index), decay_name(for_figure(forgetting.labels[index]), forgetting.rate[index])
        says = "after %{x} steps: %{customdata:.3g} of the distance is left"
        figure.add_trace(line(forgetting.steps, forgetting.distance[index], entry, look, says, log=True))
        place = np.flatnonzero(forgetting.steps == forgetting.horizon[index])[:1]
        bound = bool(forgetting.censored[index])
        horizon, height = forgetting.steps[place], forgetting.distance[index, place]
        says = Message("forgotten after {bound}%{{x}} steps", bound=at_least(bound))
        mark_horizon(figure, entry, look, horizon, height, bound, says)
    level(figure, HORIZON, Message("forgotten: {part:.0%} left", part=HORIZON))
    figure.update_xaxes(title_text="steps of the common suffix")
    log_axis(figure, "distance of the states (1 at the start)", forgetting.distance)
    return figure


def draw_need(need: Need) -> go.Figure:
    """The part of the error that an earlier input explains, by lag, beside chance."""
    title = "Error that an earlier input explains"
    if not anything(need.explained):
        return empty(title, "Too few steps have an error.")
    figure = canvas(title, legend=2)
    says = "lag %{x}: %{customdata:.3~p}"
    figure.add_trace(line(need.lags, need.explained, "explained by the input", style(0), says))
    chance = np.full(len(need.lags), need.chance)
    figure.add_trace(line(need.lags, chance, "chance", style(1), says, mode="lines", line=REFERENCE))
    figure.update_xaxes(title_text="lag (steps)")
    figure.update_yaxes(title_text="fraction of the variance, R²", tickformat=".3~p", rangemode="tozero")
    return figure


def draw_dependence(dependence: Dependence) -> go.Figure:
    """How much a step of the data says about later ones, beside chance, and the memory that it asks for."""
    title = "Dependence in the data, by lag"
    if not anything(dependence.shares):
        return empty(title, "The sequences are too short to measure.")
    meaning = {
        "autocorrelation": "fraction of the variance, r²",
        "mutual information": "fraction of the entropy, I / H",
    }
    figure = canvas(title, legend=3)
    says = "lag %{x}: %{customdata:.3~p}"
    name = dependence.measure
    figure.add_trace(line(dependence.lags, dependence.shares, name, style(0), says))
    figure.add_trace(line(dependence.lags, dependence.noise, "chance", style(1), says, mode="lines", line=REFERENCE))
    if dependence.memory > 0:
        heights = [0, np.nanmax(dependence.shares)]
        needed = "memory needed: {bound}{steps}"
        entry = Message(needed, bound=at_least(dependence.censored), steps=dependence.memory)
        mark_place(figure, dependence.memory, heights, entry)
    figure.update_xaxes(title_text="lag (steps)")
    figure.update_yaxes(title_text=meaning[dependence.measure], tickformat=".3~p", rangemode="tozero")
    return figure
