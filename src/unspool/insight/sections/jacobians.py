"""Jacobians in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.jacobians import draw_lag_bands, draw_step_bands
from unspool.insight.measure import Measure
from unspool.insight.measures.jacobians import Jacobians, measure_jacobians
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, product, row, sub
from unspool.language import Message


def tell(found: Jacobians) -> Section:
    """What one step does to a small change."""
    return Section(
        "jacobians",
        "What a step does to a small change",
        "Does the network stretch or shrink what it remembers?",
        "The Jacobian of a step says how a small change of the state before the step appears after it. Its singular "
        "values are factors of stretching, one for each direction. The bands by lag show how they multiply over many "
        "steps: a falling band is a direction that is forgotten, an upper edge near 1 is memory that lasts.",
        formula(
            sub("J", "t"),
            "=",
            frac(row("∂", sub("h", "t")), row("∂", sub("h", "t-1"))),
            ",",
            row("σ", "("),
            product("j<k"),
            sub("J", "t-j"),
            ")",
        ),
        lambda: (draw_lag_bands(found), draw_step_bands(found)),
        tuple(_findings(found)),
    )


def _findings(found: Jacobians) -> list[str]:
    lines: list[str] = []
    for label, steps, radius in zip(found.labels, found.singular, found.radius, strict=True):
        known = steps[np.isfinite(steps[:, 2])]
        if len(known):
            lines.append(
                Message(
                    "{label}: a step multiplies a small change by {median:.2f} in the median direction and by "
                    "{strongest:.2f} in the strongest; the mean spectral radius is {radius:.2f}.",
                    label=label,
                    median=float(np.median(known[:, 2])),
                    strongest=float(np.median(known[:, 4])),
                    radius=float(radius),
                )
            )
    return lines


JACOBIANS = Measure(
    key="jacobians",
    weight=4,
    measure=lambda specimen: measure_jacobians(specimen.recording),
    tell=tell,
    scalars=(Scalar("radius", "spectral radius of a step", rank=12),),
)
