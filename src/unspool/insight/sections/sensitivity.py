"""Sensitivity in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.memory import draw_sensitivity
from unspool.insight.measure import Measure
from unspool.insight.measures.sensitivity import Sensitivity, measure_sensitivity
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, norm, row, sub, sup, total
from unspool.language import Message

ACCUMULATES = "{label} accumulates: without its recurrence the response is smaller (Δ = {delta:+.3g})."
SMOOTHS = "{label} smooths: without its recurrence the response is larger (Δ = {delta:+.3g})."


def tell(found: Sensitivity) -> Section:
    """What each layer's recurrence adds."""
    return Section(
        "sensitivity",
        "What each layer's recurrence adds",
        "How long does one input affect the output, and which layer remembers it?",
        "The input of one step is changed a little, and the change of the output is followed. The thick line is the "
        "whole network; the others are the same network without the recurrence of one layer. A line far below the "
        "thick one means that this layer carries the memory.",
        formula(
            "K(τ) =",
            norm(frac(row("∂", sub("y", "t+τ")), row("∂", sub("x", "t")))),
            ",",
            sub("Δ", "ℓ"),
            "=",
            total("τ"),
            "|K(τ)| -",
            total("τ"),
            "|",
            sup("K", "(-ℓ)"),
            "(τ)|",
        ),
        lambda: (draw_sensitivity(found),),
        tuple(
            Message(ACCUMULATES if delta > 0 else SMOOTHS, label=label, delta=float(delta))
            for label, delta in zip(found.labels, found.delta, strict=True)
            if np.isfinite(delta) and delta  # a layer beside the path from input to output adds nothing
        ),
    )


SENSITIVITY = Measure(
    key="sensitivity",
    weight=3,
    measure=lambda specimen: measure_sensitivity(specimen.recording),
    tell=tell,
    scalars=(Scalar("delta", "response added by recurrence", rank=16),),
)
