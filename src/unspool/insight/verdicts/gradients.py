"""Rules about gradients: those that vanish, those that explode, and those that training cuts off too early."""

from __future__ import annotations

import numpy as np

from unspool.insight.measures.activation import Activations
from unspool.insight.measures.flow import HORIZON
from unspool.insight.report.contract import Verdict
from unspool.insight.report.severity import Severity
from unspool.insight.verdicts.dynamics import is_chaotic
from unspool.insight.verdicts.rules import Case, finite_max, percent

#: A network from which no gradient above 1 % comes back so many steps cannot learn what lies further back.
SHORTEST_HORIZON = 10
#: Sequences shorter than this show no horizon worth a verdict.
SHORTEST_SEQUENCE = 8
#: States that tell two pasts apart so many times as long as gradients come back are latched; else both fade together.
LATCHED = 3
#: A gradient that has grown so many times on its way back drowns those of the near steps.
GROWN = 100.0
#: It must also grow steadily: so much at each step.
GROWTH = 1.02
#: Of a gradient that truncation loses: beyond the first it is worth a word, beyond the second a change.
LOSS_WORTH_A_WORD, LOSS_WORTH_A_CHANGE = 0.05, 0.2
NONE = Activations(())


def vanishing(case: Case) -> Verdict | None:
    """No unit's gradient comes back from further than a few steps."""
    flow = case.found.flow
    if flow is None or case.steps < SHORTEST_SEQUENCE:
        return None
    least = min(SHORTEST_HORIZON, case.steps // 2)
    # of a unit that no loss reaches directly, or with too few steps, it is not known
    known = np.isfinite(flow.survival).any(1) & ~(flow.censored & (flow.horizon < least))
    if not known.any() or int(flow.horizon[known].max()) >= least:
        return None
    best = int(np.where(known, flow.horizon, -1).argmax())
    horizon = int(flow.horizon[best])
    after = min(20, flow.survival.shape[1] - 1)
    rate = f"a factor of {flow.rate[best]:.2f} at each step; " if np.isfinite(flow.rate[best]) else ""
    evidence = (
        f"In the unit that remembers longest, {flow.labels[best]}, less than {percent(HORIZON)} of a gradient is left "
        f"{horizon + 1} step(s) back ({rate}{flow.survival[best, after]:.1e} after {after})."
    )
    memory = case.found.forgetting
    remember = 0 if memory is None else int(memory.horizon.max())
    if remember >= max(least, LATCHED * horizon):
        evidence += f" Yet its states tell two pasts apart for {remember} steps: what it keeps is latched."
        remedy = "Nothing, if it does what it should: a latch holds a memory still, and lets no gradient through."
        return Verdict("latched", "note", "Memory without gradients", evidence, remedy, None, "forgetting")
    if case.gated:
        keep = "Let the gates that keep the state begin open, so that a gradient has a way back: a forget bias of 2."
        return _fault("vanishing", "Gradients vanish", evidence, keep, case.command("--forget-bias", "2"), "flow")
    remedy = (
        "Take a cell whose state is kept by a gate that begins open (lstm with a forget bias of 2), or begin with "
        "orthogonal recurrent matrices, which keep a gradient's norm."
    )
    command = case.command("--cell", "lstm", "--forget-bias", "2")
    return _fault("vanishing", "Gradients vanish", evidence, remedy, command, "flow")


def exploding(case: Case) -> Verdict | None:
    """Gradients grow on their way back, and the states are not merely chaotic."""
    flow = case.found.flow
    if flow is None or is_chaotic(case):
        return None
    grown = np.array([finite_max(row) for row in flow.survival])
    steep = (grown > GROWN) & (flow.rate > GROWTH)
    if not steep.any():
        return None
    worst = int(np.where(steep, grown, -np.inf).argmax())
    lag = int(np.nanargmax(flow.survival[worst]))
    evidence = (
        f"In {flow.labels[worst]} a gradient is {grown[worst]:.3g} times as large {lag} steps back as where it began "
        f"(a factor of {flow.rate[worst]:.2f} at each step)."
    )
    if any(activity.function == "relu" for activity in (case.found.activations or NONE).values):
        remedy = (
            "Take a cell whose states are bounded and kept by a gate (lstm with a forget bias of 2): a relu lets "
            "states grow without end. Limit the gradient's norm, so that one batch cannot throw the weights far off."
        )
        options = ["--cell", "lstm", "--forget-bias", "2", "--clip", "1"]
    else:
        remedy = (
            "Begin with orthogonal recurrent matrices, whose powers do not grow, and limit the gradient's norm, so "
            "that one batch cannot throw the weights far off."
        )
        options = ["--initial", "orthogonal", "--clip", "1"]
    return _fault("exploding", "Gradients explode", evidence, remedy, case.command(*options), "flow")


def truncated(case: Case) -> Verdict | None:
    """Training goes back fewer steps than the gradient reaches."""
    found, window = case.found.truncation, case.specimen.window
    if found is None or window is None or window > len(found.windows):
        return None
    lost = float(found.overall[window - 1])
    if not lost > LOSS_WORTH_A_WORD:
        return None
    beyond = f"more than {len(found.windows)}" if found.censored else f"{found.recommended}"
    advised = len(found.windows) if found.censored else found.recommended
    evidence = (
        f"With windows of {window} steps the gradient differs from the whole one by {percent(lost)} of its norm. To be "
        f"within 1 % it needs {beyond} steps."
    )
    remedy = f"Let gradients go back further: windows of {advised} steps."
    severity: Severity = "fault" if lost > LOSS_WORTH_A_CHANGE else "warning"
    command = case.command("--window", str(advised))
    return Verdict("truncated", severity, "Training looks back too little", evidence, remedy, command, "truncation")


def _fault(key: str, title: str, evidence: str, remedy: str, command: str | None, section: str) -> Verdict:
    return Verdict(key, "fault", title, evidence, remedy, command, section)
