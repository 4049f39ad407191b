"""Frequency response in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.canvas import anything
from unspool.insight.figures.frequency import draw_bode
from unspool.insight.measure import Measure
from unspool.insight.measures.frequency import FITS, Frequency, measure_frequency
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, root, row, sup
from unspool.insight.specimen import Specimen
from unspool.language import Message, words

#: Frequencies to measure; fewer for long sequences, as each takes a run over all steps.
WAVES, FEWEST_WAVES = 12, 4
#: Steps that all these runs may have together, and steps × parameters.
WAVE_STEPS, WAVE_WORK = 5_000, 4e9
#: A ratio this near to 1 is no difference.
ALIKE = 0.05


def measure(specimen: Specimen) -> Frequency:
    """The response at as many frequencies as the length of the sequences and the size of the layers allow."""
    layers = specimen.recording.layers
    steps = max(1, *(len(layer.x) for layer in layers))
    parameters = 1 + sum(value.numel() for layer in layers for value in layer.parameters.values())
    most = min(WAVES, WAVE_STEPS // steps, int(WAVE_WORK / (steps * parameters)))
    return measure_frequency(specimen.recording, max(FEWEST_WAVES, most))


def tell(found: Frequency) -> Section:
    """Which frequencies pass."""
    return Section(
        "frequency",
        "Frequency response",
        "Does a layer respond to what is slow or to what is fast?",
        "A small sine wave is added to the input, and its amplitude is measured after every layer. A layer that keeps "
        "its state is a low-pass filter: slow waves pass, fast ones are smoothed away. The thin lines show the formula "
        "of a first-order filter with the best-fitting pole a, where its error is at most 10 %. In a stack the gains "
        "multiply.",
        formula("g(ω) =", frac("1", root(row("1 - 2a cos ω +", sup("a", "2"))))),
        lambda: (draw_bode(found),) if anything(found.gains) else (),
        tuple(_findings(found)),
    )


def _findings(found: Frequency) -> list[str]:
    if not anything(found.gains):
        return [words("No frequency response can be measured: the sequences are too short, or no input is read.")]
    lines: list[str] = []
    for label, pole, error, stack in zip(found.labels, found.pole, found.error, found.stack, strict=True):
        if np.isfinite(stack).any():
            slow = float(stack[0] / stack[-1]) if stack[-1] else np.inf
            says = "{label}: {fit}; the slowest waves pass {slow:.2g} times as well as the fastest."
            if abs(slow - 1) < ALIKE:
                says = "{label}: {fit}; the slowest waves pass as well as the fastest."
            lines.append(Message(says, label=label, fit=_fit(float(pole), float(error)), slow=slow))
    return lines


def _fit(pole: float, error: float) -> Message:
    if np.isnan(pole):
        return words("no stable filter of first order fits")
    if error > FITS:
        return Message("no filter of first order fits (the nearest is off by {error:.0%})", error=error)
    return Message("fits a filter with a = {pole:.2f} (within {error:.1%})", pole=pole, error=error)


FREQUENCY = Measure(
    key="frequency",
    weight=6,
    measure=measure,
    tell=tell,
    scalars=(
        Scalar("pole", "pole of the nearest filter", rank=17),
        Scalar("error", "relative error of that filter", rank=18),
    ),
)
