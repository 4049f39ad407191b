"""Truncation in the report."""

from __future__ import annotations

from collections.abc import Iterator

from unspool.insight.figures.gradient import draw_truncation
from unspool.insight.measure import Measure
from unspool.insight.measures.truncation import Truncation, measure_truncation
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, norm, row, sub, total
from unspool.language import Message

#: Windows at most, as many as lags of the gradient flow.
WINDOWS = 128


def tell(found: Truncation) -> Section:
    """What truncated backpropagation loses."""
    return Section(
        "truncation",
        "What truncation costs",
        "How many steps must training go back?",
        "Truncated backpropagation follows the gradient over a window of k steps and drops the rest, which is the sum "
        "of all longer paths. The curve shows how far the truncated gradient is from the full one, for every k. Where "
        "it has fallen to 1 %, a longer window gains nothing.",
        formula(
            sub("G", "k"),
            "-",
            "G",
            "=",
            "-",
            total("j≥k"),
            sub("g", "j"),
            ",",
            "bias =",
            frac(norm(row("G-", sub("G", "k"))), norm("G")),
        ),
        lambda: (draw_truncation(found),),
        tuple(_findings(found)),
    )


def _findings(found: Truncation) -> Iterator[str]:
    enough = "{steps} steps are enough for a gradient within 1 % of the full one."
    known: dict[str, float] = {"steps": found.recommended}
    if found.unmeasured:
        enough = (
            "With {steps} steps the gradient is still off by {left:.1%}. Longer windows were not measured, as they "
            "take long in a network of this size."
        )
        known["left"] = float(found.overall[-1])
    elif found.censored:
        enough = (
            "At least {steps} steps are needed for a gradient within 1 % of the full one; the data has too few steps "
            "to tell whether they are enough."
        )
    yield Message(enough, **known)
    if found.lost is not None:
        off = "With this run's `bptt={bptt}` the gradient is off by {lost:.1%}."
        yield Message(off, bptt=found.bptt, lost=found.lost)


TRUNCATION = Measure(
    key="truncation",
    weight=5,
    measure=lambda specimen: measure_truncation(specimen.recording, specimen.gradient, WINDOWS, specimen.bptt),
    tell=tell,
    scalars=(
        Scalar("recommended", "recommended window (steps)", rank=2, bound="censored"),
        Scalar("bptt", "training window (steps)", rank=20),
    ),
    timeline="shown",
)
