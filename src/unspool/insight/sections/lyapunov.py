"""Lyapunov exponents in the report."""

from __future__ import annotations

from collections.abc import Iterator

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
        "chaos. Memory lasts longest near zero; an orthogonal linear network has all exponents at zero. The interval "
        "of the largest is that of its mean over sequences and their halves.",
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
        (*_findings(found), *_extents(found)),
    )


def _findings(found: Lyapunov) -> Iterator[Message]:
    for label, largest, interval in zip(found.labels, found.largest, found.interval, strict=True):
        if not np.isnan(largest):
            yield _finding(label, float(largest), *map(float, interval))


def _extents(found: Lyapunov) -> Iterator[Message]:
    """Of layers that are too wide for all of their exponents: what was measured."""
    for label, values, states, (rows, steps) in zip(
        found.labels, found.exponents, found.states, found.measured, strict=False
    ):
        if len(values) < states:
            yield Message(
                "{label}: only the {count} largest of {states} exponents were followed, over {rows} sequence(s) of "
                "{steps} steps.",
                label=label,
                count=len(values),
                states=states,
                rows=rows,
                steps=steps,
            )


def _finding(label: str, largest: float, low: float, high: float) -> Message:
    if largest == -np.inf:
        return Message("{label}: the largest exponent is −∞: the steps remove every difference entirely.", label=label)
    known = Message(" ({low:+.3f} to {high:+.3f})", low=low, high=high) if np.isfinite([low, high]).all() else ""
    return Message(_motion(low, high), label=label, largest=largest, interval=known)


def _motion(low: float, high: float) -> str:
    """What the interval shows; NaN, as after a single step, decides nothing."""
    if low > CHAOS:
        return "{label}: the largest exponent is {largest:+.3f}{interval} nats per step; nearby states move apart."
    if high < -CHAOS:
        return "{label}: the largest exponent is {largest:+.3f}{interval} nats per step; nearby states move together."
    if low >= -CHAOS and high <= CHAOS:
        return "{label}: the largest exponent is {largest:+.3f}{interval} nats per step; states keep their distance."
    return "{label}: the largest exponent is {largest:+.3f}{interval} nats per step; the data does not decide its sign."


LYAPUNOV = Measure(
    key="lyapunov",
    weight=2,
    measure=lambda specimen: measure_lyapunov(specimen.recording),
    tell=tell,
    scalars=(Scalar("largest", "largest Lyapunov exponent (per step)", rank=3), Scalar("states", None)),
    timeline="shown",
)
