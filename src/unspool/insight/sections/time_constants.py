"""Time constants in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gates import draw_time_constants
from unspool.insight.measure import Measure
from unspool.insight.measures.time_constants import TimeConstants, measure_time_constants
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, row, sup
from unspool.language import Message, words


def tell(found: TimeConstants) -> Section:
    """How long units remember."""

    time = words("step(s)" if found.dt == 1 else "units of time")
    return Section(
        "time_constants",
        "How long units remember",
        "Which units are fast, and which are slow?",
        "A unit whose gate keeps the fraction f of its value per step forgets exponentially, with the time constant τ. "
        "The histogram shows the units of each layer. A task with long memory needs some slow units; a larger "
        "`forget_bias` makes units slower.",
        formula("τ = -", frac("Δt", row("ln ", sup("f", "∗")))),
        lambda: (draw_time_constants(found),),
        tuple(
            Message(
                "{label}: half of the units forget within {half:.3g} {time}; the slowest tenth remember for {slow:.3g} "
                "or longer.",
                label=one.label,
                half=float(one.quantiles[2]),
                time=time,
                slow=float(one.quantiles[3]),
            )
            for one in found.sets
            if np.isfinite(one.tau).any()
        ),
    )


TIME_CONSTANTS = Measure(
    key="time_constants",
    measure=lambda specimen: measure_time_constants(specimen.recording),
    tell=tell,
    shows=lambda found: bool(found.sets),  # nothing if none fades
    scalars=(Scalar("dt", words=None),),
    timeline="shown",
)
