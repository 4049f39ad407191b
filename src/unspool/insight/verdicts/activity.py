"""Rules about units and gates: dead, saturated, closed on both sides, few directions in use."""

from __future__ import annotations

from unspool.insight.measures.activation import Activations
from unspool.insight.measures.attenuation import Attenuation
from unspool.insight.measures.participation import Participation
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case, percent
from unspool.language import Message

#: Fraction of relu units that are zero at every step, above which they are missed.
DEAD = 0.25
#: Fraction of a tanh's values that are so near ±1 that no gradient passes.
SATURATED = 0.5
#: Fraction of steps and units at which the gates on both sides of two layers are closed.
SHUT = 0.4
#: Directions of the state that are used, as a fraction of the units.
FEW = 0.05
#: Below this number of units a small fraction means nothing.
ENOUGH_UNITS = 32


def dead(case: Case) -> Verdict | None:
    """Relu units that never fire."""
    found = case.found.get(Activations)
    known = [one for one in found.values if one.function == "relu"] if found is not None else []
    worst = max(known, key=lambda one: one.dead, default=None)
    if worst is None or not worst.dead > DEAD:
        return None
    evidence = Message(
        "In {label}, {part} of the units of {name} are zero at every step of the data. No gradient passes through "
        "them, so training cannot bring them back.",
        label=worst.label,
        part=percent(worst.dead),
        name=worst.name,
    )
    remedy = (
        'Train again with a cell whose units cannot die: `cell="elman"` (tanh) or `cell="lstm"`. If it must be relu, '
        'use `init="orthogonal"` and a lower `lr`.'
    )
    return Verdict("dead", "fault", "Units are dead", evidence, remedy, {"cell": "elman"}, "activations")


def saturated(case: Case) -> Verdict | None:
    """Tanh states at their limits most of the time; in gated cells, whose gates carry the state, it does no harm."""
    found = case.found.get(Activations)
    if found is None or case.gated:
        return None
    worst = max((one for one in found.values if one.function == "tanh"), key=lambda one: one.saturated, default=None)
    if worst is None or not worst.saturated > SATURATED:
        return None
    evidence = Message(
        "In {label}, {part} of the values of {name} are beyond ±0.97, where the slope of tanh is below 0.06. Almost no "
        "gradient passes.",
        label=worst.label,
        part=percent(worst.saturated),
        name=worst.name,
    )
    remedy = (
        'Lower `lr`, or start from smaller weights with `init="orthogonal"`. Scale inputs whose size is far from 1.'
    )
    settings = {"init": "orthogonal"}
    return Verdict("saturated", "warning", "Units are saturated", evidence, remedy, settings, "activations")


def shut(case: Case) -> Verdict | None:
    """The output gate of a layer and the input gate of the next are closed at the same time."""
    found = case.found.get(Attenuation)
    worst = max(found.pairs, key=lambda pair: pair.closed, default=None) if found is not None else None
    if worst is None or not worst.closed > SHUT:
        return None
    evidence = Message(
        "Between {lower} and {upper}, the output gate below and the input gate above are both under ½ at {part} of all "
        "steps and units. The signal is attenuated twice.",
        lower=worst.lower,
        upper=worst.upper,
        part=percent(worst.closed),
    )
    remedy = (
        "Penalize gates that are closed on both sides with `gate_penalty=0.1`, or keep the lower output gate open with "
        '`cell="lstm-open"`.'
    )
    title = "Gates are closed on both sides"
    return Verdict("shut", "warning", title, evidence, remedy, {"gate_penalty": 0.1}, "attenuation")


def idle(case: Case) -> Verdict | None:
    """A state that moves in few directions."""
    found = case.found.get(Participation)
    if found is None:
        return None
    for label, ratio, size in zip(found.labels, found.ratio, found.size, strict=True):
        if size >= ENOUGH_UNITS and ratio < FEW * size:
            smaller = int(max(16, size // 2))
            moves = "The {size} units of {label} move in about {ratio:.1f} directions on this data."
            evidence = Message(moves, size=int(size), label=label, ratio=float(ratio))
            remedy = Message(
                "Try `hidden={smaller}`: a smaller layer is faster and may do as well. Or the data is simpler than "
                "expected.",
                smaller=smaller,
            )
            title = "Few directions are used"
            return Verdict("idle", "note", title, evidence, remedy, {"hidden": smaller}, "participation")
    return None
