"""Sections about units: gates, time constants, activations, how many directions are used."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gates import draw_attenuation, draw_gate_histograms, draw_gate_maps, draw_time_constants
from unspool.insight.figures.hidden_units import draw_activations, draw_participation
from unspool.insight.measures.activation import Activations
from unspool.insight.measures.attenuation import Attenuation
from unspool.insight.measures.gates import Gates
from unspool.insight.measures.participation import Participation
from unspool.insight.measures.time_constants import TimeConstants
from unspool.insight.report.contract import Section
from unspool.insight.sections.mathml import formula, frac, row, sub, sup, total


def tell_gates(found: Gates) -> Section:
    """What gates do over time."""
    roles = {"keep": ", it keeps the state.", "write": ", it lets values in."}
    findings = [
        f"{gate.label}, gate {gate.name}: open to {np.nanmean(gate.mean):.0%} in the mean{roles.get(gate.role, '.')}"
        for gate in found.gates
        if np.isfinite(gate.mean).any()
    ]
    return Section(
        "gates",
        "What the gates do",
        "When are the gates open, and which?",
        "A gate is a number between 0 (shut) and 1 (open) for every unit and step. The maps show the mean over the "
        "rows of the data; the histograms how many gates are how far open at each step. Gates that are always half "
        "open decide nothing; gates at 0 or 1 that never move are switches that nobody uses.",
        formula("gate =", "σ(W", sub("x", "t"), "+ U", sub("h", "t-1"), "+ b)"),
        (draw_gate_maps(found), draw_gate_histograms(found)),
        tuple(findings),
    )


def tell_time_constants(found: TimeConstants) -> Section:
    """How long units keep what they hold."""
    unit = "step(s)" if found.dt == 1 else "units of time"
    findings = [
        f"{one.label}: half of the units forget within {one.quantiles[2]:.3g} {unit}; the slowest tenth keep for "
        f"{one.quantiles[3]:.3g} or longer."
        for one in found.sets
        if np.isfinite(one.tau).any()
    ]
    return Section(
        "time-constants",
        "How long units keep",
        "Which units are quick and which are slow?",
        "A unit whose gate keeps the share f of its value at each step forgets as a discharging capacitor does, with "
        "the time constant τ. The histogram shows the units of each layer. A task with long memory needs some slow "
        "units: a larger forget bias makes them.",
        formula("τ = -", frac("Δt", row("ln ", sup("f", "∗")))),
        (draw_time_constants(found),),
        tuple(findings),
    )


def tell_attenuation(found: Attenuation) -> Section:
    """Gates that shut twice."""
    findings = [
        f"{pair.lower} → {pair.upper}: both shut in {pair.closed:.0%} of steps and units." for pair in found.pairs
    ]
    return Section(
        "attenuation",
        "Gates that shut twice",
        "Is a signal weakened on both sides of a border?",
        "In stacked LSTM layers a signal passes the output gate of one layer and the input gate of the next. Where "
        "both are nearer to shut than to open, it is weakened twice, and so is its gradient.",
        formula("closed = P(", sup("o", "(ℓ)"), "< ½,", sup("i", "(ℓ+1)"), "< ½)"),
        (draw_attenuation(found),),
        tuple(findings),
    )


def tell_activations(found: Activations) -> Section:
    """Units at their limits."""
    findings = [
        f"{one.label}, {one.name}: "
        + (
            f"{one.saturated:.0%} of the values saturated."
            if one.function == "tanh"
            else f"{one.dead:.0%} of the units dead."
        )
        for one in found.values
    ]
    return Section(
        "activations",
        "Units at their limits",
        "Are units saturated or dead?",
        "A tanh near ±1 and a relu at 0 have no slope: no gradient passes, and the unit cannot learn from that step. A "
        "relu unit that is zero at every step is dead; nothing brings it back.",
        formula(sup("tanh", "′"), "(a) = 1 -", sup("tanh", "2"), "(a)"),
        (draw_activations(found),),
        tuple(findings),
    )


def tell_participation(found: Participation) -> Section:
    """How many directions the states use."""
    findings = [
        f"{label}: {ratio:.1f} of {size} directions."
        for label, ratio, size in zip(found.labels, found.ratio, found.size, strict=True)
    ]
    return Section(
        "participation",
        "How much of the state is used",
        "How many of the units are really needed?",
        "If all units moved independently, the states would fill as many directions as there are units. The "
        "participation ratio counts the directions that are really used. The curve shows how the variance is shared "
        "among them.",
        formula(
            "PR =",
            frac(
                row(sup(row("(", total("i"), sub("λ", "i"), ")"), "2")),
                row(total("i"), "<msubsup><mi>λ</mi><mi>i</mi><mn>2</mn></msubsup>"),
            ),
        ),
        (draw_participation(found),),
        tuple(findings),
    )
