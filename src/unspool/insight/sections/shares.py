"""Shares of the steps in the weights' gradient in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gradient import count_steps, draw_step_shares
from unspool.insight.measure import Measure
from unspool.insight.measures.shares import WeightShares, measure_shares
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, frac, row, sub, total
from unspool.language import Message


def tell(found: WeightShares) -> Section:
    """Which steps the weights' gradient comes from."""
    return Section(
        "shares",
        "Which steps teach the weights",
        "Which steps does the gradient of the shared weights come from?",
        "All steps use the same weights, so the gradient of a weight is a sum over its uses. The line shows the share "
        "of each step in that sum. The shares add up to 1; a negative share pulls against the others. If few steps "
        "provide most of the gradient, the network hardly learns from the rest of the sequence.",
        formula("G =", total("t"), sub("G", "t"), ",", "share =", frac(row("⟨", sub("G", "t"), ", G⟩"), row("⟨G, G⟩"))),
        lambda: (draw_step_shares(found),),
        tuple(_findings(found)),
    )


def _findings(found: WeightShares) -> list[str]:
    lines: list[str] = []
    for label, shares, steps in zip(found.labels, found.shares, found.norms, strict=True):
        known = np.nan_to_num(shares)
        order = np.sort(np.abs(known))[::-1]
        if order.sum() > 0:
            few = int(np.searchsorted(np.cumsum(order) / order.sum(), 0.5)) + 1
            half = "{label}: half of the gradient comes from {few} of {steps} steps."
            lines.append(Message(half, label=label, few=few, steps=count_steps(steps)))
    return lines


SHARES = Measure(
    key="shares",
    weight=3,
    measure=lambda specimen: measure_shares(specimen.recording, specimen.gradient),
    tell=tell,
)
