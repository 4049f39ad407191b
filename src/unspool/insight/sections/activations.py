"""Saturated and dead units in the report."""

from __future__ import annotations

from unspool.insight.figures.hidden_units import draw_activations
from unspool.insight.measure import Measure
from unspool.insight.measures.activation import Activations, Activity, measure_activations
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, sup
from unspool.language import Message


def tell(found: Activations) -> Section:
    """Units at their limits."""
    return Section(
        "activations",
        "Saturated and dead units",
        "Do some units pass no gradient?",
        "A tanh near ±1 and a relu at 0 have no slope. No gradient passes, and the unit cannot learn from that step. A "
        "relu unit that is zero at every step is dead: no gradient can bring it back.",
        formula(sup("tanh", "′"), "(a) = 1 -", sup("tanh", "2"), "(a)"),
        lambda: (draw_activations(found),),
        tuple(map(_finding, found.values)),
    )


def _finding(one: Activity) -> str:
    names = {"label": one.label, "name": one.name}
    if one.function == "tanh":
        return Message("{label}, {name}: {part:.0%} of the values are saturated.", part=one.saturated, **names)
    return Message("{label}, {name}: {part:.0%} of the units are dead.", part=one.dead, **names)


ACTIVATIONS = Measure(
    key="activations",
    measure=lambda specimen: measure_activations(specimen.recording),
    tell=tell,
    shows=lambda found: bool(found.values),  # nothing for a linear network
    timeline="measured",
)
