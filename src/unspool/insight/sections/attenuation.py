"""Gates that are closed on both sides in the report."""

from __future__ import annotations

from unspool.insight.figures.gates import draw_attenuation
from unspool.insight.measure import Measure
from unspool.insight.measures.attenuation import Attenuation, measure_attenuation
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, sup
from unspool.language import Message


def tell(found: Attenuation) -> Section:
    """Gates that are closed on both sides."""
    return Section(
        "attenuation",
        "Gates closed on both sides",
        "Is a signal attenuated twice between two layers?",
        "In stacked LSTM layers a signal passes the output gate of one layer and the input gate of the next. If both "
        "are under ½, it is attenuated twice, and so is its gradient.",
        formula("closed = P(", sup("o", "(ℓ)"), "< ½,", sup("i", "(ℓ+1)"), "< ½)"),
        lambda: (draw_attenuation(found),),
        tuple(
            Message(
                "{lower} → {upper}: both gates are under ½ at {closed:.0%} of steps and units.",
                lower=pair.lower,
                upper=pair.upper,
                closed=pair.closed,
            )
            for pair in found.pairs
        ),
    )


ATTENUATION = Measure(
    key="attenuation",
    measure=lambda specimen: measure_attenuation(specimen.recording),
    tell=tell,
    shows=lambda found: bool(found.pairs),  # nothing without stacked layers that have such gates
    timeline="measured",
)
