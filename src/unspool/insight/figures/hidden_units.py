"""Figures of the use of hidden units: spectrum of their variance, saturated and dead activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unspool.harmless import for_figure
from unspool.insight.figures.bars import draw_bars
from unspool.insight.figures.canvas import add_spectra, anything, canvas, empty, line, log_axis
from unspool.insight.figures.theme import style
from unspool.language import Message, listed

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from unspool.insight.measures.activation import Activations
    from unspool.insight.measures.inputs import Inputs
    from unspool.insight.measures.participation import Participation


def draw_participation(participation: Participation) -> go.Figure:
    """How many directions the outputs of a layer use: variance by principal component."""
    title = "Directions that the hidden units use"
    if not any(anything(values) for values in participation.spectrum):
        return empty(title, "The outputs do not vary.")
    figure = canvas(title, legend=len(participation.labels))
    used = zip(participation.labels, participation.ratio, participation.size, strict=True)
    named = "{label} (uses {ratio:.3g} of {size})"
    names = [Message(named, label=for_figure(label), ratio=float(ratio), size=int(size)) for label, ratio, size in used]
    says = "component %{x}: %{customdata:.3~p} of the variance"
    add_spectra(figure, names, participation.spectrum, says, log=True)
    figure.update_xaxes(title_text="principal component")
    log_axis(figure, "fraction of the variance", np.concatenate(participation.spectrum))
    return figure


def draw_activations(activations: Activations) -> go.Figure:
    """How much of each activation passes no gradient: tanh at ±1, relu units that stay at 0."""
    return draw_bars(
        "Saturated and dead activations",
        [
            Message("{label}: {name}", label=value.label, name=value.name)
            if value.name.startswith(f"{value.function}(")  # tanh(c) has no name of its own
            else Message("{label}: {name} = {function}", label=value.label, name=value.name, function=value.function)
            for value in activations.values
        ],
        {
            "saturated (|v| > 0.97)": [
                value.saturated if value.function == "tanh" else np.nan for value in activations.values
            ],
            "dead (0 at every step)": [
                value.dead if value.function == "relu" else np.nan for value in activations.values
            ],
        },
        "The cells of this model have neither tanh nor relu.",
    )


def draw_inputs(inputs: Inputs) -> go.Figure:
    """The size of every feature that a layer reads from the data, on a logarithmic axis."""
    title = "Size of the input's features"
    if not any(anything(values) for values in inputs.sizes):
        return empty(title, "No layer reads the data itself.")
    shared = inputs.shared()
    figure = canvas(title, legend=len(shared))
    for index, (number, labels) in enumerate(shared.items()):
        says, values, name = "feature %{x}: %{customdata:.3g}", inputs.sizes[number], listed(map(for_figure, labels))
        curve = line(np.arange(1, len(values) + 1), values, name, style(index), says, True, mode="markers")
        figure.add_trace(curve)
    log_axis(figure, "root mean square", np.concatenate(inputs.sizes))
    figure.update_xaxes(title_text="feature")
    return figure
