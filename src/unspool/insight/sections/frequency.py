"""Frequency response in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.frequency import draw_bode
from unspool.insight.measure import Measure
from unspool.insight.measures.frequency import Frequency, measure_frequency
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, root, row, sup
from unspool.insight.specimen import Specimen
from unspool.language import Message

#: Frequencies to measure; fewer for long sequences, as each takes a run over all steps.
WAVES, FEWEST_WAVES = 12, 4
#: Steps that all these runs may have together.
WAVE_STEPS = 5_000


def measure(specimen: Specimen) -> Frequency:
    """The response at as many frequencies as the length of the sequences allows."""
    steps = max(1, *(len(layer.x) for layer in specimen.recording.layers))
    return measure_frequency(specimen.recording, max(FEWEST_WAVES, min(WAVES, WAVE_STEPS // steps)))


def tell(found: Frequency) -> Section:
    """Which frequencies pass."""
    return Section(
        "frequency",
        "Frequency response",
        "Does a layer respond to what is slow or to what is fast?",
        "A small sine wave is added to the input, and its amplitude is measured after every layer. A layer that keeps "
        "its state is a low-pass filter: slow waves pass, fast ones are smoothed away. The thin lines show the formula "
        "of a first-order filter with the best-fitting pole a. In a stack the gains multiply.",
        formula("g(ω) =", frac("1", root(row("1 - 2a cos ω +", sup("a", "2"))))),
        lambda: (draw_bode(found),),
        tuple(_findings(found)),
    )


def _findings(found: Frequency) -> list[str]:
    lines: list[str] = []
    for label, pole, stack in zip(found.labels, found.pole, found.stack, strict=True):
        if np.isfinite(pole) and np.isfinite(stack).any():
            slow = stack[0] / stack[-1] if stack[-1] else np.inf
            lines.append(
                Message(
                    "{label}: fits a filter with a = {pole:.2f}; the slowest waves pass {slow:.2g} times as well as "
                    "the fastest.",
                    label=label,
                    pole=pole,
                    slow=slow,
                )
            )
    return lines


FREQUENCY = Measure(
    key="frequency",
    weight=6,
    measure=measure,
    tell=tell,
    scalars=(Scalar("pole", "pole of the frequency response", rank=17),),
)
