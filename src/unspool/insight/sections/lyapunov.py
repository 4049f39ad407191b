"""Lyapunov exponents in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.dynamics import draw_lyapunov
from unspool.insight.measure import Measure
from unspool.insight.measures.lyapunov import CHAOS, Lyapunov, measure_lyapunov
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import both, formula, frac, row, sub, total
from unspool.language import Message


def tell(found: Lyapunov) -> Section:
    """Whether nearby states move apart or together."""
    return Section(
        "lyapunov",
        "Order or chaos",
        "Do small differences grow or fade?",
        "Lyapunov exponents are the mean rates at which small differences of the state grow, one for each direction. "
        "If all are below zero, the network settles and forgets. If the largest is above zero, every difference grows: "
        "chaos. Memory lasts longest near zero; an orthogonal linear network has all exponents at zero.",
        formula(
            sub("λ", "i"),
            "=",
            frac("1", "T"),
            total("t"),
            "ln",
            row("|", both("R", "ii", "(t)"), "|"),
            ",",
            sub("J", "t"),
            sub("Q", "t-1"),
            "=",
            sub("Q", "t"),
            sub("R", "t"),
        ),
        lambda: (draw_lyapunov(found),),
        tuple(
            Message(_motion(largest), label=label, largest=float(largest))
            for label, largest in zip(found.labels, found.largest, strict=True)
            if np.isfinite(largest)
        ),
    )


def _motion(largest: float) -> str:
    if largest > CHAOS:
        return "{label}: the largest exponent is {largest:+.3f} nats per step; nearby states move apart."
    if largest < -CHAOS:
        return "{label}: the largest exponent is {largest:+.3f} nats per step; nearby states move together."
    return "{label}: the largest exponent is {largest:+.3f} nats per step; nearby states keep their distance."


LYAPUNOV = Measure(
    key="lyapunov",
    weight=2,
    measure=lambda specimen: measure_lyapunov(specimen.recording),
    tell=tell,
    scalars=(Scalar("largest", "largest Lyapunov exponent (per step)", rank=3),),
    timeline="shown",
)
