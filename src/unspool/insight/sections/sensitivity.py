"""Sensitivity in the report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unspool.insight.figures.memory import draw_sensitivity
from unspool.insight.measure import Measure
from unspool.insight.measures.sensitivity import Sensitivity, measure_sensitivity
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, norm, row, sub, sup, total
from unspool.language import Message, listed

ACCUMULATES = "{label} accumulates: without its recurrence the response is smaller (Δ = {delta:+.3g})."
BESIDE = "{labels}: not between this input and this output; without its recurrence the response is the same."
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
        tuple(_findings(found)),
    )


def _findings(found: Sensitivity) -> Iterator[str]:
    pairs = [*zip(found.labels, found.delta.tolist(), strict=True)]
    for label, delta in pairs:
        if np.isfinite(delta) and delta:
            yield Message(ACCUMULATES if delta > 0 else SMOOTHS, label=label, delta=delta)
    beside = [label for label, delta in pairs if delta == 0]
    if beside:
        yield Message(BESIDE, labels=listed(beside))


SENSITIVITY = Measure(
    key="sensitivity",
    weight=3,
    measure=lambda specimen: measure_sensitivity(specimen.recording),
    tell=tell,
    scalars=(Scalar("delta", "response added by recurrence", rank=16),),
)
