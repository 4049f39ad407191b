"""Participation in the report."""

from __future__ import annotations

from unspool.insight.figures.hidden_units import draw_participation
from unspool.insight.measure import Measure
from unspool.insight.measures.participation import Participation, measure_participation
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import both, formula, frac, row, sub, sup, total
from unspool.language import Message


def tell(found: Participation) -> Section:
    """How many directions the states use."""
    return Section(
        "participation",
        "How much of the state is used",
        "How many of the units are needed?",
        "If all units moved independently, the states would use as many directions as there are units. The "
        "participation ratio estimates how many directions are used. The curve shows how the variance is distributed "
        "among them.",
        formula(
            "PR =",
            frac(
                row(sup(row("(", total("i"), sub("λ", "i"), ")"), "2")),
                row(total("i"), both("λ", "i", "2")),
            ),
        ),
        lambda: (draw_participation(found),),
        tuple(
            Message("{label}: {ratio:.1f} of {size} directions.", label=label, ratio=float(ratio), size=int(size))
            for label, ratio, size in zip(found.labels, found.ratio, found.size, strict=True)
        ),
    )


PARTICIPATION = Measure(
    key="participation",
    measure=lambda specimen: measure_participation(specimen.recording),
    tell=tell,
    scalars=(
        Scalar("ratio", "directions in use", rank=13),
        Scalar("size", "hidden units", rank=14),
        Scalar("near_constant", "fraction of near-constant units", rank=15),
        Scalar("still", "fraction of units that ignore input", rank=16),
    ),
)
