"""Rules about units: dead, saturated, shut on both sides, idle."""

from __future__ import annotations

from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case, percent

#: Share of relu units that are zero at every step: beyond it they are missed.
DEAD = 0.25
#: Share of a tanh's values that lie so near ±1 that no gradient passes.
SATURATED = 0.5
#: Share of the steps at which neither a layer shows a unit nor the next one takes it in.
SHUT = 0.4
#: Directions of the state that matter, as a share of the units.
FEW = 0.05
#: Below so many units a small share says nothing.
ENOUGH_UNITS = 32


def dead(case: Case) -> Verdict | None:
    """Relu units that never fire."""
    found = case.found.activations
    known = [one for one in found.values if one.function == "relu"] if found is not None else []
    worst = max(known, key=lambda one: one.dead, default=None)
    if worst is None or not worst.dead > DEAD:
        return None
    evidence = (
        f"In {worst.label}, {percent(worst.dead)} of the units of {worst.name} are zero at every step of the data. "
        "They pass no gradient, so they will not come back by themselves."
    )
    remedy = (
        "Train anew with a cell that cannot die (elman with tanh, or lstm); if it is to be relu, begin with orthogonal "
        "matrices and a lower rate."
    )
    command = case.command("--cell", "elman")
    return Verdict("dead", "fault", "Units are dead", evidence, remedy, command, "activations")


def saturated(case: Case) -> Verdict | None:
    """Tanh states at their limits most of the time; where gates carry the state it does no harm."""
    found = case.found.activations
    if found is None or case.gated:
        return None
    worst = max((one for one in found.values if one.function == "tanh"), key=lambda one: one.saturated, default=None)
    if worst is None or not worst.saturated > SATURATED:
        return None
    evidence = (
        f"In {worst.label}, {percent(worst.saturated)} of the values of {worst.name} lie beyond ±0.97, where tanh has "
        "a slope below 0.06: hardly any gradient passes."
    )
    remedy = "Lower the rate, or begin with smaller weights; scale inputs that are far from 1 in size."
    command = case.command("--initial", "orthogonal")
    return Verdict("saturated", "warning", "Units are saturated", evidence, remedy, command, "activations")


def shut(case: Case) -> Verdict | None:
    """Output gate and next input gate closed at once."""
    found = case.found.attenuation
    worst = max(found.pairs, key=lambda pair: pair.closed, default=None) if found is not None else None
    if worst is None or not worst.closed > SHUT:
        return None
    evidence = (
        f"Between {worst.lower} and {worst.upper}, the output gate below and the input gate above are both nearer to "
        f"shut than to open in {percent(worst.closed)} of all steps and units: the signal is weakened twice."
    )
    remedy = "Let the gates agree (a penalty on both shut), or hold the lower output gate open (cell lstm-open)."
    command = case.command("--set", "gate_penalty=0.1")
    return Verdict("shut", "warning", "Neighbouring gates shut twice", evidence, remedy, command, "attenuation")


def idle(case: Case) -> Verdict | None:
    """A state that moves in few directions."""
    found = case.found.participation
    if found is None:
        return None
    for label, ratio, size in zip(found.labels, found.ratio, found.size, strict=True):
        if size >= ENOUGH_UNITS and ratio < FEW * size:
            evidence = f"The {size} units of {label} move in about {ratio:.1f} directions on this data."
            remedy = "A smaller layer would do as well and run faster; or the data is simpler than it looks."
            command = case.command("--hidden", str(max(16, size // 2)))
            return Verdict("idle", "note", "Few directions are used", evidence, remedy, command, "participation")
    return None
