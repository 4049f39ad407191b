"""Rules about gates: stuck ones, and those that are closed on both sides of two layers."""

from __future__ import annotations

from typing import Any

from unspool.insight.measures.attenuation import Attenuation
from unspool.insight.measures.gates import STUCK, Gate, Gates
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case, percent
from unspool.language import Message

#: Fraction of a gate's units that are stuck, above which the gate does not work.
MANY_STUCK = 0.5
#: Fraction of steps and units at which the gates on both sides of two layers are closed.
SHUT = 0.4
#: The bias that lets a gate both keep and let go.
MOVABLE = {"open": 1.0, "shut": 2.0}

SAYS = {
    "shut": "In {label}, {part} of the units of gate {name} are below {limit} at every step of the data: the gate is "
    "stuck shut, switches nothing and gets next to no gradient.",
    "open": "In {label}, {part} of the units of gate {name} are at 1, within {limit} or less, at every step of the "
    "data: the gate is stuck open, switches nothing and gets next to no gradient.",
}


def stuck(case: Case) -> Verdict | None:
    """A gate most of whose units never move from one end."""
    found = case.found.get(Gates)
    worst = max(found.gates, key=_stuck_part, default=None) if found is not None else None
    if worst is None or not _stuck_part(worst) > MANY_STUCK:
        return None
    side = "shut" if worst.stuck_shut >= worst.stuck_open else "open"
    evidence = Message(SAYS[side], label=worst.label, part=percent(_stuck_part(worst)), name=worst.name, limit=STUCK)
    remedy, settings = _free(case, worst, side)
    return Verdict("stuck", "fault", "A gate is stuck", evidence, remedy, settings, "gates")


def _stuck_part(gate: Gate) -> float:
    return max(0.0, gate.stuck_shut, gate.stuck_open)


def _free(case: Case, gate: Gate, side: str) -> tuple[str, dict[str, Any]]:
    """The remedy; the bias of a gate that keeps is a setting of its own, and only in layers that all have one."""
    if gate.role != "keep" or not case.gated:
        remedy: str = (
            'Start from other weights, of which none is large: `init="orthogonal"`. Lower `lr`, and scale inputs whose '
            "size is far from 1."
        )
        return remedy, {"init": "orthogonal"}
    sign = next(layer.cell.keeps[gate.name] for layer in case.specimen.recording.layers if gate.label == layer.label)
    keeping = side if sign > 0 else {"open": "shut", "shut": "open"}[side]
    bias = MOVABLE[keeping]
    remedy = Message(
        "Start with a bias from which the gate can move either way: `forget_bias={bias}`. Lower `lr`, and scale inputs "
        "whose size is far from 1.",
        bias=bias,
    )
    return remedy, {"forget_bias": bias}


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
