"""Rules about gradients: those that vanish, those that explode, and those that training cuts off too early."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from unspool.insight.gate_bias import propose_cell, propose_forget_bias
from unspool.insight.measures.activation import Activations
from unspool.insight.measures.flow import HORIZON, GradientFlow
from unspool.insight.measures.forgetting import Forgetting
from unspool.insight.measures.truncation import Truncation
from unspool.insight.report.contract import Verdict
from unspool.insight.report.severity import Severity
from unspool.insight.verdicts.dynamics import is_chaotic
from unspool.insight.verdicts.rules import Case, finite_max, percent
from unspool.language import Message

#: A network whose gradients all fall below 1 % within this number of steps cannot learn what lies further back.
SHORTEST_HORIZON = 10
#: Shorter sequences show no horizon worth a verdict.
SHORTEST_SEQUENCE = 8
#: If the states remember this many times longer than gradients reach, the memory is latched; else both fade together.
LATCHED = 3
#: A gradient that has grown by this factor on its way back dominates those of the near steps.
GROWN = 100.0
#: It must also grow steadily, by this factor per step.
GROWTH = 1.02
#: Relative errors of the truncated gradient: above the first a warning, above the second a fault.
LOSS_WORTH_A_WARNING, LOSS_WORTH_A_FAULT = 0.05, 0.2


def vanishing(case: Case) -> Verdict | None:
    """In no layer a gradient reaches back further than a few steps."""
    flow = case.found.get(GradientFlow)
    if flow is None or case.steps < SHORTEST_SEQUENCE:
        return None
    least = min(SHORTEST_HORIZON, case.steps // 2)
    # The horizon is unknown for a layer that no loss reaches directly, and for one with too few steps.
    known = np.isfinite(flow.survival).any(1) & ~(flow.censored & (flow.horizon < least))
    if not known.any() or int(flow.horizon[known].max()) >= least:
        return None
    best = int(np.where(known, flow.horizon, -1).argmax())
    horizon = int(flow.horizon[best])
    after = min(20, flow.survival.shape[1] - 1)
    rate = float(flow.rate[best])
    evidence = Message(
        "In {label}, whose gradients reach back furthest, less than {part} of a gradient is left {horizon} step(s) "
        "back ({rate}{left:.1e} after {after} steps).",
        label=flow.labels[best],
        part=percent(HORIZON),
        horizon=horizon + 1,
        rate=Message("a factor of {rate:.2f} per step; ", rate=rate) if np.isfinite(rate) else "",
        left=float(flow.survival[best, after]),
        after=after,
    )
    return _latched(case, evidence, max(least, LATCHED * horizon)) or _vanishing(case, evidence)


def _latched(case: Case, evidence: str, enough: int) -> Verdict | None:
    """Gradients vanish, but the states remember."""
    memory = case.found.get(Forgetting)
    remembered = 0 if memory is None else int(memory.horizon.max())
    if remembered < enough:
        return None
    evidence = Message(
        "{evidence} But its states still differ {remembered} steps after different inputs: the memory is latched.",
        evidence=evidence,
        remembered=remembered,
    )
    remedy = "Nothing, if the model works: a latch holds a memory in place and lets no gradient through."
    return Verdict("latched", "note", "Memory without gradients", evidence, remedy, {}, "forgetting")


def _vanishing(case: Case, evidence: str) -> Verdict:
    settings = open_gates(case)
    if settings is None:
        evidence = Message(
            "{evidence} The training data was not found to need more than {memory} step(s) of memory.",
            evidence=evidence,
            memory=case.specimen.memory,
        )
        remedy = "Nothing, if the model works: no longer way back is needed."
        return Verdict("vanishing", "note", "Gradients vanish", evidence, remedy, {}, "flow")
    said = spell_settings(settings)
    if case.gated:
        remedy = Message("Start with open gates, so that gradients have a way back: {settings}.", settings=said)
    else:
        remedy = Message(
            "Use a cell whose gate keeps the state, and start with that gate open: {settings}. Or start from "
            'orthogonal recurrent matrices, which preserve the norm of a gradient: `init="orthogonal"`.',
            settings=said,
        )
    return Verdict("vanishing", "fault", "Gradients vanish", evidence, remedy, settings, "flow")


def open_gates(case: Case) -> dict[str, Any] | None:
    """Settings with which gates start open, as `plan` proposes them; None where the data needs too short a memory."""
    specimen = case.specimen
    bias = propose_forget_bias(specimen.memory, specimen.forget_bias)
    if bias is None:
        return None
    engine = {} if specimen.engine == "kernel" else {"engine": "kernel"}  # torch.nn's layers have no such setting
    return {**({} if case.gated else {"cell": propose_cell(specimen.memory)}), **engine, "forget_bias": bias}


def spell_settings(settings: Mapping[str, Any]) -> str:
    """Settings as a message has them."""
    return ", ".join(f"`{name}={json.dumps(value)}`" for name, value in settings.items())


def exploding(case: Case) -> Verdict | None:
    """Gradients grow on their way back, and the network is not merely chaotic."""
    flow = case.found.get(GradientFlow)
    if flow is None or is_chaotic(case):
        return None
    grown = np.array([finite_max(row) for row in flow.survival])
    steep = (grown > GROWN) & (flow.rate > GROWTH)
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
        gates = open_gates(case) or {"cell": propose_cell(case.specimen.memory)}
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


def truncated(case: Case) -> Verdict | None:
    """Training goes back fewer steps than the gradient reaches."""
    found = case.found.get(Truncation)
    if found is None or found.lost is None or not found.lost > LOSS_WORTH_A_WARNING:
        return None
    advised = len(found.windows) if found.censored else found.recommended
    evidence = Message(
        "With `bptt={bptt}` the gradient differs from the full one by {lost} of its norm. An error of at most 1 % "
        "needs {more}{needed} steps.",
        bptt=found.bptt,
        lost=percent(found.lost),
        more=Message("more than ") if found.censored else "",
        needed=advised,
    )
    remedy = Message("Let gradients go back further: `bptt={advised}`.", advised=advised)
    severity: Severity = "fault" if found.lost > LOSS_WORTH_A_FAULT else "warning"
    title = "Training looks back too few steps"
    return Verdict("truncated", severity, title, evidence, remedy, {"bptt": advised}, "truncation")
