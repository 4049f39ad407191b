"""Forgetting in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.memory import draw_forgetting
from unspool.insight.measure import Measure
from unspool.insight.measures.forgetting import Forgetting, measure_forgetting
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import both, formula, frac, norm, row, sub
from unspool.language import Message, at_least


def tell(found: Forgetting) -> Section:
    """How long the states differ after different prefixes."""
    return Section(
        "forgetting",
        "How fast the state forgets",
        "How long does the state remember what came before?",
        "The network reads two different prefixes and then the same suffix. The distance between its two states shows "
        "what is left of the difference. This measures memory in a second, independent way: forward through the "
        "states, where gradients go backward. A distance that stays is a past that is remembered; one that grows is "
        "chaos.",
        formula(
            "d(s) =",
            frac(
                norm(row(sub("h", "p+s"), "-", both("h", "p+s", "′"))),
                norm(row(sub("h", "p"), "-", both("h", "p", "′"))),
            ),
        ),
        lambda: (draw_forgetting(found),),
        tuple(
            Message(
                "{label}: the states differ for {least}{horizon} steps.",
                label=label,
                least=at_least(censored),
                horizon=int(horizon),
            )
            for label, horizon, censored, distance in zip(
                found.labels, found.horizon, found.censored, found.distance, strict=True
            )
            if np.isfinite(distance).any()
        ),
    )


FORGETTING = Measure(
    key="forgetting",
    measure=lambda specimen: measure_forgetting(specimen.recording),
    tell=tell,
    scalars=(
        Scalar("horizon", "forgetting horizon (steps)", rank=1, bound="censored"),
        Scalar("rate", "difference kept per step", rank=11),
    ),
    timeline="measured",
)
