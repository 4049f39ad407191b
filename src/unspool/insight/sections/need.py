"""What the loss needs in the report."""

from __future__ import annotations

from unspool.insight.figures.memory import draw_need
from unspool.insight.measure import Measure
from unspool.insight.measures.need import Need, measure_need
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import both, formula, frac, norm, row, sub, sup
from unspool.language import Message


def tell(found: Need) -> Section:
    """Which earlier inputs would help."""
    return Section(
        "need",
        "What the loss still needs",
        "Would the loss fall if the network remembered more?",
        "The gradient e of the loss at the output of the highest layer is the error that is left. The curve shows "
        "which part of it the input k steps before explains, by the prediction p, beyond what the state and the newest "
        "inputs explain. An input that explains more than chance does is missed: the loss would fall if it were "
        "remembered. The prediction is linear, so a need for products of inputs, as in parity, is not seen.",
        formula(both("R", "k", "2"), "= 1 -", frac(sup(norm(row("e -", sub("p", "k"))), "2"), sup(norm("e"), "2"))),
        lambda: (draw_need(found),),
        (_finding(found),),
    )


def _finding(found: Need) -> Message:
    if not found.furthest:
        return Message(
            "No earlier input explains more of the error than chance ({chance:.0%}), over {places} places.",
            chance=max(0.0, found.chance),
            places=found.places,
        )
    return Message(
        "The input {strongest} step(s) back explains {part:.0%} of the error, chance {chance:.0%}; inputs up to "
        "{furthest} step(s) back explain more than chance.",
        strongest=found.strongest,
        part=float(found.explained[found.strongest - 1]),
        chance=max(0.0, found.chance),
        furthest=found.furthest,
    )


NEED = Measure(
    key="need",
    measure=lambda specimen: measure_need(specimen.recording),
    tell=tell,
    applies=lambda specimen: not specimen.stand_in,
    shows=lambda found: found.known,
    scalars=(Scalar("chance", None), Scalar("places", None)),
    timeline="measured",
)
