"""Rules about gradients: those that explode, and those that training cuts off too early."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.insight.gate_bias import propose_cell
from unspool.insight.measures.activation import Activations
from unspool.insight.measures.flow import GradientFlow
from unspool.insight.measures.truncation import Truncation
from unspool.insight.report.contract import Verdict
from unspool.insight.report.severity import Severity
from unspool.insight.verdicts.dynamics import chaotic_layers
from unspool.insight.verdicts.remedies import needed_memory, open_gates, spell_settings
from unspool.insight.verdicts.rules import Case, finite_max, percent
from unspool.language import Message, at_least

#: A gradient that has grown by this factor on its way back dominates those of the near steps.
GROWN = 100.0
#: It must also grow steadily, by this factor per step.
GROWTH = 1.02
#: Relative errors of the truncated gradient: above the first a warning, above the second a fault.
LOSS_WORTH_A_WARNING, LOSS_WORTH_A_FAULT = 0.05, 0.2


def exploding(case: Case) -> Verdict | None:
    """Gradients grow on their way back through a layer that is not merely chaotic."""
    flow = case.found.get(GradientFlow)
    if flow is None:
        return None
    grown = np.array([finite_max(row) for row in flow.survival])
    orderly = np.isin(np.arange(len(grown)), orderly_layers(case))
    steep = orderly & (grown > GROWN) & (flow.rate > GROWTH)
    if not steep.any():
        return None
    worst = int(np.where(steep, grown, -np.inf).argmax())
    lag = int(np.nanargmax(flow.survival[worst]))
    evidence = Message(
        "In {label}, a gradient is {grown:.3g} times as large {lag} steps back as where it began (a factor of "
        "{rate:.2f} per step).",
        label=flow.labels[worst],
        grown=float(grown[worst]),
        lag=lag,
        rate=float(flow.rate[worst]),
    )
    activations = case.found.get(Activations) or Activations(())
    if any(activity.function == "relu" for activity in activations.values):
        gates = open_gates(case) or {"cell": propose_cell(needed_memory(case))}
        remedy = Message(
            "Use a cell whose states are bounded and kept by a gate: {settings}. The states of a relu network can grow "
            "without limit. Clip gradients with `clip=1.0`, so that one batch cannot move the weights far.",
            settings=spell_settings(gates),
        )
        settings: dict[str, Any] = {**gates, "clip": 1.0}
    else:
        remedy = Message(
            'Start from orthogonal recurrent matrices, whose powers do not grow: `init="orthogonal"`. Clip gradients '
            "with `clip=1.0`, so that one batch cannot move the weights far."
        )
        settings = {"init": "orthogonal", "clip": 1.0}
    return Verdict("exploding", "fault", "Gradients explode", evidence, remedy, settings, "flow")


def orderly_layers(case: Case) -> list[int]:
    """The layers whose gradients were followed and which are not chaotic: in chaos, gradients grow of themselves."""
    flow = case.found.get(GradientFlow)
    if flow is None:
        return []
    followed = np.flatnonzero(np.isfinite(flow.survival).any(1))
    return sorted({int(number) for number in followed} - set(chaotic_layers(case)))


def truncated(case: Case) -> Verdict | None:
    """Training goes back fewer steps than the gradient reaches."""
    found = case.found.get(Truncation)
    if found is None or found.lost is None or not found.lost > LOSS_WORTH_A_WARNING:
        return None
    advised = max(len(found.windows), found.recommended) if found.censored else found.recommended
    evidence = Message(
        "With `bptt={bptt}` the gradient differs from the full one by {lost} of its norm. An error of at most 1 % "
        "needs {more}{needed} steps.",
        bptt=found.bptt,
        lost=percent(found.lost),
        more=at_least(found.censored),
        needed=found.recommended,
    )
    remedy = Message("Let gradients go back further: `bptt={advised}`.", advised=advised)
    severity: Severity = "fault" if found.lost > LOSS_WORTH_A_FAULT else "warning"
    title = "Training looks back too few steps"
    return Verdict("truncated", severity, title, evidence, remedy, {"bptt": advised}, "truncation")
